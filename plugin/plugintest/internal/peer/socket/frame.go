package socket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/expr"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
)

// Frame is a message that has its length near its beginning.
type Frame struct {
	Offset   int      // bytes before the length
	Bytes    int      // of the length, if it has a fixed size
	Encoding encoding // of the length, if Bytes is 0
	Order    order
	Includes bool   // the length counts its own bytes
	Add      int    // bytes of the message that the length does not count
	Body     string // name for the bytes behind the length; "" for none
}

type encoding string

const (
	ber    encoding = "ber"
	varint encoding = "varint"
)

type order string

const little order = "little"

// maxReceived is the limit of one received message, in bytes.
const maxReceived = 1 << 20

func decodeFrame(r *field.Reader, n *yamlpos.Node, path string, f *Frame, name func(n *yamlpos.Node, path string, to *string)) {
	r.Mapping(n, path, yamlpos.Fields{
		"bytes":    r.Int(&f.Bytes, 1, 8),
		"encoding": yamlpos.OneOf(&r.Decoder, &f.Encoding, ber, varint),
		"order":    yamlpos.OneOf(&r.Decoder, &f.Order, "big", little),
		"includes": r.Bool(&f.Includes),
		"offset":   r.Int(&f.Offset, 0, 64),
		"add":      r.Int(&f.Add, -64, math.MaxUint16),
		"body":     func(n *yamlpos.Node, path string) { name(n, path, &f.Body) },
	})
	switch {
	case n.Kind != yamlpos.Mapping:
	case (f.Bytes == 0) == (f.Encoding == ""):
		r.Errorf(n, path, "must have one of bytes, encoding")
	case f.Order != "" && f.Encoding != "":
		r.Errorf(n, path, "an encoding has no order")
	}
}

// match returns the offset of the body and the size of the message at the beginning of data. done is false
// as long as data is incomplete.
func (f *Frame) match(data []byte) (body, size int, done bool, err error) {
	if len(data) < f.Offset {
		return 0, 0, false, nil
	}
	length, width, err := f.length(data[f.Offset:])
	if err != nil || width == 0 {
		return 0, 0, false, err
	}
	body = f.Offset + width
	rest := length + int64(f.Add)
	if f.Includes {
		rest -= int64(width)
	}
	if rest < 0 || rest > maxReceived {
		return 0, 0, false, fmt.Errorf("the length is %d: the message would have %d more bytes, the limit is %d", length, rest, maxReceived)
	}
	size = body + int(rest)
	return body, size, len(data) >= size, nil
}

// length returns the length at the beginning of data and the number of its bytes, 0 if data is incomplete.
func (f *Frame) length(data []byte) (length int64, width int, err error) {
	switch {
	case f.Encoding == varint:
		n, width := binary.Uvarint(data)
		if width < 0 || n > maxReceived {
			return 0, 0, errors.New("the length is too large a varint")
		}
		return int64(n), width, nil
	case f.Encoding == ber:
		return berLength(data)
	case len(data) < f.Bytes:
		return 0, 0, nil
	}
	b := slices.Clone(data[:f.Bytes])
	if f.Order == little {
		slices.Reverse(b)
	}
	length, err = expr.Uint(b)
	return length, f.Bytes, err
}

// berLength decodes a length of the Basic Encoding Rules.
func berLength(data []byte) (length int64, width int, err error) {
	switch {
	case len(data) == 0:
		return 0, 0, nil
	case data[0] < 0x80:
		return int64(data[0]), 1, nil
	case data[0] == 0x80:
		return 0, 0, errors.New("the length of BER is indefinite")
	}
	if width = 1 + int(data[0]&0x7f); len(data) < width {
		return 0, 0, nil
	}
	length, err = expr.Uint(data[1:width])
	return length, width, err
}
