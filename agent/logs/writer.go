package logs

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxPendingLines = 4096
	maxPendingBytes = 4 << 20
	flushGrace      = time.Second
)

// Writer passes lines to a writer that may block or fail, such as a pipe without a reader. It never blocks or
// fails itself. It drops lines that do not fit in its buffer or could not be written. Before the next line,
// it writes how many were dropped.
type Writer struct {
	out     io.Writer
	loss    string // format of the line that reports dropped lines
	wake    chan struct{}
	done    chan struct{} // closed when the last line is written
	dropped atomic.Uint64 // lines, in total

	reported uint64 // number of dropped lines that were reported; owned by run

	mu     sync.Mutex
	lines  [][]byte
	size   int // of lines, in bytes
	closed bool
}

const (
	textLoss = "level=WARN msg=\"lines dropped: they could not be written, or not fast enough\" count=%d\n"
	jsonLoss = `{"level":"WARN","msg":"lines dropped: they could not be written, or not fast enough","count":%d}` + "\n"
)

// NewWriter returns a writer to out, which reports dropped lines in the format "text" or "json". If out is
// nil, all lines are dropped. The caller must call Close.
func NewWriter(out io.Writer, format string) *Writer {
	if out == nil {
		out = io.Discard
	}
	w := &Writer{out: out, loss: textLoss, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if format == "json" {
		w.loss = jsonLoss
	}
	go w.run()
	return w
}

var _ io.Writer = (*Writer)(nil)

// Write takes p, one or more lines. It never fails.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
	case len(w.lines) >= maxPendingLines || w.size+len(p) > maxPendingBytes:
		w.dropped.Add(1)
	default:
		w.lines = append(w.lines, append([]byte(nil), p...))
		w.size += len(p)
		w.wakeLocked()
	}
	return len(p), nil
}

func (w *Writer) wakeLocked() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Dropped returns how many lines were dropped so far.
func (w *Writer) Dropped() uint64 { return w.dropped.Load() }

// Close writes the pending lines. It returns after at most [flushGrace], as the writer may block.
func (w *Writer) Close() {
	w.mu.Lock()
	w.closed = true
	w.wakeLocked()
	w.mu.Unlock()
	select {
	case <-w.done:
	case <-time.After(flushGrace):
	}
}

func (w *Writer) run() {
	defer close(w.done)
	for range w.wake {
		lines, closed := w.take()
		for _, line := range lines {
			w.put(line)
		}
		w.report()
		if closed {
			return
		}
	}
}

// put writes a line, or counts it as dropped.
func (w *Writer) put(line []byte) {
	if w.report() {
		if _, err := w.out.Write(line); err == nil {
			return
		}
	}
	w.dropped.Add(1)
}

// report writes how many lines were dropped since the last report, if any. It returns false if writing
// failed.
func (w *Writer) report() bool {
	lost := w.dropped.Load() - w.reported
	if lost == 0 {
		return true
	}
	if _, err := fmt.Fprintf(w.out, w.loss, lost); err != nil {
		return false
	}
	w.reported += lost
	return true
}

func (w *Writer) take() (lines [][]byte, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines, closed = w.lines, w.closed
	w.lines, w.size = nil, 0
	return lines, closed
}

// NewLogger returns a logger to w; format is "text" or "json".
func NewLogger(w io.Writer, format string, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
