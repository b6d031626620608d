package binary

// A metered module pays fuel for the instructions that it runs. A charge subtracts fuel when a function
// is entered, at each iteration of a loop, and after a stretch of instructions without a charge. When
// the fuel falls below zero, the charge calls the host function [RefuelName]. So the host decides how
// long a guest computes, and no other goroutine needs to interrupt the guest.
//
// An instruction costs about one unit, which is a third of a nanosecond for fast instructions. The code
// of a function or loop is paid for in advance, regardless of the branches taken.
const (
	// stretch is the maximum number of units between two charges, and the maximum that one charge
	// takes for its function or loop.
	stretch = 256

	// afterCall is the maximum number of units after a call before the next charge. The returns of a
	// deep recursion enter no function, so they would be free otherwise.
	afterCall = 64

	// leastDispatch is the minimum charge of a loop that is a dispatcher.
	leastDispatch = 16

	unitsOfCharge = 4
	unitsOfCall   = 6
	unitsOfSlow   = 8  // a division or square root
	localsAUnit   = 16 // locals that a loop may copy per unit

	// bulkUnit is how many bytes of a bulk operation cost one unit.
	bulkUnit  = 1 << bulkShift
	bulkShift = 3

	// bulkChunk is how many bytes of memory a bulk operation writes at once. 64 KiB take
	// 10 µs, and a few times as many if the pages are new.
	bulkChunk = 64 << 10

	// meteredTable is the largest table of a metered module with bulk operations on tables,
	// in entries of 8 bytes.
	meteredTable = 64 << 10
)

// editKind is the kind of replacement that an edit inserts.
type editKind byte

const (
	editIndex  editKind = iota // a function index, units holds the old one
	editCharge                 // a charge of units, limited to a stretch
	editFixed                  // a charge of exactly units
	editFill                   // a call of the function that replaces memory.fill
	editCopy                   // a call of the function that replaces memory.copy
	editCount                  // an increment of the counter of a block, units is its index
)

// edit is a change of a section or of a function.
type edit struct {
	at, end int // range of the replaced bytes
	kind    editKind
	units   uint32
	ways    uint32 // number of br_table targets in a loop
}

// region is the state of an open block for computing charges.
type region struct {
	paidBy int  // index of the edit that charges the innermost loop or the function
	loop   bool // it is a loop: branches go to its beginning, where there is a charge
	before int  // for an if: the value of run at its beginning, with which its else begins
	joins  int  // the largest value of run at a branch to its end
}

// bill is the state of metering a function.
// See RATIONALE.md, "Why does prober rewrite modules to count what they run?"
type bill struct {
	op      int    // position of the current instruction
	run     int    // maximum number of units since the last charge
	charges uint64 // number of charges

	usesBulk, inits, tables bool // memory.fill or memory.copy, memory.init, bulk operations on tables
}

// position returns the offset of the next byte in the body.
func (r *reader) position() int { return len(r.body) - len(r.Data) }

// functionIndex reads the index of a function, and adds an edit that changes it.
func (r *reader) functionIndex() uint32 {
	at := r.position()
	n := r.U32()
	r.edits = append(r.edits, edit{at: at, end: r.position(), kind: editIndex, units: n})
	return n
}

// globalIndex reads the index of a global.
func (r *reader) globalIndex() uint32 {
	n := r.U32()
	r.globals = max(r.globals, int64(n)+1)
	return n
}

// enter adds the charge at the entry of the function.
func (f *function) enter() {
	f.labels[0].paidBy = f.charge(editCharge, f.position(), unitsOfCall)
}

// charge adds a charge before the byte at a position, and returns the index of its edit.
func (f *function) charge(kind editKind, at int, units uint32) int {
	f.edits = append(f.edits, edit{at: at, end: at, kind: kind, units: units})
	f.charges++
	f.run = 0
	return len(f.edits) - 1
}

// next begins an instruction. It adds a charge after a stretch without one.
func (f *function) next() {
	f.op = f.position()
	if f.run >= stretch {
		f.charge(editFixed, f.op, stretch)
	}
}

// spend adds the units of the current instruction to the charge of the innermost loop or function.
func (f *function) spend(units uint64) {
	units = min(units, stretch)
	f.run += int(units)
	f.edits[f.label(0).paidBy].units += uint32(units)
}

// open returns the region of the block that the instruction op begins.
func (f *function) open(op byte) region {
	r := region{paidBy: f.label(0).paidBy}
	switch op {
	case 0x03: // loop
		r.loop, r.paidBy = true, f.charge(editCharge, f.position(), unitsOfCharge)
	case 0x04: // if
		f.spend(1)
		r.before = f.run
	}
	return r
}

// otherwise begins the else of the current block.
func (f *function) otherwise() {
	r := &f.label(0).region
	r.joins = max(r.joins, f.run)
	f.run, r.before = r.before, 0
}

// join ends the current block.
func (f *function) join() {
	r := &f.label(0).region
	f.run = max(f.run, r.before, r.joins)
}

// leaveTo records a branch to the block r.
func (f *function) leaveTo(r *region) {
	if !r.loop {
		r.joins = max(r.joins, f.run)
	}
}

// dispatch records a br_table with a number of targets. A loop with a br_table is usually a dispatcher,
// as in every function that Go compiles, and runs one of its branches per iteration.
func (f *function) dispatch(ways int) { f.edits[f.label(0).paidBy].ways += uint32(ways) }

func (f *function) payCall(sig arity, host bool) {
	units := unitsOfCall + sig.both()
	if host {
		units = stretch
	}
	f.spend(units)
	f.run = max(f.run, stretch-afterCall)
}

// arithmetic adds the units of a slow instruction without immediates.
func (f *function) arithmetic(op byte) {
	switch {
	case 0x6d <= op && op <= 0x70, 0x7f <= op && op <= 0x82, // divisions of integers
		op == 0x91, op == 0x95, op == 0x9f, op == 0xa3: // square roots, divisions of floats
		f.spend(unitsOfSlow)
	}
}

// replaceBulk replaces memory.fill or memory.copy by a call of a function that works in chunks.
func (f *function) replaceBulk(kind editKind) {
	f.spend(unitsOfCall)
	f.edits = append(f.edits, edit{at: f.op, end: f.position(), kind: kind})
	f.usesBulk = true
}

// payInit adds a charge for memory.init. Its segments have bulkChunk bytes at most.
func (f *function) payInit() {
	f.charge(editFixed, f.op, bulkChunk/bulkUnit)
	f.inits = true
}

// payTable adds a charge for a bulk operation on tables.
func (f *function) payTable() {
	f.charge(editFixed, f.op, meteredTable*8/bulkUnit)
	f.tables = true
}

// price returns the units of a charge. locals is the number of locals in its function.
func (e *edit) price(locals uint64) uint64 {
	units := uint64(e.units)
	if e.kind == editCharge {
		if e.ways > 0 {
			units = max(units/uint64(e.ways), min(units, leastDispatch))
		}
		units = min(units, stretch) + locals/localsAUnit
	}
	return units
}
