package states

import (
	"bytes"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// Cause is the reason why a probe is in its state.
type Cause struct {
	// Reason is one of the reasons of the metrics, [probe.Reason], or "not_running". It is "" if the
	// attempt had none.
	Reason string
	// Text is the output or the error of the attempt, on one line, and what it waited for at its deadline. A target may have written it. It may
	// contain control characters and invalid UTF-8, and has at most [MaxText] bytes.
	Text string
}

// MaxText is the maximum length of [Cause.Text] in bytes.
const MaxText = 1 << 10

// ended is the cause of the state of a container that is not running.
var ended = Cause{string(results.NotRunning), "the container does not run"}

// Is reports whether c and d are the same cause: their reasons are equal, and their texts are alike; see
// [Alike].
func (c Cause) Is(d Cause) bool { return c.Reason == d.Reason && Alike(c.Text, d.Text) }

// Alike reports whether two texts are equal except for numbers, such as a latency, an address or a port.
// Numbers of three digits from 100 to 599 are compared, because they may be status codes.
func Alike(a, b string) bool { return a == b || alike(a, b) }

func alike[A, B string | []byte](a A, b B) bool {
	i, k := 0, 0
	for i < len(a) && k < len(b) {
		x, y := number(a, i), number(b, k)
		if isStatus(a, i, x) || isStatus(b, k, y) || x == i || y == k {
			x, y = max(x, i+1), max(y, k+1)
			if string(a[i:x]) != string(b[k:y]) {
				return false
			}
		}
		i, k = x, y
	}
	return i == len(a) && k == len(b)
}

// Pattern returns text with 0 in place of each number that [Alike] ignores. Texts have equal patterns if and only
// if they are alike, so that a pattern can be the key of a map.
func Pattern(text string) string {
	var b strings.Builder
	kept := 0 // begin of the part that is not in b yet
	for i := 0; i < len(text); {
		end := number(text, i)
		if end > i && !isStatus(text, i, end) {
			b.WriteString(text[kept:i])
			b.WriteByte('0')
			kept = end
		}
		i = max(end, i+1)
	}
	if kept == 0 {
		return text
	}
	b.WriteString(text[kept:])
	return b.String()
}

// number returns the end of the number at i with its unit, such as "12.5ms" and "10.0.0.7:80"; i if there
// is none.
func number[T string | []byte](text T, i int) (end int) {
	if !isDigit(text, i) {
		return i
	}
	for end = i; end < len(text); end++ {
		c := text[end]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || c >= utf8.RuneSelf
		if !letter && !isDigit(text, end) && !((c == '.' || c == ':') && isDigit(text, end+1)) {
			break
		}
	}
	return end
}

func isDigit[T string | []byte](text T, i int) bool {
	return i < len(text) && '0' <= text[i] && text[i] <= '9'
}

// isStatus reports whether the number text[from:to] may be a status code.
func isStatus[T string | []byte](text T, from, to int) bool {
	return to-from == 3 && '1' <= text[from] && text[from] <= '5' && isDigit(text, from+1) && isDigit(text, from+2)
}

// causeOf returns the cause of a tick. The caller must shorten its text with [cut].
func causeOf(t *worker.Tick) Cause {
	c := Cause{string(t.Outcome.Reason), t.Outcome.Output}
	switch {
	case t.Err != nil:
		c = Cause{string(probe.ReasonOf(t.Err)), t.Err.Error()}
	case t.Outcome.Details != "":
		c.Text = explain.Read(t.Outcome.Details).Awaited.After(strings.TrimSpace(c.Text))
	}
	c.Text = clip.Bytes(strings.TrimSpace(c.Text), 4*MaxText) // bounds the work for a long text
	if strings.ContainsFunc(c.Text, isBreak) {
		c.Text = strings.Join(strings.Fields(c.Text), " ") // readers remove escape sequences by their first character, so it must be kept
	}
	return c
}

// isBreak reports whether r is white space other than a space, such as a line break.
func isBreak(r rune) bool { return r != ' ' && unicode.IsSpace(r) }

// A new cause is reported after this number of ticks, or after this time.
const (
	causeTicks = 3
	causeTime  = time.Minute
)

// why tracks the cause of a state other than success.
type why struct {
	reason   string
	text     []byte    // reused, so that a tick with another one-line text allocates nothing
	ticks    int       // number of consecutive ticks with this cause
	since    time.Time // end of the first of these ticks
	reported Cause
}

// cause returns the cause as a value.
func (w *why) cause() Cause { return Cause{w.reason, string(w.text)} }

// equal reports whether c equals the cause of w exactly.
func (w *why) equal(c Cause) bool {
	text, mark := cut(c.Text)
	return w.reason == c.Reason && len(w.text) == len(text)+len(mark) && string(w.text[:len(text)]) == text
}

// alike reports whether c and w are the same cause; see [Cause.Is].
func (w *why) alike(c Cause) bool {
	text, mark := cut(c.Text)
	return w.reason == c.Reason && alike(bytes.TrimSuffix(w.text, []byte(mark)), text)
}

// set makes c the newest cause.
func (w *why) set(c Cause) {
	text, mark := cut(c.Text)
	w.reason, w.text = c.Reason, append(append(w.text[:0], text...), mark...)
}

// hasLasted reports whether the newest cause differs from the reported one, and has lasted.
func (w *why) hasLasted(now time.Time) bool {
	lasted := w.ticks >= causeTicks || w.ticks > 1 && now.Sub(w.since) >= causeTime
	return lasted && !w.alike(w.reported)
}

// cut returns the beginning of text, and a mark if text is longer. Together they have at most [MaxText]
// bytes.
func cut(text string) (begin, mark string) {
	if len(text) <= MaxText {
		return text, ""
	}
	mark = "…"
	return clip.Bytes(text, MaxText-len(mark)), mark
}
