package endpoint

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math/bits"
	"strconv"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/internal/clip"
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

// Part is the state of one part of a thing, such as a check of an endpoint.
type Part struct {
	Name   string
	State  states.State
	Text   string // why State is not success; may be empty
	Weight int    // 0 means 1
}

func (p *Part) weight() int { return cmp.Or(p.Weight, 1) }

// Decision is the state that a [Rule] makes of parts, and the reason.
type Decision struct {
	State    states.State
	Deciding []string // names of the parts whose state is State; nil for a success
	// Reason names the first parts of Deciding with their texts, for people. It has at most [states.MaxText]
	// bytes, and is "" for a success.
	Reason string
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

// Decide returns the state of a thing with these parts. A part passes in the states success and warning, and
// fails in the state failure. The state is
//
//   - success if parts in the state success suffice,
//   - warning if the parts that pass suffice only together with those that warn,
//   - failure if the parts cannot suffice, even if all that are unknown would pass,
//   - unknown if that depends on the parts that are unknown, or if there are no parts.
//
// So an unknown part never hides a failure that is certain, and never makes one. The parts that decide a
// state are in it. A failure of parts that would not suffice if all of them passed has the weights in its
// reason. Decide keeps no reference to parts, and allocates nothing for a success.
func (r Rule) Decide(parts []Part) Decision {
	return r.explain(parts, r.state(parts))
}

// weights returns the weight that must pass, and the weight of all parts.
func (r Rule) weights(parts []Part) (needed, total int) {
	for i := range parts {
		total += parts[i].weight()
	}
	return r.needed(total), total
}

// state returns the state of [Rule.Decide].
func (r Rule) state(parts []Part) states.State {
	needed, total := r.weights(parts)
	return combine(parts, needed, total)
}

// explain returns the decision for parts that make this state.
func (r Rule) explain(parts []Part, state states.State) Decision {
	d := Decision{State: state}
	if state == states.Success {
		return d
	}
	n := 0
	for i := range parts {
		if parts[i].State == state {
			n++
		}
	}
	if n > 0 {
		d.Deciding = make([]string, 0, n)
		for i := range parts {
			if parts[i].State == state {
				d.Deciding = append(d.Deciding, parts[i].Name)
			}
		}
		d.Reason = explain(parts, state, n)
	}
	if needed, total := r.weights(parts); state == states.Failure && needed > total {
		short := fmt.Sprintf("checks with the weight %d must pass, and all checks have the weight %d", needed, total)
		if d.Reason != "" {
			short += "; "
		}
		d.Reason = clip.Text(short+d.Reason, states.MaxText)
	}
	return d
}

// fingerprint returns a hash of what the reason of this state is made of: it differs if the reasons do. It
// allocates nothing.
func (r Rule) fingerprint(seed maphash.Seed, parts []Part, state states.State) (hash uint64) {
	if state == states.Success {
		return 0
	}
	add := func(x uint64) { hash = bits.RotateLeft64(hash, 5)*0x9e3779b97f4a7c15 + x }
	n := 0
	for i := range parts {
		p := &parts[i]
		if p.State != state {
			continue
		}
		if n++; n <= maxExplained {
			add(maphash.String(seed, p.Name))
			add(maphash.String(seed, p.Text))
		}
	}
	needed, total := r.weights(parts)
	for _, x := range [...]int{int(state), n, len(parts), needed, total} {
		add(uint64(x))
	}
	return hash
}

// combine returns the state of [Rule.Decide], where parts with the weight needed must pass, of total.
func combine(parts []Part, needed, total int) states.State {
	var success, warning, unknown int
	for i := range parts {
		weight := parts[i].weight()
		switch parts[i].State {
		case states.Success:
			success += weight
		case states.Warning:
			warning += weight
		case states.Unknown:
			unknown += weight
		}
	}
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

// maxExplained is the maximum number of parts that a reason names.
const maxExplained = 5

var verbs = [...]string{states.Unknown: "are unknown", states.Success: "succeed", states.Warning: "warn", states.Failure: "fail"}

// explain returns the reason of a state in which n of the parts are, at least one. Long texts of several parts
// are shortened alike.
func explain(parts []Part, state states.State, n int) string {
	b := make([]byte, 0, 128)
	more := ""
	if len(parts) > 1 {
		b = strconv.AppendInt(b, int64(n), 10)
		b = append(b, " of "...)
		b = strconv.AppendInt(b, int64(len(parts)), 10)
		b = append(b, " checks "...)
		b = append(append(b, verbs[state]...), ": "...)
	}
	if n > maxExplained {
		more = fmt.Sprintf("; and %d more", n-maxExplained)
	}
	shown := min(n, maxExplained)
	most := (states.MaxText - len(b) - len(more) - (shown-1)*len("; ")) / shown
	for i := range parts {
		p := &parts[i]
		if p.State != state {
			continue
		}
		b = p.appendTo(b, most)
		if shown--; shown == 0 {
			break
		}
		b = append(b, "; "...)
	}
	return string(append(b, more...))
}

// appendTo appends the name and the text of p, at most most bytes.
func (p *Part) appendTo(b []byte, most int) []byte {
	switch {
	case p.Text == "":
		return append(b, clip.Text(p.Name, most)...)
	case len(p.Name)+len(": ")+len(p.Text) > most:
		return append(b, clip.Text(p.Name+": "+p.Text, most)...)
	default:
		return append(append(append(b, p.Name...), ": "...), p.Text...)
	}
}

// Check returns an error if the rule is not valid for parts with this total weight: a [*group.FieldError]
// about Rule.Mode or Rule.Min.
func (r Rule) Check(total int) error {
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
