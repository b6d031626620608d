package endpoints

import (
	"iter"
	"strings"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/endpoint"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
)

// Status is an endpoint with the states of its members.
type Status struct {
	Config   config.Endpoint
	Members  []MemberStatus
	Empty    []string // names of members without a probe
	Decision endpoint.Decision
}

// MemberStatus is a member with its state.
type MemberStatus struct {
	Member
	states.Status
	Decides bool // the state of the endpoint
}

// Status returns an endpoint; false if there is none.
func (e *Endpoints) Status(name string) (Status, bool) {
	x := e.table.Load().endpoints[name]
	if x == nil {
		return Status{}, false
	}
	return e.status(x), true
}

func (e *Endpoints) status(x *entry) Status {
	s := Status{Config: x.def, Empty: x.empty, Members: make([]MemberStatus, len(x.members))}
	for i, m := range x.members {
		s.Members[i] = MemberStatus{Member: m, Status: e.of(&m)}
	}
	s.Decision = x.decide(func(i int) states.Status { return s.Members[i].Status })
	for i := range s.Members {
		m := &s.Members[i]
		m.Decides = m.State != states.Success && m.State == s.Decision.State && m.Forced != worker.Drained // as [endpoint.Rule.Decide] has it
	}
	return s
}

func (e *Endpoints) of(m *Member) states.Status {
	return e.cfg.Of(m.Subject.PodUID, m.Subject.Container, m.Kind)
}

// noProbe returns the cause of a member without a probe. A name without a slash is in prober.yaml.
func noProbe(name string) string {
	if strings.Contains(name, "/") {
		return "there is no such probe"
	}
	return "has no targets"
}

// Configs yields all endpoints, in the order of prober.yaml. The caller must not change them.
func (e *Endpoints) Configs() iter.Seq[*config.Endpoint] {
	return func(yield func(*config.Endpoint) bool) {
		t := e.table.Load()
		for _, name := range t.order {
			if !yield(&t.endpoints[name].def) {
				return
			}
		}
	}
}

// Count is the number of checks of an endpoint by state. A check without a probe is unknown.
type Count struct {
	Namespace, Name string
	Checks          [states.Failure + 1]int // by state
}

// Counts yields the numbers of checks of all endpoints, in the order of prober.yaml. It looks up the state of
// each probe once.
func (e *Endpoints) Counts() iter.Seq[Count] {
	return func(yield func(Count) bool) {
		t := e.table.Load()
		now := make([]states.State, len(t.members))
		for i, m := range t.members {
			now[i] = e.of(m).State
		}
		for _, name := range t.order {
			x := t.endpoints[name]
			c := Count{Namespace: x.def.Namespace, Name: name}
			c.Checks[states.Unknown] = len(x.empty)
			for i := range x.members {
				c.Checks[now[x.members[i].at]]++
			}
			if !yield(c) {
				return
			}
		}
	}
}

// decide combines the states of the members. A drained member does not pass, and all and any leave it out. A
// member without a probe is unknown, and so is the number of its probes: it may be all that the rule needs.
func (x *entry) decide(of func(i int) states.Status) endpoint.Decision {
	parts := make([]endpoint.Part, 0, len(x.members)+len(x.empty))
	for i := range x.members {
		m, s := &x.members[i], of(i)
		if s.Forced == worker.Drained {
			if x.def.Rule.Mode != endpoint.AtLeast {
				continue // the others decide
			}
			s.State, s.Text = states.Failure, "drained"
		}
		parts = append(parts, endpoint.Part{Name: m.Name, State: s.State, Text: s.Cause.Text, Weight: m.Weight})
	}
	for _, name := range x.empty {
		parts = append(parts, endpoint.Part{Name: name, Text: noProbe(name), Weight: max(1, x.def.Rule.Min)})
	}
	if len(parts) == 0 {
		return endpoint.Decision{Reason: "all checks are drained"}
	}
	return x.def.Rule.Decide(parts)
}
