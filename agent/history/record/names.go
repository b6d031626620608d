package record

import (
	"encoding/binary"
	"strings"

	"github.com/daeace23/prober/probe"
)

// Key identifies a series: the successive probes with the same names.
type Key struct {
	Namespace, Pod, Container string
	Kind                      probe.Kind
}

// Compare orders keys by namespace, pod, container and the name of the kind.
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

// Series is a series. Other values refer to it by ID.
type Series struct {
	Key
	ID      uint32
	Handler string
	Ended   int64 // when its last probe ended, in milliseconds since the epoch; 0 if one may exist
}

// AppendSeries appends the payload of a series, without its ID.
func AppendSeries(dst []byte, s *Series) []byte {
	for _, text := range []string{s.Namespace, s.Pod, s.Container, s.Handler} {
		dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	}
	return binary.AppendVarint(append(dst, byte(s.Kind)), s.Ended)
}

// DecodeSeries decodes a payload of [AppendSeries]. The ID is not in it.
func DecodeSeries(payload []byte) (s Series, err error) {
	d := decoder{in: payload}
	for _, text := range []*string{&s.Namespace, &s.Pod, &s.Container, &s.Handler} {
		*text = string(d.bytes(d.uvarint()))
	}
	s.Kind = probe.Kind(d.byte())
	s.Ended = d.varint()
	return s, d.err("series")
}

// Window is a time span whose changes and samples are stored together.
type Window struct {
	Seq         uint32 // sequence number, in order of time
	Folded      bool   // its minutes are replaced by points
	First, Last int64  // begin and end, in milliseconds since the epoch; Last is 0 while the window is written
}

// AppendWindow appends the payload of a window, without its number.
func AppendWindow(dst []byte, w *Window) []byte {
	folded := byte(0)
	if w.Folded {
		folded = 1
	}
	return binary.AppendVarint(binary.AppendVarint(append(dst, folded), w.First), w.Last)
}

// DecodeWindow decodes a payload of [AppendWindow]. The number is not in it.
func DecodeWindow(payload []byte) (w Window, err error) {
	d := decoder{in: payload}
	w.Folded = d.byte() == 1
	w.First, w.Last = d.varint(), d.varint()
	return w, d.err("window")
}
