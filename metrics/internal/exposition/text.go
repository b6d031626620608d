package exposition

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// text writes the text format and OpenMetrics, as package expfmt does.
type text struct {
	*Writer
	openMetrics bool
	labels      []byte   // of the current series
	prefix      []byte   // name and labels of its buckets
	bounds      [][]byte // the last label of each bucket of the family, up to its value
}

func (t *text) begin() {
	if !t.begun {
		t.header()
	}
	t.labels = t.labels[:0]
}

// header writes the first lines of the family.
func (t *text) header() {
	f := &t.family
	name, help := f.Name, escapeHelp.Replace(f.Help)
	if t.openMetrics {
		help = escapeValue.Replace(f.Help)
		if f.Type == Counter {
			name = strings.TrimSuffix(name, "_total")
		}
	}
	t.buf = fmt.Appendf(t.buf, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, f.Type)
	t.bounds = t.bounds[:0]
	if f.Type == Histogram {
		for _, bound := range append(f.Bounds[:len(f.Bounds):len(f.Bounds)], math.Inf(1)) {
			t.bounds = append(t.bounds, append(appendFloat([]byte(`,le="`), bound, t.openMetrics), `"} `...))
		}
	}
}

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeValue = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

func (t *text) label(name, value string) {
	separator := byte(',')
	if len(t.labels) == 0 {
		separator = '{'
	}
	if strings.IndexByte(value, '\\') >= 0 || strings.IndexByte(value, '"') >= 0 || strings.IndexByte(value, '\n') >= 0 {
		value = escapeValue.Replace(value)
	}
	t.labels = append(t.labels, separator)
	t.labels = append(t.labels, name...)
	t.labels = append(t.labels, `="`...)
	t.labels = append(t.labels, value...)
	t.labels = append(t.labels, '"')
}

func (t *text) mark() int { return len(t.labels) }

func (t *text) cut(mark int) { t.labels = t.labels[:mark] }

// name begins a sample with its name and its labels. There must be at least one label.
func (t *text) name(suffix string) {
	t.buf = append(t.buf, t.family.Name...)
	t.buf = append(t.buf, suffix...)
	t.buf = append(t.buf, t.labels...)
	t.buf = append(t.buf, "} "...)
}

func (t *text) value(v float64) {
	t.name("")
	t.float(v)
}

// float ends a sample with its value.
func (t *text) float(v float64) {
	t.buf = append(appendFloat(t.buf, v, t.openMetrics), '\n')
}

// count ends a sample with a count: an integer in OpenMetrics, a float in the text format.
func (t *text) count(n uint64) {
	if n >= 1e6 && !t.openMetrics { // a float has an exponent
		t.float(float64(n))
		return
	}
	t.buf = append(strconv.AppendUint(t.buf, n, 10), '\n')
}

// appendFloat appends v in the format of expfmt.
func appendFloat(buf []byte, v float64, openMetrics bool) []byte {
	if v == 0 {
		v = 0 // not -0
	}
	start := len(buf)
	if v >= 0 && v < 1e6 && v == math.Trunc(v) { // same result as AppendFloat, faster
		buf = strconv.AppendUint(buf, uint64(v), 10)
	} else {
		buf = strconv.AppendFloat(buf, v, 'g', -1, 64)
	}
	if openMetrics && !bytes.ContainsAny(buf[start:], ".eNI") { // N and I: NaN and Inf
		buf = append(buf, ".0"...)
	}
	return buf
}

func (t *text) durations(d *Durations) {
	if t.family.Type == Histogram {
		t.buckets(d)
	}
	t.name("_sum")
	t.float(d.Sum)
	t.name("_count")
	t.count(d.Count)
}

// buckets writes the samples of the classic buckets, or only +Inf if there are none.
func (t *text) buckets(d *Durations) {
	t.prefix = append(append(append(t.prefix[:0], t.family.Name...), "_bucket"...), t.labels...)
	for i, n := range d.Upto {
		t.buf = append(append(t.buf, t.prefix...), t.bounds[i]...)
		t.count(n)
	}
	t.buf = append(append(t.buf, t.prefix...), t.bounds[len(t.bounds)-1]...)
	t.count(d.Count)
}

func (t *text) end() {}
