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

// task is what the workers of a [Task] share of it. Its methods that need the Task get it.
type task struct {
	joined    *owner      // see Owner; set before the first worker is started
	owner     owner       // Subject is set by the first worker, and Of by Settle
	pulls     atomic.Bool // ticks ask Source
	users     int32       // workers
	published atomic.Pointer[State]
	began     atomic.Int64 // of the published run, in nanoseconds since origin; stored before published
	mu        sync.Mutex
	stop      func() // of the Publisher; nil if nothing is to be stopped
	asleep    sleepers
}

// sleepers are the workers of a task that are woken when it has another state: one of each kind
// at most. A further one ticks: the successor of one that has ended and is about to leave.
type sleepers struct {
	mu   sync.Mutex
	kind [len(probe.Kinds)]sleeper
}

// sleeper is a worker. Its Wake makes it due after its task has got another state.
type sleeper = interface{ Wake() }

// Owner returns the owner of the containers of a task that is in use. That of all tasks which were joined is one
// pointer, by which claims of container IDs are compared.
func (i *task) Owner() *owner {
	if i.joined != nil {
		return i.joined
	}
	return &i.owner
}

// Settle gives a task, which has one worker that is not started, or more, to home. It reports false if other
// workers of it have another home. isHome compares homes.
func (i *task) Settle(home *any, isHome func(any) bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if now := i.owner.Of.Load(); i.users > 1 && now != nil {
		return isHome(*now)
	}
	i.owner.Of.Store(home)
	return true
}

// Join makes the tasks of i and o, which are in use, descriptions of one task. That of i has one worker, which is not
// started, or another user has joined it before; it does nothing otherwise. It reports whether they are one task now.
func (i *task) Join(o *task) bool {
	theirs := o.Owner()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i != o && i.joined == nil && i.users == 1 {
		i.joined = theirs
	}
	return i.Owner() == theirs
}

// publish makes s the state of the task. It reports false if it is already.
func (i *task) publish(s State) (changed bool) {
	known := i.published.Load()
	if known != nil && *known == s {
		return false
	}
	if known == nil || known.ContainerID != s.ContainerID || !known.StartedAt.Equal(s.StartedAt) {
		i.began.Store(beginning(&s, time.Now()))
	}
	next := s // only a state that is kept is on the heap
	i.published.Store(&next)
	return true
}

// origin is before every time of this process.
var origin = time.Now().Add(-time.Second)

// longest bounds ages, about 73 years.
const longest = time.Duration(1 << 61)

// beginning returns when a task in the state s has begun, by the monotonic clock: its StartedAt by the wall
// clock of now, when it was published. A start in the future is now.
func beginning(s *State, now time.Time) int64 {
	return int64(now.Sub(origin)) - int64(min(max(now.Sub(s.StartedAt), 0), longest))
}

// Age returns how long the published run has lasted. It is not negative. If another state was
// published after the one that the caller has, it may be too short.
func (i *task) Age(now time.Time) time.Duration {
	return max(now.Sub(origin)-time.Duration(i.began.Load()), 0)
}

// Sleep has w, of the given kind, woken when the task has another state than s, which its last tick has found.
// It reports false if the task has another already, or does not tell.
func (i *task) Sleep(w sleeper, kind probe.Kind, s *State) bool {
	if i.pulls.Load() {
		return false
	}
	i.asleep.mu.Lock()
	defer i.asleep.mu.Unlock()
	if i.Known() != s { // checked with the lock, which wake takes after each change
		return false
	}
	in := &i.asleep.kind[kind]
	if *in != nil && *in != w { // w may have been triggered meanwhile
		return false
	}
	*in = w
	return true
}

// wake wakes the workers that are asleep, after a change of the state.
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

// forget removes a worker that does not use the task any more.
func (s *sleepers) forget(w sleeper, kind probe.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kind[kind] == w {
		s.kind[kind] = nil
	}
}

// noState is the state before the first one.
var noState State

// Known returns the last state of the task. It must not be modified.
func (i *task) Known() *State {
	if s := i.published.Load(); s != nil {
		return s
	}
	return &noState
}

// Pulls reports whether ticks ask the Source of the task, by Pull.
func (i *task) Pulls() bool { return i.pulls.Load() }

// Pull asks the Source of t, whose part i is, and returns the state for a tick. It must not be modified.
func (i *task) Pull(t *Task) *State {
	if i.pulls.Load() {
		i.publish(t.Source.State())
	}
	return i.Known()
}

// Use is called for each new worker of t, whose part i is.
func (i *task) Use(t *Task) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.users++; i.users > 1 {
		return
	}
	if i.owner.Subject == nil { // else a task that was joined with t may be reading it
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
	i.pulls.Store(true) // also when Publish panics
	if p, ok := t.Source.(Publisher); ok {
		if i.stop, ok = p.Publish(t.SetState); ok {
			i.pulls.Store(false)
		}
	}
}

// Leave is called when w has ended, or has another task now.
func (i *task) Leave(w sleeper, kind probe.Kind) {
	i.asleep.forget(w, kind)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.users--; i.users == 0 && i.stop != nil {
		stop := i.stop
		i.stop = nil
		defer i.published.Store(nil) // it is not kept up to date any more
		stop()
	}
}
