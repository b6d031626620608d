// Package record encodes the values of the history. Each value has a checksum over its bucket, its key and its
// payload: bbolt's pages have no checksums, and a value under another key is damage too.
//
// Read seal.go first: the envelope of all values. events.go, names.go, minutes.go and points.go have their
// payloads. Decoders take any bytes: they return an error, never panic, and use no more memory than
// [MaxPayload] needs.
package record

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// MaxPayload is the limit of a payload, in bytes before compression.
const MaxPayload = 16 << 20

const (
	headerSize   = 5 // the checksum and the flags
	flagDeflated = 1
	leastDeflate = 96 // bytes; smaller payloads are not compressed
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrDamaged matches the errors of values that cannot be decoded.
var ErrDamaged = errors.New("damaged")

// Sealer encodes values. It is not safe for concurrent use.
type Sealer struct {
	deflater *flate.Writer
	packed   bytes.Buffer
}

// Seal returns the value of payload, for a key of a bucket. The value is a copy. The payload must not
// exceed [MaxPayload].
func (s *Sealer) Seal(bucket, key, payload []byte) []byte {
	var flags byte
	if len(payload) >= leastDeflate {
		if packed := s.deflate(payload); len(packed) < len(payload) {
			payload, flags = packed, flagDeflated
		}
	}
	value := make([]byte, headerSize, headerSize+len(payload))
	value[4] = flags
	value = append(value, payload...)
	binary.LittleEndian.PutUint32(value, checksum(bucket, key, value[4:]))
	return value
}

func (s *Sealer) deflate(payload []byte) []byte {
	s.packed.Reset()
	if s.deflater == nil {
		s.deflater, _ = flate.NewWriter(&s.packed, flate.DefaultCompression) // the level is valid
	} else {
		s.deflater.Reset(&s.packed)
	}
	_, _ = s.deflater.Write(payload) // a buffer returns no error
	_ = s.deflater.Close()
	return s.packed.Bytes()
}

func checksum(bucket, key, rest []byte) uint32 {
	sum := crc32.Update(uint32(len(bucket)), castagnoli, bucket)
	return crc32.Update(crc32.Update(sum, castagnoli, key), castagnoli, rest)
}

// Opener decodes values. It is not safe for concurrent use.
type Opener struct {
	payload  []byte
	inflater io.ReadCloser
}

// Open returns the payload of a value, valid until the next call. It may share the memory of value.
func (o *Opener) Open(bucket, key, value []byte) ([]byte, error) {
	if len(value) < headerSize || binary.LittleEndian.Uint32(value) != checksum(bucket, key, value[4:]) {
		return nil, fmt.Errorf("%w: the checksum of %s %x is wrong", ErrDamaged, bucket, key)
	}
	if value[4]&flagDeflated == 0 {
		return value[headerSize:], nil
	}
	in := bytes.NewReader(value[headerSize:])
	if o.inflater == nil {
		o.inflater = flate.NewReader(in)
	} else if err := o.inflater.(flate.Resetter).Reset(in, nil); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	out := bytes.NewBuffer(o.payload[:0])
	n, err := io.Copy(out, io.LimitReader(o.inflater, MaxPayload+1))
	o.payload = out.Bytes()
	if err != nil || n > MaxPayload {
		return nil, fmt.Errorf("%w: %s %x cannot be decompressed", ErrDamaged, bucket, key)
	}
	return o.payload, nil
}
