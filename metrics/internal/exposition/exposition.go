// Package exposition writes metrics in the formats that Prometheus reads: text, OpenMetrics and protobuf.
// It streams them, so its memory does not depend on their number.
//
// Read [Writer] first. text.go and protobuf.go write the samples of a series.
package exposition

import (
	"io"
	"runtime"

	"github.com/daeace23/prober/metrics/internal/native"
)

// ChunkSize is the smallest number of bytes of a write, except the last.
const ChunkSize = 64 << 10

// Type is a type of metrics.
type Type string

// The types.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
	Summary   Type = "summary"
)

// Durations are the durations that a histogram or a summary has counted.
type Durations struct {
	Count uint64
	Sum   float64  // seconds
	Upto  []uint64 // by classic bucket, cumulative and without +Inf; nil for none
	// Native has the native buckets, which only protobuf can represent; nil for none.
	Native *native.Sum
}

// format encodes series. The labels of the current series are those added since begin or cut.
type format interface {
	begin()
	label(name, value string)
	mark() int    // marks the end of the labels so far
	cut(mark int) // removes the labels after mark
	value(v float64)
	durations(d *Durations)
	end() // ends the family
}

// Writer writes families of metrics in chunks, and lets other goroutines run between chunks. It writes
// nothing after the first error.
type Writer struct {
	out    io.Writer
	buf    []byte
	err    error // of out
	format format
	family Family
	begun  bool // the family has series
}

// Family is a family of metrics.
type Family struct {
	Name, Help string
	Type       Type
	Bounds     []float64 // of the classic buckets of a histogram
}

// Encoding is the output format of a [Writer].
type Encoding int

// The encodings.
const (
	Text Encoding = iota
	OpenMetrics
	Protobuf // delimited; a large family has several messages
)

// New returns a writer to out.
func New(out io.Writer, encoding Encoding) *Writer {
	w := &Writer{out: out, buf: make([]byte, 0, ChunkSize+ChunkSize/4)}
	if encoding == Protobuf {
		w.format = &protobuf{Writer: w}
	} else {
		w.format = &text{Writer: w, openMetrics: encoding == OpenMetrics}
	}
	return w
}

// Write implements [io.Writer], for encoders of other metrics.
func (w *Writer) Write(p []byte) (int, error) {
	w.buf = append(w.buf, p...)
	w.flushChunk()
	return len(p), w.err
}

// flushChunk writes the buffer if a chunk is full.
func (w *Writer) flushChunk() {
	if len(w.buf) >= ChunkSize {
		w.Flush()
		runtime.Gosched() // ticks come first
	}
}

// Flush writes the rest of the buffer, and returns the first error.
func (w *Writer) Flush() error {
	if w.err == nil {
		_, w.err = w.out.Write(w.buf)
	}
	w.buf = w.buf[:0]
	return w.err
}

// Err returns the first error of the underlying writer.
func (w *Writer) Err() error { return w.err }

// Begin begins a family. A family without series is not written.
func (w *Writer) Begin(f Family) { w.family, w.begun = f, false }

// End ends the family.
func (w *Writer) End() {
	if w.begun {
		w.format.end()
		w.flushChunk()
	}
}

// Series begins a series of the family, without labels. It returns false after an error, and the caller
// must stop writing.
func (w *Writer) Series() bool {
	w.flushChunk()
	w.format.begin()
	w.begun = true
	return w.err == nil
}

// Label adds a label. Labels must be added in the order of their names.
func (w *Writer) Label(name, value string) { w.format.label(name, value) }

// Mark returns a mark of the labels so far, for [Writer.Cut].
func (w *Writer) Mark() int { return w.format.mark() }

// Cut begins another series with the labels before mark.
func (w *Writer) Cut(mark int) { w.format.cut(mark) }

// Value writes the value of the series of a counter or a gauge.
func (w *Writer) Value(v float64) { w.format.value(v) }

// Durations writes the samples of the series of a histogram or a summary.
func (w *Writer) Durations(d *Durations) { w.format.durations(d) }
