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

// Series is a series of a file. Its ID is used in the other records of the file.
type Series struct {
	Key
	ID      uint32
	Handler string
}

// AppendNames appends the payload of a [Names] record.
func AppendNames(dst []byte, series []Series) []byte {
	known := make(texts)
	dst = binary.AppendUvarint(dst, uint64(len(series)))
	for i := range series {
		s := &series[i]
		dst = binary.AppendUvarint(dst, uint64(s.ID))
		for _, text := range []string{s.Namespace, s.Pod, s.Container, s.Handler} {
			dst = known.append(dst, text)
		}
		dst = append(dst, byte(s.Kind))
	}
	return dst
}

// DecodeNames calls each for the series of a [Names] record.
func DecodeNames(payload []byte, each func(Series)) error {
	d := decoder{in: payload}
	for range d.count() {
		var s Series
		s.ID = uint32(d.uvarint())
		s.Namespace, s.Pod, s.Container, s.Handler = d.text(), d.text(), d.text(), d.text()
		s.Kind = probe.Kind(d.byte())
		if d.bad {
			break
		}
		each(s)
	}
	return d.err("names")
}

// AppendHead appends the payload of a [Head] record: when the first and the last of a file happened, in
// milliseconds. A journal does not know its last, which is 0.
func AppendHead(dst []byte, first, last int64) []byte {
	return binary.AppendVarint(binary.AppendVarint(dst, first), last)
}

// DecodeHead decodes a [Head] record.
func DecodeHead(payload []byte) (first, last int64, err error) {
	d := decoder{in: payload}
	first, last = d.varint(), d.varint()
	return first, last, d.err("head")
}

// Directory says where the records of a block are that are read alone.
type Directory struct {
	Names  []NamesAt  // sorted by key, as the series are
	Points []PointsAt // sorted by ID, as the series are
}

// NamesAt is where a [Names] record is.
type NamesAt struct {
	First  Key // in it
	Offset int64
}

// PointsAt is where a [Points] record is.
type PointsAt struct {
	First  uint32 // ID in it
	Offset int64
}

// AppendIndex appends the payload of an [Index] record.
func AppendIndex(dst []byte, x *Directory) []byte {
	known := make(texts)
	dst = binary.AppendUvarint(dst, uint64(len(x.Names)))
	for i := range x.Names {
		k := &x.Names[i].First
		dst = binary.AppendUvarint(dst, uint64(x.Names[i].Offset))
		for _, text := range []string{k.Namespace, k.Pod, k.Container} {
			dst = known.append(dst, text)
		}
		dst = append(dst, byte(k.Kind))
	}
	dst = binary.AppendUvarint(dst, uint64(len(x.Points)))
	for _, p := range x.Points {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(p.First)), uint64(p.Offset))
	}
	return dst
}

// DecodeIndex decodes an [Index] record.
func DecodeIndex(payload []byte) (x Directory, err error) {
	d := decoder{in: payload}
	for range d.count() {
		at := NamesAt{Offset: int64(d.uvarint())}
		at.First = Key{d.text(), d.text(), d.text(), probe.Kind(d.byte())}
		x.Names = append(x.Names, at)
	}
	for range d.count() {
		x.Points = append(x.Points, PointsAt{uint32(d.uvarint()), int64(d.uvarint())})
	}
	return x, d.err("index")
}

// EndSize is the size of an [End] record.
const EndSize = headerSize + 8

// AppendEnd appends the payload of an [End] record: where the index is.
func AppendEnd(dst []byte, index int64) []byte {
	return binary.LittleEndian.AppendUint64(dst, uint64(index))
}

// DecodeEnd decodes an [End] record.
func DecodeEnd(payload []byte) (int64, error) {
	if len(payload) != 8 {
		return 0, ErrDamaged
	}
	return int64(binary.LittleEndian.Uint64(payload)), nil
}
