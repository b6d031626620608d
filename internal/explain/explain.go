// Package explain formats the details that a handler reports in addition to its result: the operation that
// was in progress at the deadline of an attempt, and the beginning of a response. They go into the details of the
// outcome, and never into its output, which is the text of an event.
package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/probe"
)

// MaxBody is the maximum number of bytes that are shown of a response, after escaping.
const MaxBody = 256

// Wait describes the operation of an attempt at its deadline.
type Wait struct {
	Call  string        // "read", "dial", "tls", "exec"; "guest" for a guest that was not in a call
	Where string        // the address or the command; may be empty
	Doing string        // "" means waiting
	For   time.Duration // since the call began
	Saw   []string      // observations about the peer
	Own   []string      // observations about the attempt itself, such as its earlier waits
	Told  bool          // the output of the attempt has a better text about the cause
}

// Maximum length in bytes of Where, and of a Wait as text.
const (
	maxWhere = 2 << 10
	maxWait  = 4 << 10
	maxSaw   = 512 // of Awaited
)

// String returns w on one line of a bounded length.
func (w *Wait) String() string {
	doing := w.Doing
	if doing == "" {
		doing = "waiting"
	}
	if w.For > 0 {
		doing += " for " + Round(w.For).String()
	}
	parts := slices.Concat([]string{doing}, w.Saw, w.Own)
	return oneLine(strings.TrimSpace(w.Call+" "+w.where()) + ": " + strings.Join(parts, "; "))
}

func (w *Wait) where() string { return clip.Text(w.Where, maxWhere) }

func oneLine(text string) string { return clip.Text(OneLine(text), maxWait) }

// Event returns w as the last event of its attempt.
func (w *Wait) Event() probe.TraceEvent {
	parts := slices.Concat(w.Saw, w.Own)
	if w.Doing != "" {
		parts = append([]string{w.Doing}, parts...)
	}
	detail := strings.Join(parts, "; ")
	if w.Where != "" && detail != "" {
		detail = w.where() + ": " + detail
	} else {
		detail = w.where() + detail
	}
	return probe.TraceEvent{Type: probe.TraceWait, Name: w.Call, Detail: oneLine(detail), Duration: w.For}
}

// Report adds w to the details of out, and emits it as an event.
func (w *Wait) Report(t probe.Tracer, out *probe.Outcome) {
	t.Emit(w.Event())
	w.Describe(out)
}

// Describe adds w to the details of out.
func (w *Wait) Describe(out *probe.Outcome) {
	d := Read(out.Details)
	d.Waiting = w.String()
	if !w.Told {
		d.Awaited = w.awaited()
	}
	out.Details = d.String()
}

// awaited returns the part of w that is the same at each attempt with the same cause.
func (w *Wait) awaited() Awaited {
	parts := w.Saw
	if w.Doing != "" {
		parts = append([]string{w.Doing}, parts...)
	}
	short := func(text string) string { return clip.Text(OneLine(text), maxSaw) }
	return Awaited{Call: short(w.Call), Where: short(w.Where), Saw: short(strings.Join(parts, "; "))}
}

// Round rounds a duration for display.
func Round(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	case d >= 100*time.Microsecond:
		return d.Round(10 * time.Microsecond)
	default:
		return d.Round(time.Microsecond)
	}
}

// Bytes returns a text with the number of bytes sent and received over a connection.
func Bytes(sent, received int64) string {
	unit := "bytes"
	if sent == 1 {
		unit = "byte"
	}
	return fmt.Sprintf("%d %s sent, %d received", sent, unit, received)
}

// maxLine is the maximum number of bytes of a quoted line of output.
const maxLine = 100

// Output returns a text with the number of bytes that a command wrote, and its last line. The caller has redacted
// text.
func Output(text string) string {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return "no output"
	}
	last := trimmed[strings.LastIndexByte(trimmed, '\n')+1:]
	return fmt.Sprintf(`%d bytes of output, the last line "%s"`, len(text), Excerpt(last, maxLine))
}

// CPU returns a text with the CPU time of a command without its children, and its relation to the elapsed time. That
// distinguishes a busy loop from a sleep.
func CPU(used, took time.Duration) string {
	what := "it waited"
	switch {
	case used > took/2:
		what = "it computed"
	case used > took/10: // a busy host may not have given it more
		what = "it computed some of the time"
	}
	return what + ": " + Round(used).String() + " of processor time, without its children"
}

// Command returns a command on one line. It quotes words that a shell would split or expand.
func Command(words []string) string {
	special := func(r rune) bool {
		plain := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./:=,@%+", r)
		return !plain
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = w
		if w == "" || strings.ContainsFunc(w, special) {
			quoted[i] = strconv.Quote(w)
		}
	}
	return strings.Join(quoted, " ")
}

// maxShort is the approximate maximum length of [ShortCommand] in bytes. A pod may have a command of 256 KiB.
const maxShort = 1 << 10

// ShortCommand returns the beginning of [Command].
func ShortCommand(words []string) string {
	left := maxShort
	for i, w := range words {
		if left -= len(w) + 1; left < 0 {
			return Command(append(slices.Clone(words[:i]), clip.Bytes(w, max(0, left+len(w)+1))))
		}
	}
	return Command(words)
}

// Details are the fields that prober's own handlers add to [probe.Outcome.Details].
type Details struct {
	Waiting string  `json:"waiting,omitzero"` // see [Wait]
	Awaited Awaited `json:"awaited,omitzero"`
	Body    string  `json:"body,omitzero"` // see [Excerpt]
}

// Awaited is the operation that the deadline of an attempt ended, for the cause of a failure. It has neither durations
// of waits nor counts of calls, which differ between attempts.
type Awaited struct {
	Call  string `json:"call,omitzero"`  // as in [Wait]
	Where string `json:"where,omitzero"` // as in [Wait]
	Saw   string `json:"saw,omitzero"`   // observations about the peer
}

// After returns text, the output of an attempt that missed its deadline, with a. It omits the place if text has it.
func (a Awaited) After(text string) string {
	at := strings.TrimSpace(a.Call + " " + a.Where)
	if a.Where != "" && strings.Contains(text, a.Where) {
		at = ""
	}
	for _, part := range []string{at, a.Saw} {
		if part != "" {
			text += ": " + part
		}
	}
	return text
}

// String returns d as a JSON object; "" if it is empty.
func (d Details) String() string {
	if d == (Details{}) {
		return ""
	}
	text, _ := json.Marshal(d) // strings can always be encoded
	return string(text)
}

// Read returns the Details in the details of an outcome. It ignores a field of another type, which a plugin may have
// set.
func Read(details string) Details {
	var fields struct{ Waiting, Awaited, Body json.RawMessage }
	if details == "" || json.Unmarshal([]byte(details), &fields) != nil {
		return Details{}
	}
	d := Details{Waiting: text(fields.Waiting), Body: text(fields.Body)}
	if json.Unmarshal(fields.Awaited, &d.Awaited) != nil {
		d.Awaited = Awaited{}
	}
	return d
}

func text(raw json.RawMessage) (s string) {
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// Excerpt returns the beginning of text, in at most most bytes. Non-printable characters and invalid UTF-8 are
// escaped as %q does, and backslashes are doubled, so that no text can move a cursor or break a line. A
// truncated text ends in "…", which counts.
func Excerpt(text string, most int) string {
	const mark = "…"
	var b strings.Builder
	fits := 0 // bytes of b that leave room for the mark
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		piece := escape(r, text[:size])
		if b.Len()+len(piece) > most {
			return b.String()[:fits] + mark
		}
		b.WriteString(piece)
		if b.Len() <= most-len(mark) {
			fits = b.Len()
		}
		text = text[size:]
	}
	return b.String()
}

func escape(r rune, raw string) string {
	switch {
	case r == '\\':
		return `\\`
	case r == utf8.RuneError && len(raw) == 1:
		return fmt.Sprintf(`\x%02x`, raw[0])
	case strconv.IsPrint(r): // not a control character, nor a change of direction
		return raw
	default:
		quoted := strconv.QuoteRune(r)
		return quoted[1 : len(quoted)-1]
	}
}
