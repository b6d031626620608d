package binary

import (
	"encoding/binary"

	"github.com/daeace23/prober/internal/wasmfile"
)

// emptyLoop is an instruction that does nothing: loop end.
const emptyLoop = "\x03\x40\x0b"

// withChecks returns a module with an empty loop at the start of each function. wazero checks only at
// loops whether a guest must end, and a recursive guest may have no loop. code is the result of
// [Inspect].
func withChecks(code []byte) []byte {
	sections, err := wasmfile.Sections(code)
	if err != nil {
		return code // wazero will refuse it
	}
	bodies := make(map[int][]byte)
	for i, s := range sections {
		if s.ID == sectionCode {
			bodies[i] = checkedBodies(s.Body)
		}
	}
	return rebuild(code, sections, bodies)
}

// checkedBodies returns a code section with an empty loop in each function. A malformed section does
// not change.
func checkedBodies(section []byte) []byte {
	r := newReader(section)
	count := r.items()
	out := append(make([]byte, 0, len(section)+len(section)/8), section[:r.position()]...)
	for range count {
		body := r.Bytes()
		f := newReader(body)
		for range f.Count() {
			f.U32()
			f.valueType()
		}
		if r.Err != nil || f.Err != nil {
			return section
		}
		out = binary.AppendUvarint(out, uint64(len(body)+len(emptyLoop)))
		out = append(append(append(out, body[:f.position()]...), emptyLoop...), f.Data...)
	}
	return append(out, r.Data...)
}
