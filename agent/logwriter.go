package agent

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	maxPendingLines = 4096
	flushGrace      = time.Second
)

// logWriter hands lines on to a writer that may block, such as a terminal that was
// stopped, without ever blocking itself. Lines that find no room are dropped and
// counted.
type logWriter struct {
	out  io.Writer
	loss string // format of the line that tells how many lines were dropped
	wake chan struct{}
	done chan struct{} // closed when the last line is written

	mu      sync.Mutex
	lines   [][]byte
	dropped int
	closed  bool
}

const (
	textLoss = "level=WARN msg=\"lines dropped: they came faster than they could be written\" count=%d\n"
	jsonLoss = `{"level":"WARN","msg":"lines dropped: they came faster than they could be written","count":%d}` + "\n"
)

// newLogWriter returns a writer to out; nil stands for nowhere.
func newLogWriter(out io.Writer, format string) *logWriter {
	if out == nil {
		out = io.Discard
	}
	w := &logWriter{out: out, loss: textLoss, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if format == "json" {
		w.loss = jsonLoss
	}
	go w.run()
	return w
}

var _ io.Writer = (*logWriter)(nil)

// Write takes p, one or more lines. It never fails.
func (w *logWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
	case len(w.lines) >= maxPendingLines:
		w.dropped++
	default:
		w.lines = append(w.lines, append([]byte(nil), p...))
		w.wakeLocked()
	}
	return len(p), nil
}

func (w *logWriter) wakeLocked() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Close writes what is pending and returns, at the latest after [flushGrace]: a writer
// that blocks for ever must not keep the agent from ending.
func (w *logWriter) Close() {
	w.mu.Lock()
	w.closed = true
	w.wakeLocked()
	w.mu.Unlock()
	select {
	case <-w.done:
	case <-time.After(flushGrace):
	}
}

func (w *logWriter) run() {
	defer close(w.done)
	for range w.wake {
		lines, dropped, closed := w.take()
		for _, line := range lines {
			_, _ = w.out.Write(line) // there is nowhere to tell
		}
		if dropped > 0 {
			_, _ = fmt.Fprintf(w.out, w.loss, dropped)
		}
		if closed {
			return
		}
	}
}

func (w *logWriter) take() (lines [][]byte, dropped int, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines, dropped, closed = w.lines, w.dropped, w.closed
	w.lines, w.dropped = nil, 0
	return lines, dropped, closed
}

func newLogger(w io.Writer, format string, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
