package incidents

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"
	"time"

	"github.com/daeace23/prober/core/states"
)

const (
	// Gap is the maximum time between the begins of two failures that begin together.
	Gap = 2 * time.Minute
	// Spread is the maximum time between the begins of the first and the last failure that begin together.
	Spread = 30 * time.Minute
	// MaxIncidents is the maximum number of open incidents. One more has the other failing probes.
	MaxIncidents = 200
)

const (
	failingPerHealthy = 3 // failing probes with a feature for each healthy one
	minMembers        = 2 // probes of a pod or an address
	minSpots          = 3 // addresses of a range, and pods of a plugin or a label
	fewTraits         = 3 // usual number of features of a failing probe that few others have
	manyTraits        = 6 // usual number of features of a failing probe
)

// Incident is a group of failing probes. It is immutable.
type Incident struct {
	ID    string
	Cause string    // for people, such as "connection refused from 10.0.3.0/24"
	Start time.Time // begin of the first failure
	End   time.Time // zero while a probe fails
	First Part      // the earliest part that does not depend on others
	// Parts are its probes, in the order of their begins: all that fail, and some that have recovered.
	Parts   []Part
	Failing int // number of probes that fail
	Peak    int // maximum of Failing

	by   feature   // that its probes share
	last time.Time // begin of the last failure
}

// Part is a probe of an incident.
type Part struct {
	Key
	Handler, Target string
	State           states.State
	Since           time.Time // begin of its first failure in the incident
	Until           time.Time // when it recovered, was paused or was removed; zero while it fails
	Cause           states.Cause
	Dependent       bool // it fails because other parts do

	present time.Time // begin of its present failure
}

func (p *Part) compare(o *Part) int { return cmp.Or(p.Since.Compare(o.Since), p.Key.compare(&o.Key)) }

// Find returns the incidents of failing probes at the time now, the most important first: the one with the most
// probes, and of equal ones the earliest. healthy yields the other probes; it may be nil. The order of probes does
// not matter. For n probes, the time is proportional to n log n.
func Find(failing []Probe, healthy iter.Seq[*Probe], now time.Time) []*Incident {
	return new(Log).Step(failing, healthy, now).All()
}

// failure is a failing probe in a [finder].
type failure struct {
	*Probe
	since  time.Time    // of the probe, at most the present time
	cause  states.Cause // with which the failure began
	index  int32        // in finder.failing
	group  int          // index of finder.groups; -1: none yet
	chains []int32
	owner  owner
}

// finder groups failing probes.
type finder struct {
	now     time.Time
	failing []*failure // sorted by their begins
	healthy iter.Seq[*Probe]
	byKey   map[Key]*failure
	groups  []group

	ids     map[feature]int32
	traits  []trait
	chains  []chain
	buffer  []feature
	links   []int32 // memory of failure.chains
	members []member
}

// trait has the counts of a feature.
type trait struct {
	feature
	healthy int
	chain   int32 // the newest chain; -1 for none
}

// chain is a list of failures with one feature that begin together.
type chain struct {
	trait       int32
	first, last time.Time
	head, tail  int32 // of its members: indices of finder.members
	left        int   // number of members without a group
}

// member is a failure in a chain.
type member struct {
	*failure
	next int32 // in the chain; -1 for none
}

// each yields the members of a chain without a group.
func (f *finder) each(c *chain) iter.Seq[*failure] {
	return func(yield func(*failure) bool) {
		for i := c.head; i >= 0; i = f.members[i].next {
			if p := f.members[i].failure; p.group < 0 && !yield(p) {
				return
			}
		}
	}
}

// group is an incident before its parts are made.
type group struct {
	by      feature
	members []*failure // that do not depend on others, sorted
	behind  []*failure // dependents, sorted
}

// newFinder returns a finder at the time now.
func newFinder(failing []Probe, healthy iter.Seq[*Probe], now time.Time) *finder {
	if healthy == nil {
		healthy = func(func(*Probe) bool) {}
	}
	count := len(failing)
	all := make([]failure, count)
	f := &finder{
		now: now, failing: make([]*failure, count), healthy: healthy,
		byKey: make(map[Key]*failure, count), ids: make(map[feature]int32, fewTraits*count),
		traits: make([]trait, 0, fewTraits*count), links: make([]int32, 0, manyTraits*count),
	}
	for i := range failing {
		p := &failing[i]
		all[i] = failure{Probe: p, since: p.Since, cause: p.Cause, group: -1, owner: owner{old: -1}}
		if p.Since.IsZero() || p.Since.After(now) {
			all[i].since = now
		}
		f.failing[i], f.byKey[p.Key] = &all[i], &all[i]
	}
	return f
}

// group makes the groups.
func (f *finder) group() {
	slices.SortFunc(f.failing, func(a, b *failure) int { return cmp.Or(a.since.Compare(b.since), a.Key.compare(&b.Key)) })
	for i, p := range f.failing {
		p.index = int32(i)
	}
	f.cover(func(p *failure) bool { return !p.depends() })
	f.attach()
	f.cover(func(*failure) bool { return true })
	f.limit()
}

// cover groups the probes that are selected and have no group.
func (f *finder) cover(selects func(*failure) bool) {
	f.chains, f.members = slices.Grow(f.chains[:0], fewTraits*len(f.failing)), slices.Grow(f.members[:0], manyTraits*len(f.failing))
	known := len(f.traits)
	for i := range f.traits {
		f.traits[i].chain = -1
	}
	for _, p := range f.failing {
		if p.group < 0 && selects(p) {
			f.buffer = append(p.places(f.buffer[:0]), p.causeFeature())
			begin := len(f.links)
			for _, x := range f.buffer {
				f.link(p, x)
			}
			p.chains = f.links[begin:len(f.links):len(f.links)]
		}
	}
	if len(f.chains) == 0 {
		return
	}
	for p := range f.healthy {
		f.buffer = p.places(f.buffer[:0])
		for _, x := range f.buffer {
			if id, ok := f.ids[x]; ok && int(id) >= known {
				f.traits[id].healthy++
			}
		}
	}
	f.pick()
}

// link adds p to the newest chain of a feature, or begins one.
func (f *finder) link(p *failure, x feature) {
	id, ok := f.ids[x]
	if !ok {
		id = int32(len(f.traits))
		f.ids[x] = id
		f.traits = append(f.traits, trait{feature: x, chain: -1})
	}
	t, since := &f.traits[id], p.since
	if x.class >= byPath {
		return
	}
	if t.chain < 0 || since.Sub(f.chains[t.chain].last) > Gap || since.Sub(f.chains[t.chain].first) > Spread {
		t.chain = int32(len(f.chains))
		f.chains = append(f.chains, chain{trait: id, first: since, head: int32(len(f.members)), tail: -1})
	}
	c := &f.chains[t.chain]
	if c.tail >= 0 {
		f.members[c.tail].next = int32(len(f.members))
	}
	c.last, c.tail, c.left = since, int32(len(f.members)), c.left+1
	f.members = append(f.members, member{p, -1})
	f.links = append(f.links, t.chain)
}

// pick makes a group of the best chain until each of its probes has one.
func (f *finder) pick() {
	q := queue{finder: f}
	for i := range f.chains {
		if c := &f.chains[i]; c.left >= f.traits[c.trait].class.least() {
			q.entries = append(q.entries, entry{int32(i), c.left})
		}
	}
	heap.Init(&q)
	for q.Len() > 0 {
		best := q.entries[0]
		c := &f.chains[best.chain]
		if c.left > 0 && c.left != best.left {
			q.entries[0].left = c.left
			heap.Fix(&q, 0)
			continue
		}
		heap.Pop(&q)
		if c.left > 0 && f.accepts(c) {
			f.take(c)
		}
	}
}

func (f *finder) take(c *chain) {
	g := group{by: f.traits[c.trait].feature}
	for p := range f.each(c) {
		p.group = len(f.groups)
		g.members = append(g.members, p)
		for _, of := range p.chains {
			f.chains[of].left--
		}
	}
	f.groups = append(f.groups, g)
}

// accepts reports whether the members of a chain without a group are an incident.
func (f *finder) accepts(c *chain) bool {
	t := &f.traits[c.trait]
	switch {
	case c.left < t.class.least():
		return false
	case t.class == byCause:
		return true
	case t.healthy*failingPerHealthy > c.left:
		return false
	case t.class == byPod || t.class == byAddress:
		return true
	}
	spots := make(map[string]struct{}, minSpots)
	for p := range f.each(c) {
		if t.class == byRange {
			spots[p.Address] = struct{}{}
		} else {
			spots[p.UID] = struct{}{}
		}
		if len(spots) >= minSpots {
			return true
		}
	}
	return false
}

// queue is a heap of chains, the best first. Its counts may be too high.
type queue struct {
	*finder
	entries []entry
}

type entry struct {
	chain int32
	left  int
}

func (q *queue) Len() int      { return len(q.entries) }
func (q *queue) Push(x any)    { q.entries = append(q.entries, x.(entry)) }
func (q *queue) Swap(i, j int) { q.entries[i], q.entries[j] = q.entries[j], q.entries[i] }
func (q *queue) Less(i, j int) bool {
	a, b := q.entries[i], q.entries[j]
	if a.left != b.left {
		return a.left > b.left
	}
	x, y := &q.chains[a.chain], &q.chains[b.chain]
	if x.trait == y.trait {
		return x.first.Before(y.first)
	}
	return q.traits[x.trait].compare(&q.traits[y.trait].feature) < 0
}

func (q *queue) Pop() any {
	last := q.entries[len(q.entries)-1]
	q.entries = q.entries[:len(q.entries)-1]
	return last
}

// limit merges the least important groups, so that there are at most MaxIncidents and one.
func (f *finder) limit() {
	slices.SortFunc(f.groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(len(b.members)+len(b.behind), len(a.members)+len(a.behind)), cmp.Compare(a.members[0].index, b.members[0].index))
	})
	if len(f.groups) <= MaxIncidents {
		return
	}
	rest := group{by: feature{class: byRest}}
	for _, g := range f.groups[MaxIncidents:] {
		rest.members, rest.behind = append(rest.members, g.members...), append(rest.behind, g.behind...)
	}
	byIndex := func(a, b *failure) int { return cmp.Compare(a.index, b.index) }
	slices.SortFunc(rest.members, byIndex)
	slices.SortFunc(rest.behind, byIndex)
	f.groups = append(f.groups[:MaxIncidents:MaxIncidents], rest)
}
