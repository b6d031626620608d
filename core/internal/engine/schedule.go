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

// schedule runs workers when they are due. It has one shard for each processor, up to maxShards, to reduce
// lock contention.
//
// A shard has a heap of its workers by due time, and runners: goroutines that take due workers off the heap
// one at a time. Workers whose due times are close run in one batch; see window.go. Before a runner runs a
// tick, it makes sure that another runner takes the next worker of the batch, or that the timer is set for
// the next batch. So no worker waits for the tick of another, however long that takes.
//
// Runners are reused, so a tick starts no goroutine. A runner that is called replaces its predecessor as
// soon as the predecessor has ended its tick. Otherwise short ticks would make more and more runners
// compete for the heap. A schedule without workers has no goroutine and no timer.
// See RATIONALE.md, "Why does an idle probe own no goroutine and no timer?"
type schedule struct {
	origin time.Time // due times are nanoseconds since origin
	shards []shard
	next   atomic.Uint32 // shard of the next new worker

	longestWindow int64 // longest window of a tick; 0: all ticks are exact

	running sync.WaitGroup // runners
}

const (
	never = math.MaxInt64 // due time of a worker that is not scheduled
	// reviewEvery is the interval at which unused idle runners are ended.
	reviewEvery = int64(5 * time.Second)
	// fewIdle is the number of idle runners that are kept without a review.
	fewIdle = 8
)

// newSchedule returns a schedule whose longest window is window.
func newSchedule(window time.Duration) *schedule {
	s := &schedule{origin: time.Now(), longestWindow: int64(window), shards: make([]shard, min(runtime.GOMAXPROCS(0), maxShards))}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.schedule, sh.wake, sh.batch, sh.limit, sh.watch = s, never, never, never, never
		s.shards[i].runners = make(map[*runner]struct{})
	}
	return s
}

// maxShards limits the shards on large machines: one shard runs more than a million ticks per second.
const maxShards = 8

// shard returns the shard for a new worker.
func (s *schedule) shard() *shard { return &s.shards[s.next.Add(1)%uint32(len(s.shards))] }

// since converts t to a due time.
func (s *schedule) since(t time.Time) int64 { return int64(t.Sub(s.origin)) }

// timeOf converts a due time to a time with a monotonic reading. now must be the present time.
func (s *schedule) timeOf(due int64, now time.Time) time.Time {
	return now.Add(time.Duration(due - s.since(now)))
}

// displayTime converts a due time to a wall clock time for users. Repeated calls return the same time
// unless the wall clock was set.
func (s *schedule) displayTime(due int64, now time.Time) time.Time {
	origin := s.origin.Round(0) // the wall clock
	moved := now.Round(0).Sub(origin) - now.Sub(s.origin)
	return origin.Add(time.Duration(due) + moved.Round(time.Second))
}

// shard schedules a part of the workers.
type shard struct {
	schedule *schedule

	mu      sync.Mutex
	workers int // added and not removed
	heap    heap
	stale   int   // approximate number of stale slots in the heap
	batch   int64 // when to run the next batch; never without workers
	limit   int64 // earliest end of a window in the batch
	timer   *time.Timer
	wake    int64   // when the timer fires; never if not set
	called  bool    // a runner is about to look at the heap
	latest  *runner // the runner that came to the heap last
	taken   int64   // when a worker was last taken off the heap
	runners map[*runner]struct{}
	watch   int64     // when to check for overdue attempts; never without ticks
	idle    []*runner // the last one was used most recently
	unused  int       // minimum number of idle runners since the last review
	review  int64     // when to end unused runners
	_       [64]byte  // avoids false sharing with the next shard
}

// runner is a goroutine that runs ticks, with the memory that it reuses for them.
// See RATIONALE.md, "Why is the number of attempts in flight not bounded?"
type runner struct {
	call  chan bool // true: look at the heap; false: exit
	tick  worker.Tick
	trace tracing

	// Guarded by the mu of the worker whose attempt is under way.
	context  *attemptContext
	began    time.Time // when the attempt began
	again    bool      // the tick replaces one whose attempt a change has cancelled
	outdated bool      // the handler has changed since, but the attempt still counts

	state     *worker.State // state of the current tick; nil if none
	lasting   *worker.State // state of the current tick if its gate stays closed, else nil
	delayed   *worker.State // state of the current tick if its gate is the initial delay, else nil
	triggered bool          // the current tick was triggered
	period    time.Duration // that the due time after the current tick was computed with
	more      bool          // schedule the worker again
	next      moment        // when the worker is due after the tick

	// Guarded by the mu of the shard.
	worker *Worker // worker of the current tick; nil without one
	taken  int64   // when worker was taken off the heap

	suspect atomic.Int64 // taken of the tick that was overdue at the last check
}

// add adds a worker. It is not scheduled before push.
func (s *shard) add() {
	s.lock()
	defer s.mu.Unlock()
	s.workers++
}

// lock locks mu for goroutines that add and trigger workers. It spins first: a busy runner holds mu for a
// fraction of a microsecond of each tick, and takes it again before a waiting goroutine has woken up. A
// waiter would get mu only after a millisecond, when the mutex enters starvation mode.
func (s *shard) lock() {
	for range 100 {
		if s.mu.TryLock() {
			return
		}
	}
	s.mu.Lock()
}

// remove removes a worker. Its slot in the heap becomes stale.
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

// push schedules w for m. again means that the heap already has a slot of w with another moment.
func (s *shard) push(w *Worker, m moment, again bool) {
	s.lock()
	defer s.mu.Unlock()
	s.pushLocked(w, m)
	if again {
		s.staleLocked()
	}
	s.scheduleBatchLocked(s.schedule.since(time.Now()))
}

func (s *shard) pushLocked(w *Worker, m moment) {
	s.heap.push(slot{m, w})
	s.limit = min(s.limit, s.schedule.latest(m))
}

// staleLocked counts a stale slot. It removes all stale slots once they are at least half of the heap, so
// that the heap does not grow with the number of changes.
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

// scheduleBatchLocked makes sure that the next batch runs at its planned time, and that unused runners are
// ended.
func (s *shard) scheduleBatchLocked(now int64) {
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

// fire is the timer's function. The process is awake then, so the other shards run their due workers too.
func (s *shard) fire() {
	found := s.wakeUp()
	for i := range s.schedule.shards {
		s.schedule.shards[i].advance()
	}
	for _, f := range found {
		f.leaveIfOverdue()
	}
}

// wakeUp does the work that is due, and returns the ticks that may be overdue.
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
		found = s.findOverdueLocked(now)
	}
	s.scheduleBatchLocked(now)
	return found
}

// callLocked makes an idle or a new runner look at the heap.
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

// endLocked ends the n least recently used idle runners.
func (s *shard) endLocked(n int) {
	for _, r := range s.idle[:n] {
		s.endRunnerLocked(r)
	}
	s.idle = slices.Delete(s.idle, 0, n)
	s.unused = min(s.unused, len(s.idle))
}

// run is the goroutine of a runner.
func (s *shard) run(r *runner) {
	ended := false
	defer func() {
		if !ended { // a callback has called runtime.Goexit
			s.schedule.running.Go(func() { s.run(r) })
		}
	}()
	s.arrive(r)
	for {
		w, now, m := s.nextWorker(r)
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

// arrive records that r has come to look at the heap.
func (s *shard) arrive(r *runner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called, s.latest = false, r
}

// nextWorker ends the tick of r, and returns the next worker to run. If it returns nil, r is idle and waits
// for a call.
func (s *shard) nextWorker(r *runner) (w *Worker, now time.Time, m moment) {
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
			s.scheduleBatchLocked(at)
		}
	}
	return w, now, m
}

// endRunnerLocked ends a runner without a tick.
func (s *shard) endRunnerLocked(r *runner) {
	delete(s.runners, r)
	r.call <- false
}

// takeLocked takes the first worker off the heap if its batch is due, and makes sure that the next one is
// run. It returns nil to a replaced runner while another one is about to come.
// See RATIONALE.md, "Why does a runner replace the one before it?"
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
	s.scheduleBatchLocked(now)
	if w != nil {
		s.prefetchLocked()
	}
	return w, m
}

// stalled returns how long the window of a worker has been over while its shard has run no worker.
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

// slot is a worker with its moment in the heap. It is stale if the worker was stopped, or scheduled for
// another moment since.
type slot struct {
	moment moment
	worker *Worker
}

// heap is a 4-ary min-heap. The children of slot i are at 4i+1 to 4i+4.
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

// sink puts e at i, or below i if a child is due before e.
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

// order establishes the heap order.
func (h heap) order() {
	for i := (len(h) - 2) / 4; i >= 0 && len(h) > 0; i-- {
		h.sink(i, h[i])
	}
}
