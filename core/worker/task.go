package worker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// Source returns the state of a task whose owner does not publish it with [Task.SetState].
type Source interface {
	// State is called at every tick of every probe of the task, by the goroutine of the tick,
	// with no lock held and concurrently with itself. It must not do I/O.
	State() State
}

// Publisher is a [Source] that can publish the state of its task instead, which makes a tick
// cheaper.
type Publisher interface {
	Source
	// Publish calls set with the present state, and then with every new one until stop is
	// called. It is called when the first worker of the task is made, and stop when the last
	// one has ended, by the goroutines that make and stop the workers or by that of a tick. Both
	// are called with the lock of the task held: they must not add or stop probes. With ok
	// false, State is called at every tick after all.
	Publish(set func(State)) (stop func(), ok bool)
}

// State is what the probes of a task must know of it. In Kubernetes it is the state of a pod and
// one of its containers, from the status of the pod.
type State struct {
	// ContainerID names this run of the task, "" until there is one. Results are kept by it: while
	// another task of the group has the same, the probes of this one make no attempts, and its gate
	// is [InUse]. Another ID is another run: the results of the old one are dropped.
	ContainerID string
	StartedAt   time.Time // when it began to run; a time in the future is now
	PodIP       string    // the default host of targets
	Found       bool      // there is a status at all
	Running     bool      // the task runs
	Started     bool      // its startup probe has succeeded, or it has none
	Final       bool      // it does not run, and will not run again: its probes end
	Deleting    bool      // the pod is being deleted
	PodEnded    bool      // the pod's phase is Failed or Succeeded: its probes end
}

// Running returns the state of a task that runs since the given time, and has started: it has no
// startup probe.
func Running(id string, since time.Time) State {
	return State{Found: true, ContainerID: id, Running: true, StartedAt: since, Started: true}
}

// Starting returns the state of a task that runs since the given time, and has started when its
// startup probe succeeds: then [Task.SetStarted] is to be called.
func Starting(id string, since time.Time) State {
	return State{Found: true, ContainerID: id, Running: true, StartedAt: since}
}

// Stopped returns the state of a task that does not run now.
func Stopped(id string) State { return State{Found: true, ContainerID: id} }

// Task is what is probed: in Kubernetes a container. The workers of a task share it. Its fields
// are read-only once it is in use.
type Task struct {
	// Subject is what updates, events, observers and logs call the task.
	Subject results.Subject
	// Pod and Container are for handlers. The first worker of the task sets those that are nil,
	// with the names of Subject.
	Pod       *probe.Pod
	Container *probe.Container
	// Source returns the state of the task, and may be a [Publisher]. If it is nil, the state is
	// the last one of [Task.SetState].
	Source Source
	// PriorID is the container ID in the status of the pod when the pod was added, as an
	// earlier agent left it.
	PriorID string
	// NoRestart means that a failed probe does not restart the task, so that a failure does
	// not put the worker on hold.
	NoRestart bool
	// Sidecar marks a restartable init container.
	Sidecar bool

	joined    *results.Subject // see subject; set before the first worker is started
	pulls     atomic.Bool      // ticks ask Source
	users     int32            // workers
	home      any              // see Settle
	published atomic.Pointer[State]
	began     atomic.Int64 // of the published run, in nanoseconds since origin; stored before published
	mu        sync.Mutex
	stop      func() // of the Publisher; nil if nothing is to be stopped
	asleep    sleepers
}

// sleepers are the workers of a task that do not tick before it has another state: one of each kind
// at most. A further one ticks: the successor of one that has ended and is about to leave.
type sleepers struct {
	mu   sync.Mutex
	kind [len(probe.Kinds)]*Worker
}

// subject returns the subject of t. That of all tasks with which t was joined is one pointer, by which
// claims of container IDs are compared.
func (t *Task) subject() *results.Subject {
	if t.joined != nil {
		return t.joined
	}
	return &t.Subject
}

// Join makes t and o descriptions of one task. t has one worker, which is not started, or another user
// has joined it before; it does nothing otherwise.
func (t *Task) Join(o *Task) { t.join(o) }

// Settle gives t, which has one worker that is not started, or more, to home. It reports false if other
// workers of t have another home. isHome compares homes.
func (t *Task) Settle(home any, isHome func(any) bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users > 1 && t.home != nil {
		return isHome(t.home)
	}
	t.home = home
	return true
}

// join is [Task.Join]. It reports whether t and o are one task now.
func (t *Task) join(o *Task) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t != o && t.joined == nil && t.users == 1 {
		t.joined = o.subject()
	}
	return t.subject() == o.subject()
}

// SetState publishes the state of a task without a Source. The next tick of each probe uses it,
// up to a period later; [Worker.Trigger] makes one now.
func (t *Task) SetState(s State) {
	if t.publish(s) {
		t.wake()
	}
}

// publish makes s the state of t. It reports false if it is already.
func (t *Task) publish(s State) (changed bool) {
	known := t.published.Load()
	if known != nil && *known == s {
		return false
	}
	if known == nil || known.ContainerID != s.ContainerID || !known.StartedAt.Equal(s.StartedAt) {
		t.began.Store(beginning(&s, time.Now()))
	}
	next := s // only a state that is kept is on the heap
	t.published.Store(&next)
	return true
}

// beginning returns when a task in the state s has begun, by the monotonic clock: its StartedAt by the wall
// clock of now, when it was published. A start in the future is now.
func beginning(s *State, now time.Time) int64 {
	return int64(now.Sub(origin)) - int64(min(max(now.Sub(s.StartedAt), 0), longest))
}

// age returns how long the published run of t has lasted. It is not negative. If another state was
// published after the one that the caller has, it may be too short.
func (t *Task) age(now time.Time) time.Duration {
	return max(now.Sub(origin)-time.Duration(t.began.Load()), 0)
}

// sleep lets w sleep until t has another state than s, which its last tick has found. It reports
// false if t has another already, or does not tell.
func (t *Task) sleep(w *Worker, s *State) bool {
	if t.pulls.Load() {
		return false
	}
	t.asleep.mu.Lock()
	defer t.asleep.mu.Unlock()
	if t.known() != s { // checked with the lock, which wake takes after each change
		return false
	}
	in := &t.asleep.kind[w.kind]
	if *in != nil && *in != w { // w may have been triggered meanwhile
		return false
	}
	*in = w
	return true
}

// wake wakes the workers that are asleep, after a change of the state.
func (t *Task) wake() {
	for _, w := range t.asleep.take() {
		if w != nil {
			w.wake()
		}
	}
}

func (s *sleepers) take() (all [len(probe.Kinds)]*Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, s.kind = s.kind, all
	return all
}

// forget removes a worker that does not use t any more.
func (s *sleepers) forget(w *Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kind[w.kind] == w {
		s.kind[w.kind] = nil
	}
}

// SetStarted publishes that a run of t has started. It reports false, and does nothing, if t is in
// another run now.
func (t *Task) SetStarted(id string) bool {
	for {
		now := t.published.Load()
		if now == nil || now.ContainerID != id {
			return false
		}
		next := *now
		next.Started = true
		if t.published.CompareAndSwap(now, &next) {
			t.wake()
			return true
		}
	}
}

// State returns the last published state of t, or that of the last tick if Source publishes none.
// Before the first it is the zero value.
func (t *Task) State() State {
	return *t.known()
}

// noState is the state before the first one.
var noState State

// known returns the last state of t. It must not be modified.
func (t *Task) known() *State {
	if s := t.published.Load(); s != nil {
		return s
	}
	return &noState
}

// present returns the state of t for a tick. It must not be modified.
func (t *Task) present() *State {
	if t.pulls.Load() {
		t.publish(t.Source.State())
	}
	return t.known()
}

// use is called for each new worker of t.
func (t *Task) use() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users++; t.users > 1 {
		return
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
	t.pulls.Store(true) // also when Publish panics
	if p, ok := t.Source.(Publisher); ok {
		if t.stop, ok = p.Publish(t.SetState); ok {
			t.pulls.Store(false)
		}
	}
}

// leave is called when w has ended, or has another task now.
func (t *Task) leave(w *Worker) {
	t.asleep.forget(w)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users--; t.users == 0 && t.stop != nil {
		stop := t.stop
		t.stop = nil
		defer t.published.Store(nil) // it is not kept up to date any more
		stop()
	}
}
