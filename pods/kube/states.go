package kube

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
)

// stateTable has the newest state of each probe, as its ticks tell it. The lock is held for a moment
// only: ticks take it.
type stateTable struct {
	mu      sync.Mutex
	stopped bool
	pods    map[types.UID]map[probeKey]probeState
}

// probeState is the newest state of a probe.
type probeState struct {
	state   states.State
	since   time.Time
	decided bool   // it had another state than unknown
	failed  bool   // the last such state was a failure
	ended   bool   // it is a failure because the container does not run
	text    string // of its newest cause that readers were told
}

// Changed implements [states.Reader].
func (s *Source) Changed(c *states.Change) {
	uid := types.UID(c.Info.PodUID)
	if s.states.change(uid, c) {
		s.toReport.Put(uid)
	}
	s.actor.Changed(c)
}

// change records a change. It reports false after stop.
func (t *stateTable) change(uid types.UID, c *states.Change) bool {
	key := probeKey{c.Info.Container, c.Info.Kind}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return false
	}
	of := t.pods[uid]
	now := of[key]
	if c.Removed {
		if now.since.Equal(c.Since) { // else it is of a probe that has replaced this one
			delete(of, key)
		}
		if len(of) == 0 {
			delete(t.pods, uid)
		}
		return true
	}
	if now.state, now.since, now.text = c.To, c.Time, c.Text; c.From == c.To {
		now.since = c.Since
	}
	if c.To != states.Unknown {
		now.decided, now.failed = true, c.To == states.Failure
		now.ended = c.Reason == string(results.NotRunning)
	}
	if of == nil {
		of = make(map[probeKey]probeState)
		if t.pods == nil {
			t.pods = make(map[types.UID]map[probeKey]probeState)
		}
		t.pods[uid] = of
	}
	of[key] = now
	return true
}

// of returns the states of the probes of a pod.
func (t *stateTable) of(uid types.UID) map[probeKey]probeState {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.pods[uid])
}

func (t *stateTable) remove(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pods, uid)
}

// stop ends the changes: the end of the probes is none.
func (t *stateTable) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
}
