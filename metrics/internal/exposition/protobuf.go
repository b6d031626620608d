package exposition

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/daeace23/prober/metrics/internal/native"
)

// protobuf writes length-delimited io.prometheus.client.MetricFamily messages. A family longer than a chunk
// is split into several messages, because a message is buffered as a whole; Prometheus merges them. The
// field numbers come from client_model's metrics.proto.
type protobuf struct {
	*Writer
	header  []byte // of a message of the family
	metrics []byte // of the message
	labels  []byte // of the current series
	body    []byte // its value
	part    []byte // part of the value
	spans   []native.Span
	deltas  []int64
}

var typeNumbers = map[Type]uint64{Counter: 0, Gauge: 1, Summary: 2, Histogram: 4}

func (p *protobuf) begin() {
	if !p.begun {
		f := &p.family
		p.header = appendString(p.header[:0], 1, f.Name)
		p.header = appendString(p.header, 2, f.Help)
		p.header = appendVarint(p.header, 3, typeNumbers[f.Type])
	}
	if len(p.metrics) >= ChunkSize {
		p.end()
		p.flushChunk()
	}
	p.labels = p.labels[:0]
}

func (p *protobuf) label(name, value string) {
	p.labels = protowire.AppendTag(p.labels, 1, protowire.BytesType)
	p.labels = protowire.AppendVarint(p.labels, uint64(2+protowire.SizeBytes(len(name))+protowire.SizeBytes(len(value))))
	p.labels = appendString(p.labels, 1, name)
	p.labels = appendString(p.labels, 2, value)
}

func (p *protobuf) mark() int { return len(p.labels) }

func (p *protobuf) cut(mark int) { p.labels = p.labels[:mark] }

// metric adds a metric with the current labels. value is the message in field.
func (p *protobuf) metric(field protowire.Number, value []byte) {
	p.metrics = protowire.AppendTag(p.metrics, 4, protowire.BytesType)
	p.metrics = protowire.AppendVarint(p.metrics, uint64(len(p.labels)+1+protowire.SizeBytes(len(value))))
	p.metrics = append(p.metrics, p.labels...)
	p.metrics = protowire.AppendTag(p.metrics, field, protowire.BytesType)
	p.metrics = protowire.AppendBytes(p.metrics, value)
}

func (p *protobuf) value(v float64) {
	p.body = appendDouble(p.body[:0], 1, v)
	if p.family.Type == Counter {
		p.metric(3, p.body)
	} else {
		p.metric(2, p.body)
	}
}

func (p *protobuf) durations(d *Durations) {
	p.body = appendVarint(p.body[:0], 1, d.Count)
	p.body = appendDouble(p.body, 2, d.Sum)
	if p.family.Type == Summary {
		p.metric(4, p.body)
		return
	}
	for i, n := range d.Upto {
		p.part = appendVarint(p.part[:0], 1, n)
		p.part = appendDouble(p.part, 2, p.family.Bounds[i])
		p.body = appendMessage(p.body, 3, p.part)
	}
	if d.Native != nil {
		p.native(d.Native)
	}
	p.metric(7, p.body)
}

// native adds native buckets to the body of a histogram.
func (p *protobuf) native(s *native.Sum) {
	p.body = appendVarint(p.body, 5, protowire.EncodeZigZag(native.Schema))
	p.body = appendDouble(p.body, 6, native.ZeroThreshold)
	p.body = appendVarint(p.body, 7, s.Zero)
	p.spans, p.deltas = s.Spans(p.spans[:0], p.deltas[:0])
	for _, span := range p.spans {
		p.part = appendVarint(p.part[:0], 1, protowire.EncodeZigZag(int64(span.Offset)))
		p.part = appendVarint(p.part, 2, uint64(span.Length))
		p.body = appendMessage(p.body, 12, p.part)
	}
	for _, delta := range p.deltas { // not packed, as in metrics.proto
		p.body = appendVarint(p.body, 13, protowire.EncodeZigZag(delta))
	}
}

// end writes the message.
func (p *protobuf) end() {
	p.buf = binary.AppendUvarint(p.buf, uint64(len(p.header)+len(p.metrics)))
	p.buf = append(append(p.buf, p.header...), p.metrics...)
	p.metrics = p.metrics[:0]
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

func appendMessage(b []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
}

func appendVarint(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

func appendDouble(b []byte, field protowire.Number, v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), math.Float64bits(v))
}
