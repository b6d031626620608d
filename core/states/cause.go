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
	"github.com/daeace23/prober/probe"
)

// Cause is why a probe is in its state.
type Cause struct {
	// Reason is from the closed list of the metrics, [probe.Reason], or "not_running"; "" if the
	// attempt gave none.
	Reason string
	// Text is the output or the error of the attempt, which a target may have written, as one line. It may have
	// control characters and bytes that are not UTF-8, and has at most [MaxText] bytes.
	Text string
}

// MaxText is the most bytes of [Cause.Text].
const MaxText = 1 << 10

// ended is the cause of the state of a container that does not run.
var ended = Cause{string(results.NotRunning), "the container does not run"}

// Is reports whether c and d are one cause: their reasons are equal, and so are their texts but for
// numbers; see [Alike].
func (c Cause) Is(d Cause) bool { return c.Reason == d.Reason && Alike(c.Text, d.Text) }

// Alike reports whether two texts are equal but for numbers, such as a latency, an address or a port. Status
// codes are compared: a word of three digits from 100 to 599.
func Alike(a, b string) bool { return alike(a, b) }

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

// number returns the end of the number at i with its unit, such as "12.5ms" and "10.0.0.7:80"; i for none.
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

// isStatus reports whether text[from:to], a number, is a status code.
func isStatus[T string | []byte](text T, from, to int) bool {
	return to-from == 3 && '1' <= text[from] && text[from] <= '5' && isDigit(text, from+1) && isDigit(text, from+2)
}

// causeOf returns the cause of a tick, with a text that [cut] still has to cut.
func causeOf(t *worker.Tick) Cause {
	c := Cause{string(t.Outcome.Reason), t.Outcome.Output}
	if t.Err != nil {
		c = Cause{string(probe.ReasonOf(t.Err)), t.Err.Error()}
	}
	c.Text = clip.Bytes(strings.TrimSpace(c.Text), 4*MaxText) // which bounds the work for a long text
	if strings.ContainsFunc(c.Text, isBreak) {
		c.Text = strings.Join(strings.Fields(c.Text), " ") // readers remove escape sequences, which need their first character
	}
	return c
}

// isBreak reports whether r is white space other than a plain one, such as the end of a line.
func isBreak(r rune) bool { return r != ' ' && unicode.IsSpace(r) }

// A change of the cause is told when it has lasted for so many ticks, or for so long.
const (
	causeTicks = 3
	causeTime  = time.Minute
)

// why is the cause of a state that is not a success.
type why struct {
	reason string
	text   []byte    // is used again, so that a tick with another text of one line allocates nothing
	ticks  int       // in a row with this cause
	since  time.Time // the end of the first of them
	told   Cause
}

// cause returns a copy of w.
func (w *why) cause() Cause { return Cause{w.reason, string(w.text)} }

// is reports whether c is the cause of w, word by word.
func (w *why) is(c Cause) bool {
	text, mark := cut(c.Text)
	return w.reason == c.Reason && len(w.text) == len(text)+len(mark) && string(w.text[:len(text)]) == text
}

// alike reports whether c and w are one cause; see [Cause.Is].
func (w *why) alike(c Cause) bool {
	text, mark := cut(c.Text)
	return w.reason == c.Reason && alike(bytes.TrimSuffix(w.text, []byte(mark)), text)
}

// set makes c the newest cause.
func (w *why) set(c Cause) {
	text, mark := cut(c.Text)
	w.reason, w.text = c.Reason, append(append(w.text[:0], text...), mark...)
}

// lasts reports whether the newest cause is another one than was told, and has lasted.
func (w *why) lasts(now time.Time) bool {
	lasts := w.ticks >= causeTicks || w.ticks > 1 && now.Sub(w.since) >= causeTime
	return lasts && !w.alike(w.told)
}

// cut returns the begin of text, and what marks that there is more; together at most [MaxText] bytes.
func cut(text string) (begin, mark string) {
	if len(text) <= MaxText {
		return text, ""
	}
	mark = "…"
	return clip.Bytes(text, MaxText-len(mark)), mark
}
