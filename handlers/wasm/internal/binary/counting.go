package binary

import (
	"encoding/binary"
	"fmt"
)

// Counting is what a metered module counts for tests of plugins, in added globals. Its zero value is nothing.
type Counting struct {
	// Blocks reports whether to count the blocks of a function. Its body, which begins with its locals, is from
	// start to end in the code section. Nil counts no blocks.
	Blocks func(start, end int) bool

	// Fuel counts the fuel of each function.
	Fuel bool
}

// Counters are the globals with which a module counts: first those for the fuel of each function, then those for
// its blocks.
type Counters struct {
	First  int     // index of the first global
	Fuel   int     // number of functions whose fuel is counted, the last two for memory.fill and memory.copy
	Blocks []Block // in the order of the code
}

// Block is a part of a function that runs from its beginning to its end, unless a function that it calls does not
// return. Its range is in the code section of the original module.
type Block struct{ Start, End int }

const (
	// maxCounters is the maximum number of globals for counting. Each costs every instance an allocation.
	maxCounters = 200_000

	// maxCounted is the maximum ratio of the sizes of a module that counts and the original.
	maxCounted = 12
)

// chunkedFunctions is the number of added functions for bulk operations, see [meteredCode.fillIndex].
const chunkedFunctions = 2

// cuts cuts the current function into blocks. The zero value cuts nothing.
type cuts struct {
	counting bool
	offset   int  // of the function's body in the code section
	open     bool // a block begins at start, and has no counter yet
	dead     bool // no instruction before the next end or else runs
	start    int  // offset of the block in the body
	counted  bool // the block has a counter, which is the last one
	made     []Block
}

// begin begins a block at an offset in the body. dead reports whether no instruction in it runs.
func (c *cuts) begin(at int, dead bool) {
	c.finish(at)
	c.open, c.dead, c.start = !dead, dead, at
}

// finish ends the block at an offset in the body.
func (c *cuts) finish(at int) {
	if c.counted {
		c.made[len(c.made)-1].End = c.offset + at
	}
	c.open, c.counted = false, false
}

// count adds a counter to an open block before its first instruction, op.
func (f *function) count(op byte) {
	c := &f.cuts
	switch {
	case !c.counting || !c.open || c.dead:
	case 0x01 <= op && op <= 0x03, op == 0x05, op == 0x0b: // nop, block, loop, else, end
	default:
		f.edits = append(f.edits, edit{at: f.op, end: f.op, kind: editCount, units: uint32(len(c.made))})
		c.made = append(c.made, Block{Start: c.offset + c.start})
		c.open, c.counted = false, true
	}
}

// cut ends the block after the instruction op, if other instructions than the next one may follow it, or if the
// next one may follow others.
func (f *function) cut(op byte) {
	if !f.cuts.counting {
		return
	}
	switch op {
	case 0x03, 0x04, 0x05, 0x0b, 0x0d: // loop, if, else, end, br_if
		f.cuts.begin(f.position(), false)
	case 0x00, 0x0c, 0x0e, 0x0f: // unreachable, br, br_table, return
		f.cuts.begin(f.position(), true)
	}
}

// startCounting prepares the code for a module with these functions.
func (m *meteredCode) startCounting() {
	m.counters.First = m.sigs.globals + 1
	if m.counting.Fuel {
		m.counters.Fuel = len(m.sigs.functions) - m.sigs.imports + chunkedFunctions
	}
}

// cutsOf returns the cuts of a function whose body is at an offset in the code section.
func (m *meteredCode) cutsOf(offset int, body []byte) cuts {
	counts := m.counting.Blocks != nil && m.counting.Blocks(offset, offset+len(body))
	return cuts{counting: counts, offset: offset, open: counts, made: m.counters.Blocks}
}

// all returns the number of globals.
func (c *Counters) all() int { return c.Fuel + len(c.Blocks) }

// checkCounting refuses to count with too many globals.
func (m *meteredCode) checkCounting() error {
	if n := m.counters.all(); n > maxCounters {
		return fmt.Errorf("%d counters for functions and blocks; at most %d are possible", n, maxCounters)
	}
	return nil
}

// appendCount appends an addition of units to the counter with an index.
func (m *meteredCode) appendCount(out []byte, counter int, units uint64) []byte {
	global := uint64(m.counters.First + counter)
	out = binary.AppendUvarint(append(out, 0x23), global)
	out = append(appendSigned(append(out, 0x42), int64(units)), 0x7c)
	return binary.AppendUvarint(append(out, 0x24), global)
}

// appendSpent appends an addition of units to the fuel of the current function, if that is counted.
func (m *meteredCode) appendSpent(out []byte, units uint64) []byte {
	if !m.counting.Fuel {
		return out
	}
	return m.appendCount(out, m.current, units)
}
