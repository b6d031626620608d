package endpoint

import (
	"fmt"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/states"
)

// Mode is how the checks of an endpoint are combined.
type Mode uint8

// All modes.
const (
	// All needs every check.
	All Mode = iota
	// Any needs one check.
	Any
	// AtLeast needs checks whose weights are [Rule].Min together.
	AtLeast
)

// Rule makes the state of an endpoint from the states of its checks. The zero value needs every check.
type Rule struct {
	Mode Mode
	Min  int // of AtLeast: a sum of weights, at least 1
}

// Vote is the state of one check and its weight.
type Vote struct {
	State  states.State
	Weight int // at least 1
}

// needed returns the weight that must pass, of checks with this total weight.
func (r Rule) needed(total int) int {
	switch r.Mode {
	case Any:
		return min(1, total)
	case AtLeast:
		return r.Min
	default:
		return total
	}
}

// Combine returns the state of an endpoint. A check passes in the states success and warning, and fails in the state
// failure. The state is
//
//   - success if checks in the state success suffice,
//   - warning if the checks that pass suffice only together with those that warn,
//   - failure if the checks cannot suffice, even if all that are unknown would pass,
//   - unknown if that depends on the checks that are unknown, or if there are no checks.
//
// So an unknown check never hides a failure that is certain, and never makes one. The checks that decide a state are in it.
func (r Rule) Combine(votes []Vote) states.State {
	var success, warning, unknown, total int
	for _, v := range votes {
		total += v.Weight
		switch v.State {
		case states.Success:
			success += v.Weight
		case states.Warning:
			warning += v.Weight
		case states.Unknown:
			unknown += v.Weight
		}
	}
	needed := r.needed(total)
	switch {
	case total == 0:
		return states.Unknown
	case success >= needed:
		return states.Success
	case success+warning >= needed:
		return states.Warning
	case success+warning+unknown >= needed:
		return states.Unknown
	default:
		return states.Failure
	}
}

func (r Rule) check(total int) error {
	switch {
	case r.Mode > AtLeast:
		return &group.FieldError{Field: "Rule.Mode", Problem: fmt.Sprintf("is %d, and no mode", r.Mode)}
	case r.Mode == AtLeast && (r.Min < 1 || r.Min > total):
		return &group.FieldError{Field: "Rule.Min", Problem: fmt.Sprintf("is %d, and must be from 1 to the sum of the weights, %d", r.Min, total)}
	case r.Mode != AtLeast && r.Min != 0:
		return &group.FieldError{Field: "Rule.Min", Problem: "is only for AtLeast"}
	}
	return nil
}
