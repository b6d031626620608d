package process

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/procgroup"
)

// logWindow is the time in which the limits of log lines apply to what a process writes outside
// of attempts.
const logWindow = 10 * time.Second

// maxWords is the most bytes of a line of output that are quoted in an error.
const maxWords = 200

// maxQuote is the most bytes of a gRPC status or of go-plugin's error that are quoted in an error.
const maxQuote = 512

// lineLog hands the lines that a process writes to the log, within limits. Lines beyond the
// limits are dropped, so that the process never waits for the log.
type lineLog struct {
	logger          *slog.Logger
	name            string // of the plugin
	maxLines, bytes int
	secrets         *secrets
	unknown         uint64 // secrets.unknowns when the process started

	mu           sync.Mutex
	began        time.Time // of the window
	lines, taken int
	dropped      int
	plain        words // outside of validations, for any error
	aside        words // during the last validation, for the error of that
}

// wordsAge is how long before its end a process may have written what is quoted as the reason. The stack of
// a panic that it has recovered from long ago is none.
const wordsAge = 5 * time.Second

// words are the lines of standard error that are quoted in errors.
type words struct {
	last  []byte // the last line
	fault []byte // the first line of a panic
	at    time.Time
}

func (w *words) note(text []byte) {
	if now := time.Now(); now.Sub(w.at) > wordsAge {
		*w = words{last: w.last[:0], at: now}
	} else {
		w.at = now
	}
	w.last = append(w.last[:0], text...)
	if w.fault == nil && (bytes.HasPrefix(text, []byte("panic: ")) || bytes.HasPrefix(text, []byte("fatal error: "))) {
		w.fault = bytes.Clone(text)
	}
}

// lineWriter hands what is written to it to a log, line by line.
type lineWriter struct {
	log    *lineLog
	stream string
	begun  []byte // the line so far, with one byte more than the limit at most
	pace   procgroup.Pace
}

func (l *lineLog) writer(stream string) *lineWriter { return &lineWriter{log: l, stream: stream} }

// Write implements [io.Writer]. It returns no error.
func (w *lineWriter) Write(p []byte) (int, error) {
	for part := range bytes.Lines(p) {
		kept := min(w.log.bytes+1-len(w.begun), len(part))
		w.begun = append(w.begun, part[:kept]...)
		w.pace.Drop(len(part) - kept)
		if part[len(part)-1] == '\n' {
			w.flush()
		}
	}
	return len(p), nil
}

// flush logs the line so far.
func (w *lineWriter) flush() {
	if text := bytes.TrimRight(w.begun, "\r\n"); len(text) == 0 || !w.log.line(w.stream, text) {
		w.pace.Drop(len(w.begun))
	}
	w.begun = w.begun[:0]
}

// line logs one line, and reports whether it was within the limits.
func (l *lineLog) line(stream string, text []byte) bool {
	private, validating := l.secrets.state() // also below: it may change meanwhile
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

// take notes a line for errors, and reports whether it is within the limits. When a new window
// begins, dropped is the number of lines that were dropped in the last one.
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

// validate notes that a validation begins.
func (l *lineLog) validate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aside = words{}
}

// recent returns w, if it is not too old to be the reason for an end.
func (w words) recent() words {
	if time.Since(w.at) > wordsAge {
		return words{}
	}
	return w
}

// lastWords returns what the process wrote last, for an error; "" if that was long ago, or may contain an
// unknown secret. Only the error of a validation, for which validates is true, may quote what was written
// during it: the caller of that knows the secrets.
func (l *lineLog) lastWords(validates bool) string {
	if l.secrets.unknowns() != l.unknown {
		return ""
	}
	var aside words
	l.mu.Lock()
	if validates && l.secrets.validatesOne() {
		aside = l.aside
	}
	aside, plain := aside.recent(), l.plain.recent()
	text := cmp.Or(string(aside.fault), string(plain.fault), string(aside.last), string(plain.last))
	l.mu.Unlock()
	text = l.secrets.redacted(strings.ToValidUTF8(text, "\uFFFD"))
	return firstLine(text[:min(len(text), maxWords)])
}

// firstLine returns the first line of a text that comes from a process, cut and printable.
func firstLine(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text[:min(len(text), maxQuote)]), "\n")
	return explain.OneLine(text)
}
