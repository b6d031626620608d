package binary

import (
	"errors"
	"fmt"
)

// arity has the numbers of parameters and results of a function or block.
type arity struct{ in, out uint64 }

func (a arity) both() uint64 { return a.in + a.out }

// signatures has the types of a module and of its functions.
type signatures struct {
	types       []arity
	functions   []uint32 // type indices; imported functions come first
	imports     int
	globals     int
	hostInTable bool // a table element is an imported function
	unknown     bool // there is a reference to a missing type or function
}

// ofType returns the arity of a type. It is zero for an unknown type, which wazero refuses.
func (s *signatures) ofType(kind uint32) arity {
	if uint64(kind) >= uint64(len(s.types)) {
		s.unknown = true
		return arity{}
	}
	return s.types[kind]
}

// ofFunction returns the arity of a function.
func (s *signatures) ofFunction(function int) arity {
	if uint(function) >= uint(len(s.functions)) {
		s.unknown = true
		return arity{}
	}
	return s.ofType(s.functions[function])
}

// effort estimates how expensive code is to compile. wazero's time and memory grow with the square of
// the loops, with the product of branches and locals, and with the values that calls and branches
// carry. A module of 137 kB took 3 GB and 24 seconds.
type effort struct {
	locals   uint64
	loops    uint64
	branches uint64 // blocks, loops and branches to their ends
	carried  uint64
	squares  uint64 // sum of the squares of each function's loops
	flow     uint64 // sum of branches times locals of each function
}

// smaller is what to do about a function that is too expensive.
const smaller = ": compiling it would take too long; build for size, such as with -Os or opt-level=s, or split the function"

// tooMuch returns an error if this function is too expensive.
func (e *effort) tooMuch() error {
	e.squares, e.flow = e.loops*e.loops, e.branches*e.locals
	switch {
	case e.locals > maxLocals:
		return fmt.Errorf("more than %d locals in one function%s", maxLocals, smaller)
	case e.loops > maxLoops:
		return fmt.Errorf("more than %d loops in one function%s", maxLoops, smaller)
	case e.branches > maxBranches:
		return fmt.Errorf("more than %d branches in one function%s", maxBranches, smaller)
	case e.flow > maxFlow:
		return fmt.Errorf("%d branches and %d locals in one function, whose product must not be above %d%s", e.branches, e.locals, maxFlow, smaller)
	case e.carried > maxCarried:
		return fmt.Errorf("more than %d values in the calls and branches of one function%s", maxCarried, smaller)
	}
	return nil
}

// add adds the effort of one function. It returns an error if the total is too expensive.
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
