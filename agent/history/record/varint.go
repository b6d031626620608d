package record

import (
	"encoding/binary"
	"fmt"
)

// decoder decodes numbers and strings. After an error it returns zero values.
type decoder struct {
	in    []byte
	bad   bool
	known []string // strings so far
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.in)
	if n <= 0 {
		d.bad, d.in = true, nil
		return 0
	}
	d.in = d.in[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.in)
	if n <= 0 {
		d.bad, d.in = true, nil
		return 0
	}
	d.in = d.in[n:]
	return v
}

func (d *decoder) byte() byte {
	if len(d.in) == 0 {
		d.bad = true
		return 0
	}
	b := d.in[0]
	d.in = d.in[1:]
	return b
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.in)) {
		d.bad, d.in = true, nil
		return nil
	}
	b := d.in[:n]
	d.in = d.in[n:]
	return b
}

// count decodes a number of elements. Each takes at least one of the bytes that follow.
func (d *decoder) count() int {
	n := d.uvarint()
	if n > uint64(len(d.in)) {
		d.bad, d.in = true, nil
		return 0
	}
	return int(n)
}

// text decodes a string of [texts.append].
func (d *decoder) text() string {
	switch ref := d.uvarint(); {
	case ref == 0:
		return ""
	case ref == 1:
		t := string(d.bytes(d.uvarint()))
		d.known = append(d.known, t)
		return t
	case ref-2 < uint64(len(d.known)):
		return d.known[ref-2]
	default:
		d.bad = true
		return ""
	}
}

func (d *decoder) err(what string) error {
	if d.bad {
		return fmt.Errorf("%w: %s", ErrDamaged, what)
	}
	return nil
}

// texts encodes each distinct string once, and then a reference to it.
type texts map[string]uint64

func (t texts) append(dst []byte, text string) []byte {
	if text == "" {
		return append(dst, 0)
	}
	if ref, ok := t[text]; ok {
		return binary.AppendUvarint(dst, ref)
	}
	t[text] = uint64(len(t)) + 2
	dst = binary.AppendUvarint(append(dst, 1), uint64(len(text)))
	return append(dst, text...)
}
