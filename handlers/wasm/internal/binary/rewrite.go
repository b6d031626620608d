package binary

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The prefixes of the exports that Inspect adds. A guest must not have exports with these prefixes.
const (
	reservedPrefix = "prober:"
	globalPrefix   = reservedPrefix + "global:"
)

// StartName is the name under which the start function is exported.
const StartName = reservedPrefix + "start"

// readGlobals finds the mutable globals. If the host cannot set a global of some type, the module is
// volatile.
func (m *inspection) readGlobals(r *reader) {
	m.sigs.globals = r.atMost(maxGlobals, "globals")
	for i := range m.sigs.globals {
		kind := r.Byte()
		r.checkType(kind)
		mutable := r.Byte() == 1
		r.expression()
		if r.Err != nil {
			return
		}
		switch {
		case mutable && 0x7c <= kind && kind <= 0x7f: // f64, f32, i64, i32
			m.Globals = append(m.Globals, globalPrefix+strconv.Itoa(i))
			m.mutable = append(m.mutable, uint32(i))
		case mutable:
			m.Volatile = true
		}
	}
}

// addExports returns the export section with the mutable globals and the start function added.
func (m *inspection) addExports(r *reader, start uint32) []byte {
	count := r.atMost(maxExports, "exports")
	entries := r.Data
	m.exportsAt = r.position()
	for range count {
		if name := r.name(); strings.HasPrefix(name, reservedPrefix) && r.Err == nil {
			r.Err = fmt.Errorf("export %q: the name is reserved", name)
		}
		switch r.Byte() {
		case kindFunction:
			r.functionIndex()
		case kindGlobal:
			r.globalIndex()
		default:
			r.U32()
		}
	}
	if r.Err != nil {
		return nil
	}
	m.exports = count
	return append(m.ownExports(start, 0), entries...)
}

// ownExports returns the beginning of an export section, up to the exports of the guest. more is the
// number of exports that the guest has.
func (m *inspection) ownExports(start uint32, more int) []byte {
	own := len(m.Globals)
	if m.Module.start {
		own++
	}
	out := binary.AppendUvarint(nil, uint64(m.exports+own+more))
	if m.Module.start {
		out = appendExport(out, StartName, kindFunction, start)
	}
	for i, name := range m.Globals {
		out = appendExport(out, name, kindGlobal, m.mutable[i])
	}
	return out
}

// appendExport appends an entry of an export section.
func appendExport(out []byte, name string, kind byte, index uint32) []byte {
	out = append(binary.AppendUvarint(out, uint64(len(name))), name...)
	return binary.AppendUvarint(append(out, kind), uint64(index))
}

// mergeGap is the largest gap between two data segments that are merged, in bytes.
const mergeGap = 256

// maxFilled is how many bytes of gaps are filled in total. Without this limit, a hostile module could
// grow to thirty times its size.
const maxFilled = 4 << 20

// segment is an active data segment and its address.
type segment struct {
	at   uint64
	data []byte
}

// mergeData returns a data section with fewer segments and the same effect. It returns nil unless all
// segments are active, have constant offsets and do not overlap.
func mergeData(body []byte) []byte {
	segments := readData(body)
	slices.SortFunc(segments, func(a, b segment) int { return cmp.Compare(a.at, b.at) })
	var merged []segment
	var filled uint64
	for _, s := range segments {
		if len(merged) == 0 {
			merged = append(merged, segment{s.at, append(make([]byte, 0, len(body)), s.data...)})
			continue
		}
		last := &merged[len(merged)-1]
		end := last.at + uint64(len(last.data))
		switch {
		case s.at < end:
			return nil
		case s.at-end <= mergeGap && filled+s.at-end <= maxFilled:
			filled += s.at - end
			last.data = append(append(last.data, make([]byte, s.at-end)...), s.data...)
		default:
			merged = append(merged, segment{s.at, slices.Clone(s.data)})
		}
	}
	if len(merged) == 0 {
		return nil
	}
	out := binary.AppendUvarint(make([]byte, 0, len(body)), uint64(len(merged)))
	for _, s := range merged {
		out = append(out, 0, 0x41) // active, i32.const
		out = appendSigned(out, int64(int32(s.at)))
		out = append(out, 0x0b)
		out = binary.AppendUvarint(out, uint64(len(s.data)))
		out = append(out, s.data...)
	}
	return out
}

// readData returns the segments of a data section, or nil if one of them is not active with a
// constant offset.
func readData(body []byte) []segment {
	r := newReader(body)
	n := r.Count()
	out := make([]segment, 0, min(n, 1<<16))
	for range n {
		if r.Byte() != 0 || r.Byte() != 0x41 {
			return nil
		}
		at := uint64(uint32(r.sleb(5)))
		if r.Byte() != 0x0b {
			return nil
		}
		out = append(out, segment{at, r.Bytes()})
		if r.Err != nil {
			return nil
		}
	}
	if r.Err != nil || len(r.Data) > 0 {
		return nil
	}
	return out
}

// appendSigned appends n as signed LEB128.
func appendSigned(out []byte, n int64) []byte {
	for {
		b := byte(n & 0x7f)
		n >>= 7
		if n == 0 && b&0x40 == 0 || n == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}
