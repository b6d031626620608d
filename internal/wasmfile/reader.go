package wasmfile

import (
	"encoding/binary"
	"errors"
)

// ErrMalformed is the error of a [Reader] for invalid or truncated data.
var ErrMalformed = errors.New("malformed module")

// Reader reads the binary format of modules. After an error it reads zeros.
type Reader struct {
	Data []byte // not read yet
	Err  error  // the first error
}

// Fail sets the error to [ErrMalformed], unless an error is set.
func (r *Reader) Fail() {
	if r.Err == nil {
		r.Err = ErrMalformed
	}
	r.Data = nil
}

// Byte reads a byte.
func (r *Reader) Byte() byte {
	if len(r.Data) == 0 {
		r.Fail()
		return 0
	}
	b := r.Data[0]
	r.Data = r.Data[1:]
	return b
}

// Skip skips n bytes.
func (r *Reader) Skip(n int) {
	if n > len(r.Data) {
		r.Fail()
		return
	}
	r.Data = r.Data[n:]
}

// U32 reads an unsigned integer in LEB128.
func (r *Reader) U32() uint32 {
	v, n := binary.Uvarint(r.Data[:min(len(r.Data), 5)])
	if n <= 0 || v > 1<<32-1 {
		r.Fail()
		return 0
	}
	r.Data = r.Data[n:]
	return uint32(v)
}

// Count reads the length of a vector, whose items have at least one byte each.
func (r *Reader) Count() int {
	n := r.U32()
	if uint64(n) > uint64(len(r.Data)) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Bytes reads a vector of bytes. The result shares memory with the module.
func (r *Reader) Bytes() []byte {
	n := r.Count()
	b := r.Data[:n]
	r.Data = r.Data[n:]
	return b
}

// importType reads the kind and type of an import. index is the type of a function, else 0.
func (r *Reader) importType() (kind byte, index uint32) {
	switch kind = r.Byte(); kind {
	case kindFunction:
		index = r.U32()
	case kindTable:
		r.Byte() // the type of its elements
		r.limits()
	case kindMemory:
		r.limits()
	case kindGlobal:
		r.Byte()
		r.Byte()
	default:
		r.Fail()
	}
	return kind, index
}

func (r *Reader) limits() {
	flags := r.Byte()
	r.U32()
	if flags&1 != 0 {
		r.U32()
	}
}
