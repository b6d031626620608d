package kube

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
)

// stateTable has the newest state of each probe. Ticks write it, so the lock must be held only briefly.
type stateTable struct {
	mu      sync.Mutex
	stopped bool
	pods    map[types.UID]map[probeKey]probeState
}

// probeState is the newest state of a probe.
type probeState struct {
	state   states.State
	since   time.Time
	decided bool   // it had a state other than unknown
	failed  bool   // the last state other than unknown was a failure
	ended   bool   // that failure means that the container does not run
	text    string // newest cause
}

// Changed implements [states.Reader].
func (s *Source) Changed(c *states.Change) {
	uid := types.UID(c.Info.PodUID)
	if s.states.change(uid, c) {
		s.toReport.Put(uid)
	}
	s.actor.Changed(c)
}

// change records a change. It returns false after stop.
func (t *stateTable) change(uid types.UID, c *states.Change) bool {
	key := probeKey{c.Info.Container, c.Info.Kind}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return false
	}
	probes := t.pods[uid]
	now := probes[key]
	if c.Removed {
		if now.since.Equal(c.Since) { // otherwise another probe has replaced the removed one
			delete(probes, key)
		}
		if len(probes) == 0 {
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
	if probes == nil {
		probes = make(map[probeKey]probeState)
		if t.pods == nil {
			t.pods = make(map[types.UID]map[probeKey]probeState)
		}
		t.pods[uid] = probes
	}
	probes[key] = now
	return true
}

// podStates returns a copy of the probe states of a pod.
func (t *stateTable) podStates(uid types.UID) map[probeKey]probeState {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.pods[uid])
}

func (t *stateTable) remove(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pods, uid)
}

// stop makes change ignore all further changes: the end of the agent must not change states.
func (t *stateTable) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
}
