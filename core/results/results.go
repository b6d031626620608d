// Package results keeps the last decided result of every container, and sends updates to readers.
//
// There is one [Cache] for each kind of probe, as in the kubelet, where the sync loop and the runtime
// manager share them. Unlike in the kubelet, Set never blocks: a slow reader gets the newest state, and not
// the older ones.
package results

import (
	"context"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/probe"
)

// Result is a decided result: one that has reached its threshold.
type Result int8

// The decided results. The zero value is Unknown, so that a result that was never decided, for example of
// an unknown container, is not a success. [Result.ToPrometheusType] returns the kubelet's numbers.
// See RATIONALE.md, "Why is Unknown the zero value of a result?"
const (
	Unknown Result = iota
	Success
	Failure
)

// String returns the kubelet's spelling: "Success", "Failure" or "UNKNOWN".
func (r Result) String() string {
	switch r {
	case Success:
		return "Success"
	case Failure:
		return "Failure"
	default:
		return "UNKNOWN"
	}
}

// Word returns "success", "failure" or "unknown".
func (r Result) Word() string {
	switch r {
	case Success:
		return "success"
	case Failure:
		return "failure"
	default:
		return "unknown"
	}
}

// MarshalText implements [encoding.TextMarshaler] with the result's [Result.Word].
func (r Result) MarshalText() ([]byte, error) { return []byte(r.Word()), nil }

// ToPrometheusType returns the kubelet's number for metrics: 0 for Success, 1 for Failure, -1 for any other
// result.
func (r Result) ToPrometheusType() float64 {
	switch r {
	case Success:
		return 0
	case Failure:
		return 1
	default:
		return -1
	}
}

// Subject identifies the container of a decided result.
type Subject struct {
	Namespace, Pod, PodUID, Container string
}

// Reason is the reason of a decided result: the [probe.Reason] of an attempt, "" if it had none, or one of
// the constants below.
type Reason string

// The reasons of results that were decided without an attempt.
const (
	Initial     Reason = "initial"     // the container is new; see worker.InitialResult
	Restored    Reason = "restored"    // an earlier agent decided it
	NotRunning  Reason = "not_running" // the container is not running
	Terminating Reason = "terminating" // its pod is being deleted
	Forced      Reason = "forced"      // a user has forced it, or a forced result has ended
)

// Update is a change or the removal of a decided result.
type Update struct {
	Kind        probe.Kind
	ContainerID string
	Result      Result // last decided result, also if Removed is set
	// Removed means that the cache has removed its result for the container, because its probe has ended or
	// the container was replaced.
	Removed bool
	Cause             // cause of Result
	Time    time.Time // when Result was decided
	Subject
}

// Cause is the reason of a decided result.
type Cause struct {
	Reason Reason
	// Output is the output of the deciding attempt, or the text of its error, truncated to [MaxOutput]
	// bytes. It is "" for results that were decided without an attempt.
	Output string
}

// MaxOutput is the maximum length in bytes of an output that is kept with a result.
const MaxOutput = 256

// Cache holds the decided results of one kind of probe by container ID.
// It is safe for concurrent use.
type Cache struct {
	inner
	kind   probe.Kind
	seed   maphash.Seed
	shards [cacheShards]cacheShard

	// queues has one queue for each reader. The list is replaced with attaching held, never modified.
	queues    atomic.Pointer[[]*queue]
	attaching sync.Mutex

	updatesOnce sync.Once
	updates     chan Update
	stopUpdates context.CancelFunc
	pump        sync.WaitGroup
}

type inner = seam.Hidden[claims]

// claims has the methods of a cache that only packages of core call.
type claims struct{ cache *Cache }

// owner identifies who has claimed a container.
type owner = seam.Owner[Subject]

// cacheShards is the number of shards. Every tick reads the cache: with a single lock, a change would wait
// for all ticks that are due at the same time.
const cacheShards = 32

// cacheShard has a part of the containers. Its lock is held while an entry changes and the update is
// queued, so every reader gets the updates in order.
type cacheShard struct {
	mu      sync.Mutex
	entries map[string]*cacheEntry // pointers, because a map has room for many more entries than it holds
}

// cacheEntry is immutable; a change replaces it.
type cacheEntry struct {
	by     *owner // nil: without a subject
	cause  *Cause // nil: empty
	packed int64  // time of the decision in Unix microseconds, shifted left by 4 flag bits
}

// The flags of an entry: the result in the low 2 bits, and two more.
const (
	claimed = 1 << 2 // see [claims.Claim]
	present = 1 << 3 // the entry has a result
	flags   = 4      // number of bits
)

func newEntry(r Result, by *owner, why Cause) *cacheEntry {
	return &cacheEntry{by, compactCause(why), time.Now().UnixMicro()<<flags | present | int64(r)&3}
}

func (e *cacheEntry) has(flag int64) bool { return e != nil && e.packed&flag != 0 }
func (e *cacheEntry) result() Result      { return Result(e.packed & 3) }
func (e *cacheEntry) decided() time.Time  { return time.UnixMicro(e.packed >> flags) }

// parent returns the parent of the owner of e; nil if none.
func (e *cacheEntry) parent() *any {
	if e.by == nil {
		return nil
	}
	return e.by.Parent.Load()
}

func (e *cacheEntry) update(kind probe.Kind, containerID string) Update {
	u := Update{Kind: kind, ContainerID: containerID, Result: e.result(), Time: e.decided()}
	if e.by != nil && e.by.Subject != nil {
		u.Subject = *e.by.Subject
	}
	if e.cause != nil {
		u.Cause = *e.cause
	}
	return u
}

// New returns an empty cache for probes of kind.
func New(kind probe.Kind) *Cache {
	c := &Cache{kind: kind, seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].entries = make(map[string]*cacheEntry)
	}
	c.queues.Store(new([]*queue))
	c.inner = seam.Hide(claims{c})
	return c
}

func (c *Cache) shard(containerID string) *cacheShard {
	return &c.shards[maphash.String(c.seed, containerID)%cacheShards]
}

// Kind returns the kind of the probes of c.
func (c *Cache) Kind() probe.Kind { return c.kind }

// Get returns the decided result of a container; ok is false if there is none.
func (c *Cache) Get(containerID string) (r Result, ok bool) {
	s := c.shard(containerID)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[containerID]
	if !e.has(present) {
		return Unknown, false
	}
	return e.result(), true
}

// Set stores r as the result of a container, with the cause why. It reports whether r is the first result
// or differs from the previous one. If not, nothing changes and no update is sent. subject is kept and must
// not be modified; nil means an empty one. If a worker has claimed the container, the subject of the worker's
// task stays. Set never blocks.
// See RATIONALE.md, "Why does Set never block?"
func (c *Cache) Set(containerID string, r Result, subject *Subject, why Cause) (changed bool) {
	s := c.shard(containerID)
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.entries[containerID]
	switch {
	case was.has(present) && was.result() == r:
		return false
	case was.has(claimed):
		c.setLocked(s, containerID, r, was.by, why)
	default:
		c.setLocked(s, containerID, r, &owner{Subject: subject}, why)
	}
	return true
}

func (c *Cache) setLocked(s *cacheShard, containerID string, r Result, by *owner, why Cause) {
	e := newEntry(r, by, why)
	if s.entries[containerID].has(claimed) {
		e.packed |= claimed
	}
	s.entries[containerID] = e
	for _, q := range *c.queues.Load() {
		q.put(e.update(c.kind, containerID), e.parent())
	}
}

// commonCauses has the causes of most results. Entries share them.
var commonCauses = map[Cause]*Cause{
	{}: nil, {Reason: Initial}: {Reason: Initial}, {Reason: Restored}: {Reason: Restored},
	{Reason: NotRunning}: {Reason: NotRunning}, {Reason: Terminating}: {Reason: Terminating},
}

// compactCause returns the cause that an entry keeps, with a truncated output.
func compactCause(why Cause) *Cause {
	if common, ok := commonCauses[why]; ok {
		return common
	}
	if len(why.Output) > MaxOutput {
		why.Output = strings.Clone(clip.Bytes(why.Output, MaxOutput))
	}
	return new(why) // a copy, so that why itself stays on the stack
}

// Remove removes the result of a container. A reader still gets the last result if it has not read it, and
// then an update with Removed set. Remove never blocks.
func (c *Cache) Remove(containerID string) {
	s := c.shard(containerID)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[containerID]
	if e.has(claimed) {
		s.entries[containerID] = &cacheEntry{by: e.by, packed: claimed}
	} else {
		delete(s.entries, containerID)
	}
	c.removed(containerID, e)
}

// removed sends an update for the removal of e, if e had a result.
func (c *Cache) removed(containerID string, e *cacheEntry) {
	if !e.has(present) {
		return
	}
	u := e.update(c.kind, containerID)
	u.Removed = true
	for _, q := range *c.queues.Load() {
		q.put(u, e.parent())
	}
}

// Updates returns a channel of updates for one reader, such as a sync loop like the kubelet's. Every call
// returns the same channel. Unread updates of one container are merged as in [Subscribe]. [Cache.Close]
// closes the channel.
func (c *Cache) Updates() <-chan Update {
	c.updatesOnce.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		c.updates, c.stopUpdates = make(chan Update), cancel
		q := newQueue()
		c.attach(q)
		c.pump.Go(func() {
			defer close(c.updates)
			defer c.detach(q)
			q.offer(ctx, c.updates)
		})
	})
	return c.updates
}

// Close closes the channel of [Cache.Updates]. Get, Set and Remove still work.
func (c *Cache) Close() {
	c.updatesOnce.Do(func() {
		c.updates, c.stopUpdates = make(chan Update), func() {}
		close(c.updates)
	})
	c.stopUpdates()
	c.pump.Wait()
}

// Subscribe returns the results in all caches, and then their updates until ctx ends. It is
// level-triggered: an unread update is replaced by the next one of the same kind and container. After a
// removal, a slow reader gets the last result and the removal. The sequence is for a single reader. There
// may be any number of subscriptions. A reader that stops reading must end ctx. Until then unread updates
// are kept, about 200 bytes for each container.
func Subscribe(ctx context.Context, caches ...*Cache) iter.Seq[Update] {
	return updates(subscribe(ctx, nil, caches))
}

// attach makes q a reader, and puts all results into it. A concurrent change is put by Set, or found in its
// shard, or both.
func (c *Cache) attach(q *queue) {
	c.attaching.Lock()
	defer c.attaching.Unlock()
	c.queues.Store(new(append(slices.Clone(*c.queues.Load()), q)))
	for i := range c.shards {
		c.shards[i].putAll(c.kind, q)
	}
}

// putAll puts all results in s into q.
func (s *cacheShard) putAll(kind probe.Kind, q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, e := range s.entries {
		if e.has(present) {
			q.put(e.update(kind, id), e.parent())
		}
	}
}

func (c *Cache) detach(q *queue) {
	c.attaching.Lock()
	defer c.attaching.Unlock()
	kept := slices.DeleteFunc(slices.Clone(*c.queues.Load()), func(o *queue) bool { return o == q })
	c.queues.Store(&kept)
}
