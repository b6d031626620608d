// Package depend distinguishes a target that is down from a target whose dependency is down.
//
// Witnesses are the probes of target groups on which other groups depend. There are two kinds of sets of
// witnesses:
//
//   - The uplink has the groups that witness the network of the host. Every other group depends on it. While
//     no witness responds, an attempt without a response is an error with the reason host_network. Targets
//     with a loopback address do not depend on it.
//   - A named set has the probes of one target group, push or endpoint. Groups depend on it by dependsOn.
//     While all of its probes fail, a failure of a dependent probe is an error with the reason dependency.
//
// A failed attempt is a failure if a witness succeeded last before it began, and succeeds after it. The
// attempt waits for that success; no other probe does. While targets succeed, witnesses are probed at their
// own periods only, and attempts take no lock.
//
// depend.go compiles the rules, set.go has the results of witnesses, ask.go waits for them, and handler.go
// judges attempts. outcome.go says which outcomes are failures.
// See RATIONALE.md, "Why does dependsOn change attempts, and not states?"
package depend

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/daeace23/prober/core/manager"
)

// Rules are the dependencies between target groups. They must not have cycles.
type Rules struct {
	Uplink    []string            // groups that witness the network
	DependsOn map[string][]string // by group: the groups on which it depends
}

// Judge judges failed attempts by the newest attempts of witnesses. It is safe for concurrent use.
type Judge struct {
	trigger func(manager.Key) error // requests an attempt of a witness
	roles   atomic.Pointer[roles]   // nil: nothing is judged
	begun   atomic.Uint64           // counter of attempts: their numbers order their begins

	mu     sync.Mutex // also guards fields of sets, members and handlers
	closed bool
}

// New returns a Judge without rules. trigger requests an immediate attempt of a probe; it must not block.
func New(trigger func(manager.Key) error) *Judge { return &Judge{trigger: trigger} }

// Set replaces the rules. Sets of the same groups keep the results of their witnesses.
func (j *Judge) Set(rules Rules) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.replaceLocked(rules)
	}
}

// Close ends every wait for a witness. Attempts are not judged after Close.
func (j *Judge) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.replaceLocked(Rules{})
}

func (j *Judge) replaceLocked(rules Rules) {
	old := j.roles.Load()
	if old == nil {
		old = new(roles)
	}
	next := compile(rules, old)
	if next.other == nil && len(next.byGroup) == 0 {
		j.roles.Store(nil)
	} else {
		j.roles.Store(next)
	}
	if old.uplink != nil && old.uplink != next.uplink {
		old.uplink.endLocked(j.begun.Load())
	}
	for name, s := range old.named {
		if next.named[name] != s {
			s.endLocked(j.begun.Load())
		}
	}
}

// UplinkDown reports whether there are witnesses of the network, and none responded in its newest attempt.
func (j *Judge) UplinkDown() bool {
	r := j.roles.Load()
	return r != nil && r.uplink != nil && r.uplink.failed.Load()
}

// DependsOn returns the names of the groups on which a group depends, in the order of the rules.
func (j *Judge) DependsOn(group string) (names []string) {
	r := j.roles.Load()
	if r == nil || r.byGroup[group] == nil {
		return nil
	}
	for _, s := range r.byGroup[group].dependsOn {
		names = append(names, s.name)
	}
	return names
}

// roles has the roles of all groups. It is immutable.
type roles struct {
	witnesses []string // groups of uplink
	uplink    *set     // nil for none
	named     map[string]*set
	byGroup   map[string]*role
	other     *role // of a group that is not in byGroup; nil: its attempts are not used
}

// role says how the attempts of a group are used.
type role struct {
	witnesses *set   // the uplink, if the group witnesses the network; else nil
	uplink    *set   // the uplink, if the group depends on it; else nil
	own       *set   // the set with the name of the group; nil if nothing depends on the group
	dependsOn []*set // named sets
}

// compile returns the roles by rules. It takes sets with the same groups from old.
func compile(rules Rules, old *roles) *roles {
	next := &roles{witnesses: slices.Clone(rules.Uplink), named: make(map[string]*set), byGroup: make(map[string]*role)}
	if len(rules.Uplink) > 0 {
		next.uplink = old.uplink
		if !slices.Equal(rules.Uplink, old.witnesses) {
			next.uplink = newSet("")
		}
		next.other = &role{uplink: next.uplink}
		for _, group := range rules.Uplink {
			next.byGroup[group] = &role{witnesses: next.uplink}
		}
	}
	for _, group := range slices.Sorted(maps.Keys(rules.DependsOn)) {
		for _, name := range rules.DependsOn[group] {
			s := next.named[name]
			if s == nil {
				if s = old.named[name]; s == nil {
					s = newSet(name)
				}
				next.named[name] = s
				next.role(name).own = s
			}
			r := next.role(group)
			r.dependsOn = append(r.dependsOn, s)
		}
	}
	return next
}

// role returns the role of a group, and adds one if the group has none. Only compile calls it.
func (r *roles) role(group string) *role {
	if r.byGroup[group] == nil {
		r.byGroup[group] = &role{uplink: r.uplink}
	}
	return r.byGroup[group]
}

// find returns the role of a group; nil if its attempts are not used. r may be nil.
func (r *roles) find(group string) *role {
	if r == nil {
		return nil
	}
	if found, ok := r.byGroup[group]; ok {
		return found
	}
	return r.other
}
