package group

import (
	"cmp"
	"iter"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// Status is the state of a probe.
type Status struct {
	worker.Status
	Last    *TickStatus  // nil before the first tick
	History []TickStatus // newest first; empty without a history
}

// Status returns the state of a probe.
func (g *Group[K]) Status(id ID[K]) (Status, bool) {
	e := g.entry(id)
	if e == nil {
		return Status{}, false
	}
	return e.status(), true
}

// Latest returns the state of a probe without its History, which costs less than [Group.Status].
func (g *Group[K]) Latest(id ID[K]) (Status, bool) {
	e := g.entry(id)
	if e == nil {
		return Status{}, false
	}
	s := Status{Status: e.Worker.Status(), Last: e.record.latest()}
	s.showQuarantine()
	return s, true
}

// Target returns the Target of a probe's [Status], "" if the probe does not exist. It costs less than
// [Group.Status].
func (g *Group[K]) Target(id ID[K]) string {
	e := g.entry(id)
	if e == nil {
		return ""
	}
	return e.Worker.Target()
}

// All returns the IDs and states of all probes, in no particular order. Each state is read when the
// iteration reaches it.
func (g *Group[K]) All() iter.Seq2[ID[K], Status] {
	return func(yield func(ID[K], Status) bool) {
		for _, e := range g.list() {
			if !yield(e.id(), e.status()) {
				return
			}
		}
	}
}

// IDs returns the IDs of all probes, in no particular order.
func (g *Group[K]) IDs() []ID[K] {
	list := g.list()
	all := make([]ID[K], 0, len(list))
	for _, e := range list {
		all = append(all, e.id())
	}
	return all
}

// Infos returns the identities of the probes that match, in no particular order. match must not keep its
// argument.
func (g *Group[K]) Infos(match func(*worker.Info) bool) []worker.Info {
	return infos(g.list(), match)
}

// InfosOf is [Group.Infos] of the probes of key.
func (g *Group[K]) InfosOf(key K, match func(*worker.Info) bool) []worker.Info {
	return infos(g.entriesOf(key), match)
}

func infos[K comparable](entries []*entry[K], match func(*worker.Info) bool) (all []worker.Info) {
	var info worker.Info // shared by all calls of match
	for _, e := range entries {
		if info = e.Info(); match(&info) {
			all = append(all, info)
		}
	}
	return all
}

func (g *Group[K]) list() []*entry[K] {
	g.mu.RLock()
	defer g.mu.RUnlock()
	all := make([]*entry[K], 0, g.count)
	for _, home := range g.keys {
		all = append(all, home.entries...)
	}
	return all
}

func (e *entry[K]) status() Status {
	s := Status{Status: e.Worker.Status()}
	s.Last, s.History = e.record.ticks(&e.home.group.memory)
	s.showQuarantine()
	return s
}

// showQuarantine sets the error of the last tick to the quarantine, because skipped ticks are not recorded.
func (s *Status) showQuarantine() {
	if s.Quarantine == "" {
		return
	}
	if s.Last == nil {
		s.Last = &TickStatus{Result: probe.Unknown, Time: s.QuarantinedSince}
	}
	s.Last.Error = s.Quarantine
}

func compareInfos(a, b worker.Info) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod),
		cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.Container, b.Container), cmp.Compare(a.Kind, b.Kind))
}
