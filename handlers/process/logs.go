package process

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"
)

// logWindow is what the limits of log lines are about, for a process that writes outside
// of attempts: so many lines and bytes in so long a time.
const logWindow = 10 * time.Second

// maxWords is the most bytes of a line that is quoted in an error.
const maxWords = 200

// maxQuote is the most bytes of a message that are quoted in an error.
const maxQuote = 512

// lineLog hands what a process writes to the log, line by line and within limits. It reads
// on when they are reached, if more slowly: a process never waits for the log.
type lineLog struct {
	logger          *slog.Logger
	name            string // of the plugin
	maxLines, bytes int
	redact          func(text string) string
	muted           func() bool // while nothing is handed on to anyone but who asked

	mu           sync.Mutex
	began        time.Time // of the window
	lines, taken int
	dropped      int
	said, hushed words     // while it was not muted, and while it was, since it was last asked about a config
	asking       int       // questions about configs that are under way
	refused      time.Time // when a config last was, or was not answered for
	shared       bool      // hushed may be of several questions
}

// words are what is quoted of standard error.
type words struct {
	last  []byte // the last line
	fault []byte // the first that tells of a panic
}

func (w *words) note(text []byte) {
	w.last = append(w.last[:0], text...)
	if w.fault == nil && (bytes.HasPrefix(text, []byte("panic: ")) || bytes.HasPrefix(text, []byte("fatal error: "))) {
		w.fault = bytes.Clone(text)
	}
}

// copy logs all lines of r until its end. What is dropped is read at rate.
func (l *lineLog) copy(stream string, r io.Reader, rate int) {
	// A line that is within the limits comes in one piece: in parts no secret in it would be
	// found that is on both sides.
	in := bufio.NewReaderSize(r, max(4<<10, l.bytes+1))
	dropped := pace{rate: rate}
	for {
		line, err := in.ReadSlice('\n')
		if text := bytes.TrimRight(line, "\r\n"); len(text) == 0 || !l.line(stream, text) {
			dropped.add(len(line))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) { // a line over the limits comes in parts
			return
		}
	}
}

// How many bytes of what is dropped are read in a millisecond. By way of go-plugin they
// come in messages of a kilobyte at most.
const (
	pipeRate  = 64 << 10
	stdioRate = 16 << 10
)

// pace holds back the reading of what is dropped: whoever writes more than anyone will
// read has the time to wait.
type pace struct{ rate, taken int }

func (p *pace) add(n int) {
	if p.taken += n; p.taken >= p.rate {
		p.taken = 0
		time.Sleep(time.Millisecond)
	}
}

// line logs one line, and reports whether it was within the limits.
func (l *lineLog) line(stream string, text []byte) bool {
	take, muted, dropped := l.take(stream, text)
	if dropped > 0 {
		l.logger.Warn("a plugin writes too much", "handler", l.name, "dropped_lines", dropped)
	}
	if take && !muted && !l.muted() && l.logger.Enabled(context.Background(), slog.LevelDebug) {
		l.logger.Debug(l.redact(strings.ToValidUTF8(string(text), "\uFFFD")), "handler", l.name, "from", stream)
	}
	return take
}

// take holds a line to the limits, and notes whether it is one of those that are not handed
// on. dropped is how many lines were dropped before, when a window has ended in which some were.
func (l *lineLog) take(stream string, text []byte) (take, muted bool, dropped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	muted = l.muted()
	switch {
	case stream != "stderr":
	case muted:
		l.hushed.note(text)
	default:
		l.said.note(text)
	}
	if now := time.Now(); now.Sub(l.began) > logWindow {
		dropped = l.dropped
		l.began, l.lines, l.taken, l.dropped = now, 0, 0, 0
	}
	if l.lines >= l.maxLines || l.taken+len(text) > l.bytes {
		l.dropped++
		return false, muted, dropped
	}
	l.lines++
	l.taken += len(text)
	return true, muted, dropped
}

// begin notes that the process is asked about a config.
func (l *lineLog) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shared = l.asking > 0 || time.Since(l.refused) < outputGrace
	l.hushed = words{}
	l.asking++
}

// end notes that it has answered, or will not.
func (l *lineLog) end(refused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking--
	if refused {
		l.refused = time.Now()
	}
}

// lastWords is what the process said at last, for an error. What it said while it was muted
// is for who asked it: he alone knows what of it is secret. Where several have asked at once,
// nobody knows whom of them it is for.
func (l *lineLog) lastWords(asked bool) string {
	var hushed words
	l.mu.Lock()
	if asked && !l.shared {
		hushed = l.hushed
	}
	text := cmp.Or(string(hushed.fault), string(l.said.fault), string(hushed.last), string(l.said.last))
	l.mu.Unlock()
	text = l.redact(strings.ToValidUTF8(text, "\uFFFD"))
	return oneLine(text[:min(len(text), maxWords)])
}

// redactAll takes out of a text what each of redact does, of which none knows the others'
// secrets. Where one of these is part of another, or they overlap, what is left depends on
// which comes first: then nothing of the text is.
func redactAll(text string, redact []func(text string) string) string {
	found := make(map[string]func(string) string) // by what it leaves of the text: most find nothing, or the same
	for _, r := range redact {
		if left := r(text); left != text {
			found[left] = r
		}
	}
	result, some := text, false
	for first := range found {
		left := first
		for other, r := range found {
			if other != first {
				left = r(left)
			}
		}
		if some && left != result {
			return "[redacted]"
		}
		result, some = left, true
	}
	return result
}

// oneLine is the first line of what a process says, to be quoted in an error: it may be
// long, and no text at all.
func oneLine(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text[:min(len(text), maxQuote)]), "\n")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
