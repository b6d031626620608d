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
	secrets         *secrets
	unknown         uint64 // secrets.unknowns when the process began

	mu           sync.Mutex
	began        time.Time // of the window
	lines, taken int
	dropped      int
	plain        words // for any error
	aside        words // during the last validation, for its error
}

// words are the lines of standard error that are quoted in errors.
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
	private, validating := l.secrets.state() // before the line is logged: it is older
	take, dropped := l.take(stream, text, validating)
	if dropped > 0 {
		l.logger.Warn("a plugin writes too much", "handler", l.name, "dropped_lines", dropped)
	}
	if !take || private || !l.logger.Enabled(context.Background(), slog.LevelDebug) {
		return take
	}
	if private, _ = l.secrets.state(); !private {
		l.logger.Debug(strings.ToValidUTF8(string(text), "\uFFFD"), "handler", l.name, "from", stream)
	}
	return take
}

// take holds a line to the limits, and notes it for errors. dropped is how many lines were
// dropped in the last window, when a new one begins.
func (l *lineLog) take(stream string, text []byte, validating bool) (take bool, dropped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case stream != "stderr":
	case validating:
		l.aside.note(text)
	default:
		l.plain.note(text)
	}
	if now := time.Now(); now.Sub(l.began) > logWindow {
		dropped = l.dropped
		l.began, l.lines, l.taken, l.dropped = now, 0, 0, 0
	}
	if l.lines >= l.maxLines || l.taken+len(text) > l.bytes {
		l.dropped++
		return false, dropped
	}
	l.lines++
	l.taken += len(text)
	return true, dropped
}

// validate notes that a config is to be validated.
func (l *lineLog) validate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aside = words{}
}

// lastWords returns what the process wrote last, for an error; "" if it may hold an unknown
// secret. Only the error of v may quote what was written during a validation: whoever asked
// knows what is secret. v is nil for any other error.
func (l *lineLog) lastWords(v *validation) string {
	if l.secrets.unknowns() != l.unknown {
		return ""
	}
	var aside words
	l.mu.Lock()
	if v != nil && v.alone() {
		aside = l.aside
	}
	text := cmp.Or(string(aside.fault), string(l.plain.fault), string(aside.last), string(l.plain.last))
	l.mu.Unlock()
	text = l.secrets.redacted(strings.ToValidUTF8(text, "\uFFFD"))
	return oneLine(text[:min(len(text), maxWords)])
}

// oneLine returns the first line of a text of a process, to be quoted in an error: it may be
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
