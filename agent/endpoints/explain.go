package endpoints

import (
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/states"
)

// PartOf returns the endpoints that a probe is a member of, in the order of prober.yaml. The caller must not
// change them.
func (e *Endpoints) PartOf(key manager.Key) (all []*config.Endpoint) {
	for x := range e.table.Load().partOf(key) {
		all = append(all, &x.def)
	}
	return all
}

// maxDeciding is the largest number of checks that Deciding returns.
const maxDeciding = 1000

// Deciding returns the checks that decide the state of the endpoint with this probe; nil for other probes. A
// check that is an endpoint too is followed by the checks that decide its state. Each probe is in the result
// once. A check without a probe has only a name.
func (e *Endpoints) Deciding(key manager.Key) []MemberStatus {
	t := e.table.Load()
	seen := make(map[manager.Key]bool)
	var all []MemberStatus
	var follow func(x *entry)
	follow = func(x *entry) {
		s := e.status(x)
		for i := range s.Members {
			m := &s.Members[i]
			if !m.Decides || seen[m.key()] || len(all) >= maxDeciding {
				continue
			}
			seen[m.key()] = true
			all = append(all, *m)
			if next := t.owners[m.key()]; next != nil {
				follow(next)
			}
		}
		for i := 0; s.Decision.State == states.Unknown && i < len(s.Empty) && len(all) < maxDeciding; i++ {
			all = append(all, MemberStatus{Member: Member{Name: s.Empty[i], Weight: 1}, Status: states.Status{Cause: states.Cause{Text: noProbe(s.Empty[i])}}, Decides: true})
		}
	}
	if x := t.owners[key]; x != nil {
		seen[key] = true
		follow(x)
	}
	return all
}
