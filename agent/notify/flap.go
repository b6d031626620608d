package notify

import (
	"maps"
	"slices"
	"time"

	"github.com/daeace23/prober/core/states"
)

// A probe flaps from the end of its third incident within half an hour until it is steady for a quarter of an
// hour. Meanwhile its incident goes on, so that the receiver gets no further ends and begins. Only incidents
// count that the receiver got, or must get. See RATIONALE.md, "When does a probe flap?"
const (
	flapIncidents = 3
	flapWindow    = 30 * time.Minute
	// steadyTime is the longest pause of a probe that has flapIncidents in flapWindow for ever.
	steadyTime = flapWindow / (flapIncidents - 1)
)

// flapping has what a flapping probe does while its incident goes on.
type flapping struct {
	on    bool
	state states.State // present state of the probe
	at    time.Time    // when state began
	count int          // incidents so far
	first time.Time    // begin of the first one
}

// flaps describes a probe that flaps for a message; zero if it does not flap.
type flaps struct {
	count int
	first time.Time    // begin of the first one
	now   states.State // of the probe
}

// present returns the state of the probe, which is not the state of its incident while it flaps.
func (it *item) present() states.State {
	if it.flapping.on {
		return it.flapping.state
	}
	return it.state
}

// move changes the state of the probe of an item.
func (b *book) move(it *item, to states.State, at time.Time) {
	f := &it.flapping
	if !f.on && to == quiet && b.spec.FlapDetection && (it.owed || it.expectedState() != quiet) {
		begins := b.note(it.Key, it.began, at)
		if len(begins) == flapIncidents {
			*f = flapping{on: true, count: len(begins), first: begins[0]}
		}
	}
	if !f.on {
		b.setState(it, to, at)
		return
	}
	if f.state == quiet && to != quiet {
		f.count++
		b.note(it.Key, at, at)
		it.began = at
	}
	f.state, f.at = to, at
	b.changes++
	if severity(to) > severity(it.state) {
		b.setState(it, to, at)
	}
}

// note adds the begin of an incident to the recent ones, and returns these.
func (b *book) note(k Key, begin, at time.Time) []time.Time {
	begins := b.recent(k, begin, at)
	if b.begins[k] = begins; len(begins) == 0 {
		delete(b.begins, k)
	}
	return begins
}

// recent returns the begins of the newest incidents of a probe, with another one, that are within flapWindow at
// a time. There are at most flapIncidents.
func (b *book) recent(k Key, begin, at time.Time) []time.Time {
	all := slices.Clone(b.begins[k])
	if !slices.ContainsFunc(all, begin.Equal) {
		all = append(all, begin)
	}
	all = slices.DeleteFunc(all, func(t time.Time) bool { return at.Sub(t) > flapWindow })
	return all[max(0, len(all)-flapIncidents):]
}

// flapsOf describes how the probe of an item flaps. The incident after whose end it will flap is included.
func (b *book) flapsOf(it *item, now time.Time) flaps {
	switch {
	case it.flapping.on:
		return flaps{it.flapping.count, it.flapping.first, it.flapping.state}
	case it.state == quiet || !b.spec.FlapDetection:
		return flaps{}
	}
	if begins := b.recent(it.Key, it.began, now); len(begins) == flapIncidents {
		return flaps{len(begins), begins[0], it.state}
	}
	return flaps{}
}

// steadyAt returns when a flapping probe is steady if it does not change; the zero time if it does not flap.
func (it *item) steadyAt() time.Time {
	if !it.flapping.on {
		return time.Time{}
	}
	return it.flapping.at.Add(steadyTime)
}

// settle ends the flapping of a probe. The incident gets the state of the probe. The receiver must get it, also if
// it knows that state, because the probe has failed all the time.
func (b *book) settle(it *item, now time.Time) {
	f := it.flapping
	it.flapping = flapping{}
	if f.state != quiet {
		delete(b.begins, it.Key) // the end of a long failure is sent at once
	}
	if f.state != it.state {
		b.setState(it, f.state, f.at)
		it.ended = now
		return
	}
	if !it.held {
		it.setOwed()
	}
}

// settleSteady ends the flapping of probes that are steady, and forgets old incidents. It reports whether it
// ended one.
func (b *book) settleSteady(now time.Time) (changed bool) {
	for it := range b.items.each() {
		if it.flapping.on && !now.Before(it.steadyAt()) {
			b.settle(it, now)
			changed = true
		}
	}
	maps.DeleteFunc(b.begins, func(_ Key, begins []time.Time) bool { return now.Sub(begins[len(begins)-1]) > flapWindow })
	return changed
}
