package wasmfile

import "io"

// headerSize is how many bytes [Custom] reads of each section: its ID, its size, and the length and the
// beginning of its name.
const headerSize = 64

// Custom returns the bodies of the custom sections with a name of at most 48 bytes, in a module of size bytes. It
// reads only the headers of other sections. A body of more than most bytes is an error.
func Custom(module io.ReaderAt, size int64, name string, most int) (bodies [][]byte, err error) {
	buf := make([]byte, headerSize)
	if _, err := module.ReadAt(buf[:len(moduleHeader)], 0); err != nil || string(buf[:len(moduleHeader)]) != string(moduleHeader) {
		return nil, ErrMalformed
	}
	end := int64(len(moduleHeader))
	for sections := 0; end < size; sections++ {
		start := end
		n, _ := module.ReadAt(buf, start) // io.EOF after the last section
		if n == 0 || sections == maxSections {
			return nil, ErrMalformed
		}
		r := Reader{Data: buf[:n]}
		id, length := r.Byte(), int64(r.U32())
		if end = start + int64(n-len(r.Data)) + length; r.Err != nil || end > size {
			return nil, ErrMalformed
		}
		if id != 0 || string(r.Bytes()) != name || r.Err != nil { // a name that exceeds buf cannot equal name
			continue
		}
		begin := start + int64(n-len(r.Data))
		if begin > end || end-begin > int64(most) {
			return nil, ErrMalformed
		}
		body := make([]byte, end-begin)
		if _, err := module.ReadAt(body, begin); err != nil {
			return nil, err
		}
		bodies = append(bodies, body)
	}
	return bodies, nil
}
