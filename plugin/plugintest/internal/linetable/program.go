package linetable

import (
	"fmt"
	"math"
)

// The opcodes that [reading.program] knows.
const (
	opCopy        = 1
	opAdvancePC   = 2
	opAdvanceLine = 3
	opSetFile     = 4
	opSetColumn   = 5
	opNegateStmt  = 6
	opBlock       = 7
	opConstAddPC  = 8
	opFixedPC     = 9
	opPrologueEnd = 10
	opEpilogue    = 11
	opSetISA      = 12

	opEndSequence = 1 // after 0 and a length
	opSetAddress  = 2
)

// state has the registers of a line program.
type state struct {
	address, file uint64
	line          int64
	stmt          bool
	open          *Row // the row that the next one ends; nil if there is none, or if it is no statement
	first         int  // index of the first row of the sequence
	begun         bool // the sequence has begun, at start
	start         uint64
}

// program runs the line program of a unit.
func (r *reading) program(d *data, u *unit) error {
	s := state{file: 1, line: 1, stmt: u.stmt, first: len(r.table.Rows)}
	for len(d.rest) > 0 {
		op := d.byte()
		if op >= u.opcodeBase {
			n := op - u.opcodeBase
			s.address += uint64(n/u.lineRange) * u.minimum
			s.line += u.lineBase + int64(n%u.lineRange)
			if err := r.row(u, &s); err != nil {
				return err
			}
			continue
		}
		if err := r.standard(d, u, &s, op); err != nil {
			return err
		}
		if err := d.end(); err != nil {
			return err
		}
	}
	r.table.Rows = r.table.Rows[:s.first] // a sequence without an end has no known size
	return nil
}

// standard runs an opcode that is not special.
func (r *reading) standard(d *data, u *unit, s *state, op byte) error {
	switch op {
	case 0:
		return r.extended(data{d.take(d.uleb())}, u, s)
	case opCopy:
		return r.row(u, s)
	case opAdvancePC:
		s.address += d.uleb() * u.minimum
	case opAdvanceLine:
		s.line += d.sleb()
	case opSetFile:
		s.file = d.uleb()
	case opSetColumn, opSetISA:
		d.uleb()
	case opNegateStmt:
		s.stmt = !s.stmt
	case opConstAddPC:
		s.address += uint64((255-u.opcodeBase)/u.lineRange) * u.minimum
	case opFixedPC:
		s.address += uint64(d.u16())
	case opBlock, opPrologueEnd, opEpilogue:
	default:
		for range u.operands[op-1] {
			d.uleb()
		}
	}
	return nil
}

// extended runs an extended opcode. Unknown ones do nothing.
func (r *reading) extended(d data, u *unit, s *state) error {
	switch d.byte() {
	case opEndSequence:
		r.close(s)
		if isRemoved(s.start) {
			r.table.Rows = r.table.Rows[:s.first]
		}
		*s = state{file: 1, line: 1, stmt: u.stmt, first: len(r.table.Rows)}
	case opSetAddress:
		switch len(d.rest) {
		case 4:
			s.address = uint64(d.u32())
		case 8:
			s.address = uint64(d.u32())
			if d.u32() != 0 {
				s.address = math.MaxUint32
			}
		default:
			return errMalformed
		}
	}
	return nil
}

// isRemoved reports whether an address is one that linkers give to functions that they removed. No function begins
// at 0, where the code section has their number.
func isRemoved(address uint64) bool { return address == 0 || address >= math.MaxUint32-1 }

// row begins a row, and ends the one before.
func (r *reading) row(u *unit, s *state) error {
	r.close(s)
	if !s.begun {
		s.begun, s.start = true, s.address
	}
	if !s.stmt || s.line < 1 || s.line > math.MaxInt32 || s.address >= math.MaxUint32 {
		return nil // line 0 is code of the compiler
	}
	if len(r.table.Rows) == maxRows {
		return fmt.Errorf("more than %d rows", maxRows)
	}
	index, err := r.index(u, s.file)
	if err != nil {
		return err
	}
	r.table.Rows = append(r.table.Rows, Row{Start: uint32(s.address), File: index, Line: uint32(s.line)})
	s.open = &r.table.Rows[len(r.table.Rows)-1]
	return nil
}

// close ends the open row. Empty rows are dropped.
func (r *reading) close(s *state) {
	if s.open == nil {
		return
	}
	s.open.End = uint32(min(s.address, math.MaxUint32))
	if s.open.End <= s.open.Start {
		r.table.Rows = r.table.Rows[:len(r.table.Rows)-1]
	}
	s.open = nil
}
