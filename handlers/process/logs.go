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

// logWindow is the period to which the limits of log lines apply for output outside of attempts.
const logWindow = 10 * time.Second

// maxWords is the maximum number of bytes that an error quotes from a line of output.
const maxWords = 200

// maxQuote is the maximum number of bytes that an error quotes from a gRPC status or go-plugin's error.
const maxQuote = 512

// lineLog writes the output lines of a process to the log. Lines beyond the limits are dropped, so that
// the process never waits for the log.
type lineLog struct {
	logger          *slog.Logger
	name            string // the plugin's
	maxLines, bytes int
	secrets         *secrets
	unknown         uint64 // the value of secrets.unknowns when the process started

	mu           sync.Mutex
	began        time.Time // start of the current window
	lines, taken int
	dropped      int
	plain        words // lines outside of validations, for all errors
	validation   words // lines during the last validation, for its error
}

// wordsAge is the maximum age of a line that is quoted as the reason for the end of a process. An older
// panic, for example, was recovered from.
const wordsAge = 5 * time.Second

// words has lines of standard error that errors quote.
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

// lineWriter writes lines to a log.
type lineWriter struct {
	log    *lineLog
	stream string
	begun  []byte // the line so far, at most one byte longer than the limit
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

// flush logs the current line.
func (w *lineWriter) flush() {
	if text := bytes.TrimRight(w.begun, "\r\n"); len(text) == 0 || !w.log.logLine(w.stream, text) {
		w.pace.Drop(len(w.begun))
	}
	w.begun = w.begun[:0]
}

// logLine logs one line, and reports whether it was within the limits.
func (l *lineLog) logLine(stream string, text []byte) bool {
	private, validating := l.secrets.state() // checked again below, because it may change meanwhile
	take, dropped := l.count(stream, text, validating)
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

// count remembers a line for errors, counts it, and reports whether it is within the limits. When a new
// window begins, dropped is the number of lines that were dropped in the previous one.
func (l *lineLog) count(stream string, text []byte, validating bool) (take bool, dropped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case stream != "stderr":
	case validating:
		l.validation.note(text)
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

// validate records that a validation begins.
func (l *lineLog) validate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.validation = words{}
}

// recent returns w, or no words if w is older than wordsAge.
func (w words) recent() words {
	if time.Since(w.at) > wordsAge {
		return words{}
	}
	return w
}

// lastWords returns the last line of the process, or the first line of a panic, for an error. It returns ""
// if the line is old or may contain an unknown secret. If validates is true, the error is for the caller of
// a validation. Only this error may quote lines written during the validation, because the caller knows
// the secrets.
func (l *lineLog) lastWords(validates bool) string {
	if l.secrets.unknowns() != l.unknown {
		return ""
	}
	var validation words
	l.mu.Lock()
	if validates && l.secrets.validatesOne() {
		validation = l.validation
	}
	validation, plain := validation.recent(), l.plain.recent()
	text := cmp.Or(string(validation.fault), string(plain.fault), string(validation.last), string(plain.last))
	l.mu.Unlock()
	text = l.secrets.redacted(strings.ToValidUTF8(text, "\uFFFD"))
	return firstLine(text[:min(len(text), maxWords)])
}

// firstLine returns the first line of a text from a process, cut to maxQuote and made printable.
func firstLine(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text[:min(len(text), maxQuote)]), "\n")
	return explain.OneLine(text)
}
