package binary

import (
	"errors"
	"fmt"
)

// arity is how many values something takes and leaves.
type arity struct{ in, out uint64 }

func (a arity) both() uint64 { return a.in + a.out }

// signatures are the types of a module, and which of them its functions have.
type signatures struct {
	types     []arity
	functions []uint32 // those that are imported first
	imports   int
}

// at is the arity of a type, and nothing where there is none: wazero refuses the module.
func (s *signatures) at(kind uint32) arity {
	if uint64(kind) >= uint64(len(s.types)) {
		return arity{}
	}
	return s.types[kind]
}

// of is the arity of a function.
func (s *signatures) of(function int) arity {
	if uint(function) >= uint(len(s.functions)) {
		return arity{}
	}
	return s.at(s.functions[function])
}

// effort is what makes code dear to compile. wazero takes time and memory with the square
// of the loops, with the product of branches and locals, and with the values that calls
// and branches carry: 137 kB of module took 3 GB and 24 seconds.
type effort struct {
	locals   uint64
	loops    uint64
	branches uint64 // blocks, loops and all that leads to their ends
	carried  uint64
	squares  uint64 // of the loops of functions
	flow     uint64 // branches times locals
}

// tooMuch says why one function may not be compiled.
func (e *effort) tooMuch() error {
	e.squares, e.flow = e.loops*e.loops, e.branches*e.locals
	switch {
	case e.locals > maxLocals:
		return fmt.Errorf("more than %d locals in one function", maxLocals)
	case e.loops > maxLoops:
		return fmt.Errorf("more than %d loops in one function", maxLoops)
	case e.branches > maxBranches, e.flow > maxFlow:
		return fmt.Errorf("more than %d branches in one function, or %d times its locals", maxBranches, maxFlow)
	case e.carried > maxCarried:
		return fmt.Errorf("more than %d values in the calls and branches of one function", maxCarried)
	}
	return nil
}

// add adds what one function takes to what all of them do, and says why that is too much.
func (e *effort) add(one *effort) error {
	e.locals += one.locals
	e.squares += one.squares
	e.flow += one.flow
	e.carried += one.carried
	switch {
	case e.locals > allLocals:
		return fmt.Errorf("more than %d locals in all functions", allLocals)
	case e.squares > allSquares:
		return errors.New("too many functions with many loops")
	case e.flow > allFlow:
		return errors.New("too many functions with many branches and locals")
	case e.carried > allCarried:
		return fmt.Errorf("more than %d values in the calls and branches of all functions", allCarried)
	}
	return nil
}
