package worker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

type inner = seam.Hidden[task]

type owner = seam.Owner[results.Subject]

// task is the part of a [Task] that only packages of core use. The workers of the Task share it.
type task struct {
	joined    atomic.Pointer[owner] // see Join; set while no worker is started, but ended ones may be read
	owner     owner                 // Subject is set by the first worker, and Parent by Settle
	pulls     atomic.Bool           // ticks call Source
	users     int32                 // number of workers
	published atomic.Pointer[State]
	began     atomic.Int64 // start of the published run in nanoseconds since origin; stored before published
	mu        sync.Mutex
	stop      func() // stop function of the Publisher; nil if there is none
	asleep    sleepers
}

// sleepers are the sleeping workers of a task: at most one of each kind. They are woken when the state
// changes. A second worker of a kind, the successor of one that has ended, does not sleep but ticks.
type sleepers struct {
	mu   sync.Mutex
	kind [len(probe.Kinds)]sleeper
}

// sleeper is a worker. Wake makes it due after a change of its task's state.
type sleeper = interface{ Wake() }

// Owner returns the owner of the containers of a task in use. Joined tasks return the same pointer, by
// which claims of container IDs are compared.
func (i *task) Owner() *owner {
	if joined := i.joined.Load(); joined != nil {
		return joined
	}
	return &i.owner
}

// Settle sets the owner's Parent to home. The task must have at least one worker that is not started.
// Settle returns false if other workers of the task have another home; isHome compares homes.
func (i *task) Settle(home *any, isHome func(any) bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if now := i.owner.Parent.Load(); i.users > 1 && now != nil {
		return isHome(*now)
	}
	i.owner.Parent.Store(home)
	return true
}

// Join makes i and o descriptions of the same task, and reports whether they are. Both must be in use. It
// only changes i if i has a single worker, which is not started, and is not joined yet.
func (i *task) Join(o *task) bool {
	theirs := o.Owner()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i != o && i.users == 1 {
		i.joined.CompareAndSwap(nil, theirs)
	}
	return i.Owner() == theirs
}

// publish makes s the state of the task. It returns false if s is the state already.
func (i *task) publish(s State) (changed bool) {
	known := i.published.Load()
	if known != nil && *known == s {
		return false
	}
	if known == nil || known.ContainerID != s.ContainerID || !known.StartedAt.Equal(s.StartedAt) {
		i.began.Store(beginning(&s, time.Now()))
	}
	next := s // a copy, so that an unchanged state is not allocated on the heap
	i.published.Store(&next)
	return true
}

// origin is before all times of this process.
var origin = time.Now().Add(-time.Second)

// longest limits ages to about 73 years.
const longest = time.Duration(1 << 61)

// beginning returns when a task in the state s has begun, in monotonic nanoseconds since origin. It is
// computed from StartedAt and the wall clock of now. A start in the future counts as now.
func beginning(s *State, now time.Time) int64 {
	return int64(now.Sub(origin)) - int64(min(max(now.Sub(s.StartedAt), 0), longest))
}

// Age returns how long the published run has lasted, at least 0. It may be too short if a state newer than
// the caller's was published.
func (i *task) Age(now time.Time) time.Duration {
	return max(now.Sub(origin)-time.Duration(i.began.Load()), 0)
}

// Sleep registers w, of the given kind, to be woken when the state changes from s, the state that its last
// tick has found. It returns false if the state has changed already, or is not published.
func (i *task) Sleep(w sleeper, kind probe.Kind, s *State) bool {
	if i.pulls.Load() {
		return false
	}
	i.asleep.mu.Lock()
	defer i.asleep.mu.Unlock()
	if i.Current() != s { // checked with the lock held, which wake takes after each change
		return false
	}
	in := &i.asleep.kind[kind]
	if *in != nil && *in != w { // w may have been triggered meanwhile
		return false
	}
	*in = w
	return true
}

// wake wakes the sleeping workers after a change of the state.
func (i *task) wake() {
	for _, w := range i.asleep.take() {
		if w != nil {
			w.Wake()
		}
	}
}

func (s *sleepers) take() (all [len(probe.Kinds)]sleeper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, s.kind = s.kind, all
	return all
}

// forget removes a worker that has stopped using the task.
func (s *sleepers) forget(w sleeper, kind probe.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kind[kind] == w {
		s.kind[kind] = nil
	}
}

// noState is the state before the first one.
var noState State

// Current returns the last state of the task, which must not be modified.
func (i *task) Current() *State {
	if s := i.published.Load(); s != nil {
		return s
	}
	return &noState
}

// Pulls reports whether ticks must get the state with Pull.
func (i *task) Pulls() bool { return i.pulls.Load() }

// Pull returns the state for a tick of t, after a call of t.Source if necessary. i must be part of t. The
// state must not be modified.
func (i *task) Pull(t *Task) *State {
	if i.pulls.Load() {
		i.publish(t.Source.State())
	}
	return i.Current()
}

// Use is called for each new worker of t. i must be part of t.
func (i *task) Use(t *Task) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.users++; i.users > 1 {
		return
	}
	if i.owner.Subject == nil { // else a joined task may be reading it
		i.owner.Subject = &t.Subject
	}
	if t.Pod == nil {
		t.Pod = &probe.Pod{Namespace: t.Subject.Namespace, Name: t.Subject.Pod, UID: t.Subject.PodUID}
	}
	if t.Container == nil {
		t.Container = &probe.Container{Name: t.Subject.Container}
	}
	if t.Source == nil {
		return
	}
	i.pulls.Store(true) // also if Publish panics
	if p, ok := t.Source.(Publisher); ok {
		if i.stop, ok = p.Publish(t.SetState); ok {
			i.pulls.Store(false)
		}
	}
}

// Leave is called when w has ended, or has left for another task.
func (i *task) Leave(w sleeper, kind probe.Kind) {
	i.asleep.forget(w, kind)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.users--; i.users == 0 && i.stop != nil {
		stop := i.stop
		i.stop = nil
		defer i.published.Store(nil) // its updates have stopped
		stop()
	}
}
