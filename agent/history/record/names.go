package record

import (
	"encoding/binary"
	"strings"

	"github.com/daeace23/prober/probe"
)

// Key names a series: the probes that had the same names one after the other.
type Key struct {
	Namespace, Pod, Container string
	Kind                      probe.Kind
}

// Compare orders keys by namespace, pod, container and the word of the kind.
func (k *Key) Compare(o *Key) int {
	for _, c := range []int{
		strings.Compare(k.Namespace, o.Namespace), strings.Compare(k.Pod, o.Pod), strings.Compare(k.Container, o.Container),
	} {
		if c != 0 {
			return c
		}
	}
	return strings.Compare(k.Kind.String(), o.Kind.String())
}

// Series is a series, whose ID stands for it in other values.
type Series struct {
	Key
	ID      uint32
	Handler string
	Ended   int64 // when its last probe ended, in milliseconds; 0 if one may exist
}

// AppendSeries appends the payload of a series, without its ID.
func AppendSeries(dst []byte, s *Series) []byte {
	for _, text := range []string{s.Namespace, s.Pod, s.Container, s.Handler} {
		dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	}
	return binary.AppendVarint(append(dst, byte(s.Kind)), s.Ended)
}

// DecodeSeries decodes what [AppendSeries] has made.
func DecodeSeries(payload []byte) (s Series, err error) {
	d := decoder{in: payload}
	for _, text := range []*string{&s.Namespace, &s.Pod, &s.Container, &s.Handler} {
		*text = string(d.bytes(d.uvarint()))
	}
	s.Kind = probe.Kind(d.byte())
	s.Ended = d.varint()
	return s, d.err("series")
}

// Window is a time for which the history has changes and points.
type Window struct {
	Seq         uint32 // in the order of their begin
	Folded      bool   // its minutes have become points
	First, Last int64  // when it began and ended, in milliseconds; Last is 0 while it is written
}

// AppendWindow appends the payload of a window, without its number.
func AppendWindow(dst []byte, w *Window) []byte {
	folded := byte(0)
	if w.Folded {
		folded = 1
	}
	return binary.AppendVarint(binary.AppendVarint(append(dst, folded), w.First), w.Last)
}

// DecodeWindow decodes what [AppendWindow] has made.
func DecodeWindow(payload []byte) (w Window, err error) {
	d := decoder{in: payload}
	w.Folded = d.byte() == 1
	w.First, w.Last = d.varint(), d.varint()
	return w, d.err("window")
}
