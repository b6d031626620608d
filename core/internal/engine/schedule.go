package engine

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/core/worker"
)

// schedule makes workers tick when they are due. It has one shard a processor, so that
// processors seldom wait for each other.
//
// A shard has a heap of the due times of its workers, and runners: goroutines that take due
// workers off the heap, one at a time. Workers that are due soon after each other are run in one
// batch; see window.go. Before a runner runs a tick, it makes sure that another
// runner is on its way to the next worker of the batch, or that the timer is set for the next batch. So no worker
// waits for another, however long the tick of that one takes, and a tick costs no goroutine:
// runners are reused. A runner that comes replaces the one that came before it, as soon as that
// has ended its tick: else short ticks would make more and more of them compete for the heap. A
// schedule without workers has no goroutine and no timer.
type schedule struct {
	origin time.Time // due times are nanoseconds since then
	shards []shard
	next   atomic.Uint32 // shard of the next new worker

	longestWindow int64 // of a tick; 0: all ticks are exact

	running sync.WaitGroup // runners
}

const (
	never = math.MaxInt64 // due time and moment of a worker that is not scheduled
	// reviewEvery is how often runners that were not needed meanwhile are ended.
	reviewEvery = int64(5 * time.Second)
	// fewIdle is how many idle runners do not cause a wake-up of their own.
	fewIdle = 8
)

// newSchedule returns a schedule whose longest window is as given.
func newSchedule(window time.Duration) *schedule {
	s := &schedule{origin: time.Now(), longestWindow: int64(window), shards: make([]shard, min(runtime.GOMAXPROCS(0), maxShards))}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.schedule, sh.wake, sh.batch, sh.limit, sh.watch = s, never, never, never, never
		s.shards[i].runners = make(map[*runner]struct{})
	}
	return s
}

// maxShards bounds the shards on large machines: a shard runs more than a million ticks a second.
const maxShards = 8

// shard returns the shard of a new worker.
func (s *schedule) shard() *shard { return &s.shards[s.next.Add(1)%uint32(len(s.shards))] }

// since returns t as a due time.
func (s *schedule) since(t time.Time) int64 { return int64(t.Sub(s.origin)) }

// at returns the time of a due time, near the present time now.
func (s *schedule) at(due int64, now time.Time) time.Time {
	return now.Add(time.Duration(due - s.since(now)))
}

// shown returns the time of a due time for users: the same at every call, unless the wall clock was
// set meanwhile.
func (s *schedule) shown(due int64, now time.Time) time.Time {
	origin := s.origin.Round(0) // the wall clock
	moved := now.Round(0).Sub(origin) - now.Sub(s.origin)
	return origin.Add(time.Duration(due) + moved.Round(time.Second))
}

// shard has some of the workers.
type shard struct {
	schedule *schedule

	mu      sync.Mutex
	workers int // that were added, and not removed yet
	heap    heap
	stale   int   // about how many slots of the heap are not valid any more
	batch   int64 // when the next workers are to be run; never if there are none
	limit   int64 // when they must be run: at the end of the first of their windows
	timer   *time.Timer
	wake    int64   // when the timer fires; never if it is not set
	called  bool    // a runner is on its way to the heap
	latest  *runner // came to the heap last
	taken   int64   // when a worker was last taken off the heap
	runners map[*runner]struct{}
	watch   int64     // when to look for overdue attempts; never if there is no tick
	idle    []*runner // the last one was used last
	unused  int       // fewest idle runners since the last review
	review  int64     // when to end unused runners
	_       [64]byte  // no false sharing with the next shard
}

// runner is a goroutine that runs ticks, and what it reuses for each of them.
type runner struct {
	call  chan bool // true: look at the heap; false: end
	tick  worker.Tick
	trace tracing

	// Guarded by the mu of the worker whose attempt is under way.
	context  *attemptContext
	began    time.Time // the attempt
	again    bool      // the tick is in the place of one whose attempt a change has dropped
	outdated bool      // the handler has changed since, and the attempt counts nevertheless

	state     *worker.State // of the present tick; nil if there is none
	lasting   *worker.State // whose gate lasts, as the present tick has found it; nil for another gate
	delayed   *worker.State // the same for the initial delay
	triggered bool          // the present tick was triggered
	more      bool          // its worker is to be scheduled again
	next      moment        // when the worker is due after the tick

	// Guarded by the mu of the shard.
	worker *Worker // whose tick it runs; nil for none
	taken  int64   // when that was taken off the heap

	suspect atomic.Int64 // taken of the tick that was overdue at the last look
}

// add adds a worker. Without push it is not due.
func (s *shard) add() {
	s.lock()
	defer s.mu.Unlock()
	s.workers++
}

// lock locks mu for those who add and trigger workers. A busy runner holds mu for a fraction of a
// microsecond of each tick, and takes it again before a goroutine that waits for it has woken up: a
// waiter would wait for a millisecond, until the mutex hands itself over.
func (s *shard) lock() {
	for range 100 {
		if s.mu.TryLock() {
			return
		}
	}
	s.mu.Lock()
}

// remove removes a worker. What the heap still has of it is stale.
func (s *shard) remove(scheduled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers--
	if scheduled {
		s.staleLocked()
	}
	if s.workers > 0 {
		return
	}
	s.heap, s.stale, s.batch, s.limit = nil, 0, never, never
	s.endLocked(len(s.idle))
	if s.timer != nil {
		s.timer.Stop()
		s.wake, s.watch = never, never
	}
}

// push makes w due. again means that the heap has a slot of w with another moment.
func (s *shard) push(w *Worker, m moment, again bool) {
	s.lock()
	defer s.mu.Unlock()
	s.pushLocked(w, m)
	if again {
		s.staleLocked()
	}
	s.attendLocked(s.schedule.since(time.Now()))
}

func (s *shard) pushLocked(w *Worker, m moment) {
	s.heap.push(slot{m, w})
	s.limit = min(s.limit, s.schedule.latest(m))
}

// staleLocked counts a stale slot. It removes all of them when they are most of the heap, so that
// the heap does not grow with the number of changes.
func (s *shard) staleLocked() {
	if s.stale++; s.stale < 64 || s.stale < len(s.heap)/2 {
		return
	}
	valid := s.heap[:0]
	for _, e := range s.heap {
		if e.worker.moment() == e.moment {
			valid = append(valid, e)
		}
	}
	clear(s.heap[len(valid):])
	s.heap, s.stale = slices.Clip(slices.Clone(valid)), 0
	s.heap.order()
}

// attendLocked makes sure that the next batch is run when it is planned, and that runners
// which are not needed any more are ended.
func (s *shard) attendLocked(now int64) {
	if s.called {
		return
	}
	s.planLocked()
	at := s.batch
	if at <= now {
		s.callLocked()
		return
	}
	if len(s.idle) > fewIdle {
		at = min(at, max(s.review, now))
	}
	at = min(at, s.watch)
	if at == s.wake || at == never {
		return
	}
	s.wake = at
	if s.timer == nil {
		s.timer = time.AfterFunc(time.Duration(at-now), s.fire)
	} else {
		s.timer.Reset(time.Duration(at - now))
	}
}

// fire is called by the timer. The process is awake then, so the other shards run their due workers too.
func (s *shard) fire() {
	found := s.wakeUp()
	for i := range s.schedule.shards {
		s.schedule.shards[i].advance()
	}
	for _, f := range found {
		f.look()
	}
}

// wakeUp does what is due, and returns the ticks that may be overdue.
func (s *shard) wakeUp() (found []flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.schedule.since(time.Now())
	s.wake = never
	if now >= s.review {
		s.endLocked(s.unused)
		s.unused, s.review = len(s.idle), now+reviewEvery
	}
	if now >= s.watch {
		found = s.lookLocked(now)
	}
	s.attendLocked(now)
	return found
}

// callLocked makes a runner look at the heap: one that is idle, or a new one.
func (s *shard) callLocked() {
	s.called = true
	last := len(s.idle) - 1
	if last < 0 {
		r := &runner{call: make(chan bool, 1), context: new(attemptContext), next: never}
		s.runners[r] = struct{}{}
		s.schedule.running.Go(func() { s.run(r) })
		return
	}
	r := s.idle[last]
	s.idle[last] = nil
	s.idle = s.idle[:last]
	s.unused = min(s.unused, last)
	r.call <- true
}

// endLocked ends n idle runners, those that were used least recently.
func (s *shard) endLocked(n int) {
	for _, r := range s.idle[:n] {
		s.endRunnerLocked(r)
	}
	s.idle = slices.Delete(s.idle, 0, n)
	s.unused = min(s.unused, len(s.idle))
}

// run is the goroutine of a runner that was called.
func (s *shard) run(r *runner) {
	ended := false
	defer func() {
		if !ended { // a callback has called runtime.Goexit
			s.schedule.running.Go(func() { s.run(r) })
		}
	}()
	s.arrive(r)
	for {
		w, now, m := s.turn(r)
		switch {
		case w != nil:
			w.fire(r, now, m)
		case !<-r.call:
			ended = true
			return
		default:
			s.arrive(r)
		}
	}
}

// arrive is called by a runner that comes to look at the heap.
func (s *shard) arrive(r *runner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called, s.latest = false, r
}

// turn ends the tick of r, and returns the worker that it is to run now. Without one r is idle, and waits
// to be called.
func (s *shard) turn(r *runner) (w *Worker, now time.Time, m moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.next != never && s.workers > 0 {
		s.pushLocked(r.worker, r.next)
	}
	r.next, r.worker = never, nil
	now = time.Now()
	at := s.schedule.since(now)
	if s.workers > 0 {
		w, m = s.takeLocked(r, at)
	}
	switch {
	case w != nil:
		r.worker, r.taken = w, at
	case s.workers == 0:
		s.endRunnerLocked(r)
	default:
		s.idle = append(s.idle, r)
		if len(s.idle) == fewIdle+1 {
			s.attendLocked(at)
		}
	}
	return w, now, m
}

// endRunnerLocked ends a runner that is not running a tick.
func (s *shard) endRunnerLocked(r *runner) {
	delete(s.runners, r)
	r.call <- false
}

// takeLocked takes the first worker off the heap if its batch is due, and makes sure that the next one
// is run. It takes none for a runner that was replaced, while another one is on its way.
func (s *shard) takeLocked(r *runner, now int64) (w *Worker, m moment) {
	if s.called && s.latest != r {
		return nil, 0
	}
	s.latest = r
	for s.planLocked(); s.batch <= now; s.planLocked() {
		e := s.heap.pop()
		s.taken = now
		if e.worker.moment() == e.moment {
			w, m = e.worker, e.moment
			break
		}
		s.stale = max(s.stale-1, 0)
	}
	if w != nil {
		s.watchLocked(now)
	}
	s.attendLocked(now)
	if w != nil {
		s.prefetchLocked()
	}
	return w, m
}

// stalled returns how long the window of a worker has been over while no worker of its shard was run.
func (s *schedule) stalled() (longest time.Duration) {
	for i := range s.shards {
		longest = max(longest, s.shards[i].stalled())
	}
	return longest
}

func (s *shard) stalled() time.Duration {
	s.lock()
	defer s.mu.Unlock()
	if len(s.heap) == 0 {
		return 0
	}
	return max(0, time.Duration(s.schedule.since(time.Now())-max(s.schedule.latest(s.heap[0].moment), s.taken)))
}

// slot is a worker and when it is due. It is stale if the worker was scheduled for another moment
// since, or was stopped.
type slot struct {
	moment moment
	worker *Worker
}

// heap is a 4-ary heap: the children of slot i are at 4i+1 to 4i+4, and not due before it.
type heap []slot

func (h *heap) push(e slot) {
	*h = append(*h, e)
	all := *h
	i := len(all) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if all[parent].moment <= e.moment {
			break
		}
		all[i] = all[parent]
		i = parent
	}
	all[i] = e
}

func (h *heap) pop() slot {
	all := *h
	first, last := all[0], len(all)-1
	e := all[last]
	all[last] = slot{}
	*h = all[:last]
	if last > 0 {
		all[:last].sink(0, e)
	}
	return first
}

// sink puts e at i, or below if a child is due before it.
func (h heap) sink(i int, e slot) {
	for {
		child := 4*i + 1
		if child >= len(h) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(h)); c++ {
			if h[c].moment < h[least].moment {
				least = c
			}
		}
		if e.moment <= h[least].moment {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = e
}

// order makes a heap of slots in any order.
func (h heap) order() {
	for i := (len(h) - 2) / 4; i >= 0 && len(h) > 0; i-- {
		h.sink(i, h[i])
	}
}
