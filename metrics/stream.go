package metrics

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// chunkSize is how many bytes of text are written at once, at least.
const chunkSize = 64 << 10

// stream writes metrics in a text format as package expfmt does, without a copy of them in memory.
type stream struct {
	w           io.Writer
	openMetrics bool
	buf         []byte
	err         error // of w; nothing is written after it

	family *family // of the next sample
	begun  bool    // its first lines were written
	labels []byte  // of the current series
	prefix []byte  // name and labels of its buckets
}

func newStream(w io.Writer, openMetrics bool) *stream {
	return &stream{w: w, openMetrics: openMetrics, buf: make([]byte, 0, chunkSize+chunkSize/4)}
}

// Write implements [io.Writer], for an encoder of other metrics.
func (e *stream) Write(p []byte) (int, error) {
	e.buf = append(e.buf, p...)
	e.flushChunk()
	return len(p), e.err
}

// flushChunk writes the buffer if a chunk is full.
func (e *stream) flushChunk() {
	if len(e.buf) >= chunkSize {
		e.flush()
		runtime.Gosched() // ticks come first
	}
}

func (e *stream) flush() {
	if e.err == nil {
		_, e.err = e.w.Write(e.buf)
	}
	e.buf = e.buf[:0]
}

// probeFamily is a family that each probe has series of.
type probeFamily struct {
	*family
	write func(*stream, *Metrics) // writes its samples
}

// probeFamilies are sorted by name.
var probeFamilies = []probeFamily{
	{pluginMetric, (*stream).measurements},
	{probeDuration, (*stream).durations},
	{probeTotal, (*stream).totals},
}

func isProbeFamily(name string) bool {
	return slices.ContainsFunc(probeFamilies, func(f probeFamily) bool { return f.Name == name })
}

// probes writes a family of m, if it is selected. A family without samples is left out, as its
// first lines are written with its first sample.
func (e *stream) probes(m *Metrics, f probeFamily, selected func(name string) bool) {
	if e.err == nil && selected(f.Name) {
		e.family, e.begun = f.family, false
		f.write(e, m)
	}
}

// header writes the first lines of the family.
func (e *stream) header(kind Type) {
	e.begun = true
	name, help := e.family.Name, escapeHelp.Replace(e.family.Help)
	if e.openMetrics {
		help = escapeValue.Replace(e.family.Help)
		if kind == Counter {
			name = strings.TrimSuffix(name, "_total")
		}
	}
	e.buf = fmt.Appendf(e.buf, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeValue = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// label adds a label to the current series.
func (e *stream) label(name, value string) {
	separator := byte(',')
	if len(e.labels) == 0 {
		separator = '{'
	}
	if strings.IndexByte(value, '\\') >= 0 || strings.IndexByte(value, '"') >= 0 || strings.IndexByte(value, '\n') >= 0 {
		value = escapeValue.Replace(value)
	}
	e.labels = append(e.labels, separator)
	e.labels = append(e.labels, name...)
	e.labels = append(e.labels, `="`...)
	e.labels = append(e.labels, value...)
	e.labels = append(e.labels, '"')
}

// series begins the samples of a series of kind, which have no labels yet.
func (e *stream) series(kind Type) {
	if !e.begun {
		e.header(kind)
	}
	e.labels = e.labels[:0]
}

// name begins a sample with its name and its labels.
func (e *stream) name(suffix string) {
	e.buf = append(e.buf, e.family.Name...)
	e.buf = append(e.buf, suffix...)
	e.buf = append(e.buf, e.labels...)
	e.buf = append(e.buf, "} "...)
}

// float ends a sample with its value.
func (e *stream) float(v float64) {
	e.buf = append(appendFloat(e.buf, v, e.openMetrics), '\n')
}

// count ends a sample with a count, which OpenMetrics has as an integer, and text as a float.
func (e *stream) count(n uint64) {
	if n >= 1e6 && !e.openMetrics { // a float has an exponent
		e.float(float64(n))
		return
	}
	e.buf = append(strconv.AppendUint(e.buf, n, 10), '\n')
}

// appendFloat appends v as expfmt writes it.
func appendFloat(buf []byte, v float64, openMetrics bool) []byte {
	if v == 0 {
		v = 0 // not -0
	}
	start := len(buf)
	buf = strconv.AppendFloat(buf, v, 'g', -1, 64)
	if openMetrics && !bytes.ContainsAny(buf[start:], ".eNI") { // N and I: not a number, infinite
		buf = append(buf, ".0"...)
	}
	return buf
}

func (e *stream) totals(m *Metrics) {
	for s := range m.series.all() {
		for _, result := range sortedResults {
			n := s.totals[result].Load()
			if n == 0 {
				continue
			}
			e.series(Counter)
			e.label("container", s.subject.container)
			e.label("namespace", s.subject.namespace)
			e.label("pod", s.subject.pod)
			e.label("pod_uid", s.subject.podUID)
			e.label("probe_type", titles[s.kind])
			e.label("result", resultWords[result])
			e.name("")
			e.float(float64(n))
		}
		if e.flushChunk(); e.err != nil {
			return
		}
	}
}

func (e *stream) durations(m *Metrics) {
	kind := Histogram
	if m.buckets == NoBuckets {
		kind = Summary
	}
	bounds := bucketLabels(durationBounds[:], e.openMetrics)
	for s, d := range m.series.durations() {
		e.series(kind)
		e.label("container", s.subject.container)
		e.label("namespace", s.subject.namespace)
		e.label("pod", s.subject.pod)
		e.label("probe_type", titles[s.kind])
		if kind == Histogram {
			e.buckets(d, bounds)
		}
		e.name("_sum")
		e.float(d.sum.Seconds())
		e.name("_count")
		e.count(d.count())
		if e.flushChunk(); e.err != nil {
			return
		}
	}
}

// buckets writes the samples of the buckets of d. bounds end their labels.
func (e *stream) buckets(d *durations, bounds [][]byte) {
	e.prefix = append(append(append(e.prefix[:0], e.family.Name...), "_bucket"...), e.labels...)
	var count uint64
	for i, n := range d.buckets {
		count += n
		e.buf = append(e.buf, e.prefix...)
		e.buf = append(e.buf, bounds[i]...)
		e.count(count)
	}
}

// bucketLabels returns the last label of each bucket, up to its value.
func bucketLabels(bounds []time.Duration, openMetrics bool) (labels [][]byte) {
	for _, bound := range append(seconds(bounds), math.Inf(1)) {
		labels = append(labels, append(appendFloat([]byte(`,le="`), bound, openMetrics), `"} `...))
	}
	return labels
}

func (e *stream) measurements(m *Metrics) {
	for measured := range m.series.measurements() {
		e.series(Gauge)
		for _, l := range measured.labels {
			e.label(l.name, l.value)
		}
		e.name("")
		e.float(measured.value)
		if e.flushChunk(); e.err != nil {
			return
		}
	}
}
