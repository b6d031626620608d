package incidents

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"time"
)

const (
	// Reopen is how long after its end an incident goes on if one of its probes fails again.
	Reopen = 5 * time.Minute
	// Keep is how long an ended incident is kept.
	Keep = 30 * 24 * time.Hour
	// MaxEnded is the maximum number of ended incidents that are kept, the newest ones.
	MaxEnded = 200
	// KeepParts is how long an ended incident keeps more than its first [MaxOldParts] parts.
	KeepParts   = 24 * time.Hour
	MaxOldParts = 20
)

// maxRecovered is the maximum number of parts of an incident that do not fail, the newest ones.
const maxRecovered = 200

// Log is the list of incidents at one time. It is immutable. The zero value is empty.
type Log struct{ all []*Incident }

// All returns the incidents, the most important first: open ones, those with the most failing probes, the earliest
// ones. Ended ones are last, the newest first. The caller must not change them.
func (l *Log) All() []*Incident { return l.all }

// Open reports whether an incident is open.
func (l *Log) Open() bool { return len(l.all) > 0 && l.all[0].End.IsZero() }

// Step returns the incidents at the time now after l; see [Find]. An incident keeps its ID while a part
// fails, and for [Reopen] after that: parts may join and leave it. A failure stays in the incident of the cause with
// which it began.
func (l *Log) Step(failing []Probe, healthy iter.Seq[*Probe], now time.Time) *Log {
	s := step{before: l.all, finder: newFinder(failing, healthy, now)}
	s.setOwners()
	s.group()
	s.found, s.oldOf = make([]*Incident, len(s.groups)), slices.Repeat([]int{-1}, len(s.groups))
	for i := range s.groups {
		s.found[i] = s.incident(&s.groups[i])
	}
	s.matchParts()
	s.matchCauses()
	return &Log{s.result()}
}

// incident returns a group as an incident without an ID.
func (f *finder) incident(g *group) *Incident {
	n := &Incident{Parts: make([]Part, 0, len(g.members)+len(g.behind))}
	n.Cause, n.by = f.title(g)
	for _, p := range g.members {
		n.Parts = append(n.Parts, p.part(false))
	}
	for _, p := range g.behind {
		n.Parts = append(n.Parts, p.part(true))
	}
	n.settle()
	return n
}

func (p *failure) part(dependent bool) Part {
	return Part{
		Key: p.Key, Handler: p.Handler, Target: p.Target, State: p.State, Since: p.since, Cause: p.cause,
		Dependent: dependent, present: p.since,
	}
}

// settle sorts the parts of n, and sets the fields that follow from them.
func (n *Incident) settle() {
	slices.SortFunc(n.Parts, func(a, b Part) int { return a.compare(&b) })
	n.First = n.Parts[max(0, slices.IndexFunc(n.Parts, func(p Part) bool { return !p.Dependent }))]
	n.Start, n.Failing = n.Parts[0].Since, 0
	for i := range n.Parts {
		p := &n.Parts[i]
		if !p.Dependent && p.present.After(n.last) {
			n.last = p.present
		}
		if p.Until.IsZero() {
			n.Failing++
		}
	}
	n.Peak = max(n.Peak, n.Failing)
}

// step is one call of [Log.Step].
type step struct {
	*finder
	before []*Incident
	found  []*Incident // by index of groups
	oldOf  []int       // by index of found: the index of before that it continues; -1 for none
}

// owner is the incident that a probe was in.
type owner struct {
	old    int // -1 for none
	fails  bool
	parted time.Time
}

// setOwners finds the newest incident of each failing probe in which it failed, or has recovered lately. If it
// failed already, it keeps its cause.
func (s *step) setOwners() {
	for i, old := range s.before {
		for k := range old.Parts {
			part := &old.Parts[k]
			p, next := s.byKey[part.Key], owner{i, part.Until.IsZero(), part.Until}
			if p == nil || !next.fails && s.now.Sub(part.Until) > Reopen {
				continue
			}
			if next.fails && part.present.Equal(p.since) {
				p.cause = part.Cause
			}
			if p.owner.old < 0 || !p.owner.fails && (next.fails || part.Until.After(p.owner.parted)) {
				p.owner = next
			}
		}
	}
}

// matchParts lets each found incident continue the one with which it shares most probes. No two continue the same.
func (s *step) matchParts() {
	if len(s.before) == 0 {
		return
	}
	type pair struct{ found, old int }
	shared := make(map[pair]int)
	for i := range s.groups {
		for _, p := range slices.Concat(s.groups[i].members, s.groups[i].behind) {
			if p.owner.old >= 0 {
				shared[pair{i, p.owner.old}]++
			}
		}
	}
	pairs := make([]pair, 0, len(shared))
	for p := range shared {
		pairs = append(pairs, p)
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(shared[b], shared[a]), cmp.Compare(a.old, b.old), cmp.Compare(a.found, b.found))
	})
	taken := make([]bool, len(s.before))
	for _, p := range pairs {
		if !taken[p.old] && s.oldOf[p.found] < 0 {
			taken[p.old], s.oldOf[p.found] = true, p.old
		}
	}
}

// matchCauses lets the rest of the found incidents continue an open one with the same cause, if they begin soon
// after its last failure: the failures between them may have recovered.
func (s *step) matchCauses() {
	for i, n := range s.found {
		if s.oldOf[i] >= 0 {
			continue
		}
		s.oldOf[i] = slices.IndexFunc(s.before, func(old *Incident) bool {
			return old.End.IsZero() && old.by == n.by && n.Start.Sub(old.last) <= Gap && n.Start.Sub(old.Start) <= Spread
		})
	}
}

// result returns the incidents, sorted.
func (s *step) result() (all []*Incident) {
	next := make([]*Incident, len(s.before))
	for i, n := range s.found {
		old := s.oldOf[i]
		if old < 0 {
			all = append(all, n)
			continue
		}
		if next[old] == nil {
			next[old] = &Incident{ID: s.before[old].ID, Cause: n.Cause, by: n.by, Peak: s.before[old].Peak}
			if n.Failing <= s.before[old].Peak {
				next[old].Cause, next[old].by = s.before[old].Cause, s.before[old].by
			}
		}
		next[old].Parts = append(next[old].Parts, n.Parts...)
	}
	ended := 0
	for i, old := range s.before { // ended ones are last, the newest first
		n := s.continued(old, next[i])
		if n == nil {
			continue
		}
		if !n.End.IsZero() {
			if ended++; s.now.Sub(n.End) > Keep || ended > MaxEnded {
				continue
			}
			n = n.aged(s.now)
		}
		all = append(all, n)
	}
	s.name(all)
	slices.SortFunc(all, byImportance)
	return all
}

// aged returns an ended incident with the parts that it has at the time now.
func (n *Incident) aged(now time.Time) *Incident {
	if now.Sub(n.End) <= KeepParts || len(n.Parts) <= MaxOldParts {
		return n
	}
	short := *n
	short.Parts = slices.Clone(n.Parts[:MaxOldParts])
	return &short
}

// continued returns the incident after old. n has the parts that fail, and is nil if none does. It returns nil if
// other incidents have all parts.
func (s *step) continued(old, n *Incident) *Incident {
	if n == nil && !old.End.IsZero() {
		return old
	}
	if n == nil {
		n = &Incident{ID: old.ID, Cause: old.Cause, by: old.by, Peak: old.Peak, End: s.now}
	}
	own := make(map[Key]int, len(n.Parts))
	for i := range n.Parts {
		own[n.Parts[i].Key] = i
	}
	var recovered []Part
	for _, p := range old.Parts {
		if i, ok := own[p.Key]; ok {
			n.Parts[i].Since = p.Since
		} else if s.byKey[p.Key] == nil {
			if p.Until.IsZero() {
				p.Until = s.now
			}
			recovered = append(recovered, p)
		}
	}
	if len(recovered) > maxRecovered {
		slices.SortStableFunc(recovered, func(a, b Part) int { return b.Until.Compare(a.Until) })
		recovered = recovered[:maxRecovered]
	}
	if n.Parts = append(n.Parts, recovered...); len(n.Parts) == 0 {
		return nil
	}
	n.settle()
	if n.Start.After(old.Start) {
		n.Start = old.Start
	}
	if !slices.ContainsFunc(n.Parts, func(p Part) bool { return p.Key == old.First.Key }) && s.byKey[old.First.Key] == nil {
		n.First = old.First // its part was dropped
	}
	return n
}

// name gives IDs to new incidents.
func (s *step) name(all []*Incident) {
	taken := make(map[string]bool)
	for _, n := range s.before { // also of those that are not kept
		taken[n.ID] = true
	}
	for _, n := range all {
		for try := 0; n.ID == ""; try++ {
			hash := fnv.New64a()
			fmt.Fprintf(hash, "%+v %d %d", n.First.Key, n.Start.UnixNano(), try)
			if id := fmt.Sprintf("%05x", hash.Sum64()&0xfffff); !taken[id] {
				n.ID, taken[id] = id, true
			}
		}
	}
}

func byImportance(a, b *Incident) int {
	if a.End.IsZero() != b.End.IsZero() {
		if a.End.IsZero() {
			return -1
		}
		return 1
	}
	return cmp.Or(b.End.Compare(a.End), cmp.Compare(b.Failing, a.Failing), a.Start.Compare(b.Start), a.First.Key.compare(&b.First.Key), cmp.Compare(a.ID, b.ID))
}
