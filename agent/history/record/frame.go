// Package record encodes what files of history consist of: records that each have a checksum. What a
// record has is read without the others, so damage costs no more than the records that it hits.
//
// Read frame.go first: how records follow each other in a file. events.go, names.go, minutes.go and
// points.go have what is in them. Decoders take any bytes: they return an error, never panic, and take
// no more memory than [MaxPayload] needs.
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

// Magic begins each file. A file of a later format has another number.
const Magic = "prober-history 1\n"

// MagicPrefix is what files of all formats begin with.
const MagicPrefix = "prober-history "

// Type is what a record has.
type Type byte

// All types.
const (
	Head   Type = 'H' // when a file begins, see [AppendHead]
	Names  Type = 'N' // series, see [AppendNames]
	Events Type = 'E' // changes of states, see [EventWriter]
	Minute Type = 'm' // the ticks of one minute, of all series, see [AppendMinute]
	Points Type = 'P' // the minutes of some series, see [AppendPoints]
	Index  Type = 'I' // where names and points are, see [AppendIndex]
	End    Type = 'Z' // where the index is, the last record of a block
)

// MaxPayload is the most bytes of a record, before compression.
const MaxPayload = 16 << 20

const (
	headerSize   = 16
	flagDeflated = 1
	leastDeflate = 256 // bytes that are worth it
)

var (
	sync       = [4]byte{0xf5, 'h', 'r', 0x1e} // begins a record
	castagnoli = crc32.MakeTable(crc32.Castagnoli)

	// ErrDamaged matches the error of a record that cannot be decoded.
	ErrDamaged = errors.New("damaged")
)

// Writer appends records to a buffer. It is not safe for concurrent use.
type Writer struct {
	deflater *flate.Writer
	packed   bytes.Buffer
}

// Append appends a record with payload to dst. It returns dst unchanged if the payload is above
// [MaxPayload].
func (w *Writer) Append(dst []byte, t Type, payload []byte) []byte {
	if len(payload) > MaxPayload {
		return dst
	}
	var flags byte
	if len(payload) >= leastDeflate {
		if packed := w.deflate(payload); len(packed) < len(payload) {
			payload, flags = packed, flagDeflated
		}
	}
	var h [headerSize]byte
	copy(h[:], sync[:])
	h[4], h[5] = byte(t), flags
	binary.LittleEndian.PutUint32(h[8:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(h[12:], checksum(h[4:12], payload))
	return append(append(dst, h[:]...), payload...)
}

func (w *Writer) deflate(payload []byte) []byte {
	w.packed.Reset()
	if w.deflater == nil {
		w.deflater, _ = flate.NewWriter(&w.packed, flate.DefaultCompression) // the level is valid
	} else {
		w.deflater.Reset(&w.packed)
	}
	_, _ = w.deflater.Write(payload) // a buffer takes everything
	_ = w.deflater.Close()
	return w.packed.Bytes()
}

func checksum(header, payload []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, header), castagnoli, payload)
}

// Scanner reads the records of a file one after the other. After damage it goes on with the next
// record that is whole.
type Scanner struct {
	r         io.ReaderAt
	off, size int64
	window    []byte // of the file, from start
	start     int64
	payload   []byte
	inflater  io.ReadCloser
	// Skip, if it is not nil, reports which types to leave out. Their checksums are not verified.
	Skip func(Type) bool
	// Damaged is the number of places where there is no record. DamagedAt is the first of them.
	Damaged   int
	DamagedAt int64
	// Whole is where the last record ended: after it is nothing, or a torn record.
	Whole int64
	err   error
}

// NewScanner returns a scanner of the records of r, from off up to size.
func NewScanner(r io.ReaderAt, off, size int64) *Scanner {
	return &Scanner{r: r, off: off, size: size, Whole: off}
}

// Next returns the next record, with what [Scanner.Payload] needs to read it. ok is false at the end,
// or after an error of the file: see [Scanner.Err].
func (s *Scanner) Next() (r Raw, ok bool) {
	for s.off < s.size {
		r, ok := s.at(s.off)
		if ok {
			s.off = r.next
			s.Whole = s.off
			if s.Skip != nil && s.Skip(r.Type) {
				continue
			}
			return r, true
		}
		if s.err != nil {
			return Raw{}, false
		}
		if s.Damaged++; s.Damaged == 1 {
			s.DamagedAt = s.off
		}
		s.off = s.resync(s.off + 1)
	}
	return Raw{}, false
}

// Torn reports whether the only damage is at the end, as of a write that was interrupted.
func (s *Scanner) Torn() bool { return s.Damaged == 1 && s.DamagedAt == s.Whole }

// Err returns the error of reading the file, if it was not its end.
func (s *Scanner) Err() error { return s.err }

// Raw is a record as it is in the file. Its bytes are valid until the next call of the scanner.
type Raw struct {
	Type     Type
	Offset   int64 // of the record in the file
	next     int64
	deflated bool
	packed   []byte
}

// at reads the record at off.
func (s *Scanner) at(off int64) (r Raw, ok bool) {
	h := s.bytes(off, headerSize)
	if h == nil || [4]byte(h) != sync {
		return Raw{}, false
	}
	n := int64(binary.LittleEndian.Uint32(h[8:]))
	r = Raw{Type: Type(h[4]), Offset: off, next: off + headerSize + n, deflated: h[5]&flagDeflated != 0}
	if n > MaxPayload || r.next > s.size {
		return Raw{}, false
	}
	if s.Skip != nil && s.Skip(r.Type) {
		next := s.bytes(r.next, len(sync))
		if r.next == s.size || next != nil && [4]byte(next) == sync {
			return r, true
		}
		h = s.bytes(off, headerSize)
		if h == nil {
			return Raw{}, false
		}
	}
	header := [headerSize]byte(h)
	if r.packed = s.bytes(off+headerSize, int(n)); r.packed == nil && n > 0 {
		return Raw{}, false
	}
	return r, checksum(header[4:12], r.packed) == binary.LittleEndian.Uint32(header[12:])
}

// resync returns where the next record may begin, at off or after it.
func (s *Scanner) resync(off int64) int64 {
	const step = 32 << 10
	for off < s.size {
		part := s.bytes(off, int(min(step, s.size-off)))
		if part == nil {
			return s.size
		}
		if i := bytes.Index(part, sync[:]); i >= 0 {
			return off + int64(i)
		}
		if off+int64(len(part)) >= s.size {
			return s.size
		}
		off += int64(len(part)) - int64(len(sync)) + 1
	}
	return s.size
}

// bytes returns n bytes at off, or nil if they are not there.
func (s *Scanner) bytes(off int64, n int) []byte {
	if off < 0 || n < 0 || off+int64(n) > s.size {
		return nil
	}
	if off >= s.start && off+int64(n) <= s.start+int64(len(s.window)) {
		return s.window[off-s.start:][:n]
	}
	want := int(min(int64(max(n, 64<<10)), s.size-off))
	if cap(s.window) < want {
		s.window = make([]byte, want)
	}
	s.window, s.start = s.window[:want], off
	got, err := s.r.ReadAt(s.window, off)
	s.window = s.window[:got]
	if err != nil && err != io.EOF {
		s.err = err
	}
	if got < n {
		return nil
	}
	return s.window[:n]
}

// Payload returns the content of a record of s, until the next call.
func (s *Scanner) Payload(r Raw) ([]byte, error) {
	if !r.deflated {
		return r.packed, nil
	}
	in := bytes.NewReader(r.packed)
	if s.inflater == nil {
		s.inflater = flate.NewReader(in)
	} else if err := s.inflater.(flate.Resetter).Reset(in, nil); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	out := bytes.NewBuffer(s.payload[:0])
	n, err := io.Copy(out, io.LimitReader(s.inflater, MaxPayload+1))
	s.payload = out.Bytes()
	if err != nil || n > MaxPayload {
		return nil, fmt.Errorf("%w: a record cannot be decompressed", ErrDamaged)
	}
	return s.payload, nil
}

// ReadAt returns the type and the content of the record at off.
func (s *Scanner) ReadAt(off int64) (Type, []byte, error) {
	r, ok := s.at(off)
	if !ok {
		if s.err != nil {
			return 0, nil, s.err
		}
		return 0, nil, fmt.Errorf("%w: there is no record at byte %d", ErrDamaged, off)
	}
	payload, err := s.Payload(r)
	return r.Type, payload, err
}
