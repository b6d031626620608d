package binary

// A metered module pays fuel for what it runs. It pays when a function is entered, each time
// that a loop begins or repeats, and before more than a stretch of instructions runs without a
// charge. When the fuel is below zero, the charge calls [RefuelName] of the host. So the host
// decides how long a guest computes, and no other goroutine has to interrupt it.
//
// An instruction costs about one unit, which is a third of a nanosecond if nothing is slow.
// The code of an entry and of a loop is paid in advance, whichever branches are taken then.
const (
	// stretch is how many units may run between two charges, and the most that one of
	// them takes of its own function or loop.
	stretch = 256

	// afterCall is how many units may run after a call. A deep recursion returns without
	// further entries.
	afterCall = 64

	// leastDispatch is the least charge of a loop that is a dispatcher.
	leastDispatch = 16

	unitsOfCharge = 4
	unitsOfCall   = 6
	unitsOfSlow   = 8  // of a division or square root
	localsAUnit   = 16 // locals that a loop may copy for a unit

	// bulkUnit is how many bytes of a bulk operation cost a unit.
	bulkUnit  = 1 << bulkShift
	bulkShift = 3

	// bulkChunk is how many bytes of memory a bulk operation writes at once. 64 KiB take
	// 10 µs, and a few times as many if the pages are new.
	bulkChunk = 64 << 10

	// meteredTable is the largest table of a metered module with bulk operations on tables,
	// in entries of 8 bytes.
	meteredTable = 64 << 10
)

// editKind says what an edit puts in the place of bytes.
type editKind byte

const (
	editIndex  editKind = iota // the number of the function units
	editCharge                 // a charge of the units, or of a stretch if they are more
	editFixed                  // a charge of the units
	editFill                   // a call of the function that does memory.fill
	editCopy                   // a call of the function that does memory.copy
)

// edit is a change of a section or of a function.
type edit struct {
	at, end int // the bytes that are replaced
	kind    editKind
	units   uint32
	ways    uint32 // targets of the br_table in a loop
}

// region is what an open block knows of charges.
type region struct {
	paidBy int  // the edit that is the charge of the innermost loop, or of the function
	loop   bool // branches go to its beginning, where there is a charge
	before int  // run at the beginning of an if, where its else begins
	joins  int  // the largest run of branches to its end
}

// bill is how a function is metered.
// See RATIONALE.md, "Why does prober rewrite modules to count what they run?"
type bill struct {
	op      int    // where the current instruction begins
	run     int    // units that may have run since the last charge
	charges uint64 // the number of charges

	usesBulk, inits, tables bool // memory.fill or memory.copy, memory.init, bulk operations on tables
}

// at returns the position in the body.
func (r *reader) at() int { return len(r.body) - len(r.Data) }

// functionIndex reads the number of a function.
func (r *reader) functionIndex() uint32 {
	at := r.at()
	n := r.U32()
	r.edits = append(r.edits, edit{at: at, end: r.at(), kind: editIndex, units: n})
	return n
}

// globalIndex reads the number of a global.
func (r *reader) globalIndex() uint32 {
	n := r.U32()
	r.globals = max(r.globals, int64(n)+1)
	return n
}

// enter adds the charge of the function.
func (f *function) enter() {
	f.labels[0].paidBy = f.charge(editCharge, f.at(), unitsOfCall)
}

// charge adds a charge before the byte at a position, and returns its number.
func (f *function) charge(kind editKind, at int, units uint32) int {
	f.edits = append(f.edits, edit{at: at, end: at, kind: kind, units: units})
	f.charges++
	f.run = 0
	return len(f.edits) - 1
}

// next begins an instruction.
func (f *function) next() {
	f.op = f.at()
	if f.run >= stretch {
		f.charge(editFixed, f.op, stretch)
	}
}

// spend adds the units of the current instruction.
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
		r.loop, r.paidBy = true, f.charge(editCharge, f.at(), unitsOfCharge)
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

// leaveTo adds a branch to the block r.
func (f *function) leaveTo(r *region) {
	if !r.loop {
		r.joins = max(r.joins, f.run)
	}
}

// dispatch adds a br_table. A loop with one is usually a dispatcher, such as every function of Go
// has, and runs one of its branches.
func (f *function) dispatch(ways int) { f.edits[f.label(0).paidBy].ways += uint32(ways) }

func (f *function) payCall(sig arity, host bool) {
	units := unitsOfCall + sig.both()
	if host {
		units = stretch
	}
	f.spend(units)
	f.run = max(f.run, stretch-afterCall)
}

// arithmetic adds an instruction without immediates.
func (f *function) arithmetic(op byte) {
	switch {
	case 0x6d <= op && op <= 0x70, 0x7f <= op && op <= 0x82, // divisions of integers
		op == 0x91, op == 0x95, op == 0x9f, op == 0xa3: // square roots, divisions of floats
		f.spend(unitsOfSlow)
	}
}

// replaceBulk replaces memory.fill or memory.copy by a function that does it in chunks.
func (f *function) replaceBulk(kind editKind) {
	f.spend(unitsOfCall)
	f.edits = append(f.edits, edit{at: f.op, end: f.at(), kind: kind})
	f.usesBulk = true
}

// payInit pays for memory.init. Its segments have bulkChunk bytes at most.
func (f *function) payInit() {
	f.charge(editFixed, f.op, bulkChunk/bulkUnit)
	f.inits = true
}

// payTable pays for a bulk operation on tables.
func (f *function) payTable() {
	f.charge(editFixed, f.op, meteredTable*8/bulkUnit)
	f.tables = true
}

// price returns the units of a charge in a function with so many locals.
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
