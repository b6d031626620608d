// Package results keeps the last decided result of every container and tells
// whoever wants to know when one changes.
//
// There is one [Cache] for each kind of probe, as in the kubelet, which shares its
// three with the sync loop and the runtime manager. Unlike the kubelet's, Set never
// blocks: a reader that is slow, or has gone, finds the newest state when it comes
// back, and nothing older.
package results

import (
	"context"
	"hash/maphash"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/daeace23/prober/probe"
)

// Result is a decided result: what the thresholds let through. The numbers are the
// kubelet's.
type Result int8

// The decided results.
const (
	Unknown Result = iota - 1
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

// ToPrometheusType returns the kubelet's number for metrics: 0 Success, 1 Failure,
// -1 anything else.
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

// Subject names the container that a decided result is about.
type Subject struct {
	Namespace, Pod, PodUID, Container string
}

// Reason says why a result was decided: a [probe.Reason] where an attempt had one,
// "" where it had none, or one of the constants below.
type Reason string

// The reasons of results that no attempt decided.
const (
	Initial     Reason = "initial"     // the container is new; see worker.InitialResult
	Restored    Reason = "restored"    // an earlier agent had decided it
	NotRunning  Reason = "not_running" // the container does not run
	Terminating Reason = "terminating" // its pod is being deleted: a quiet shutdown
)

// Update is a change of a decided result, or the end of one.
type Update struct {
	Kind        probe.Kind
	ContainerID string
	Result      Result // decided last, also when it is Removed
	// Removed says that the cache has no result of this kind for the container any
	// more: its probe has ended, or the container was replaced.
	Removed bool
	Reason  Reason // of Result
	Subject
}

// Cache holds the decided results of one kind of probe by container ID.
// It is safe for concurrent use.
type Cache struct {
	kind   probe.Kind
	seed   maphash.Seed
	shards [cacheShards]cacheShard

	// queues are the readers. The list is replaced under attaching, never modified.
	queues    atomic.Pointer[[]*queue]
	attaching sync.Mutex

	updatesOnce sync.Once
	updates     chan Update
	stopUpdates context.CancelFunc
	pump        sync.WaitGroup
}

// cacheShards is how many parts a cache has. Every tick asks the cache: with one lock,
// a change would have to wait for all the ticks that are due at that moment.
const cacheShards = 32

// cacheShard holds some of the containers. Its lock covers the change of an entry
// together with telling the readers, so that none sees two changes in the wrong order.
type cacheShard struct {
	mu      sync.Mutex
	entries map[string]cacheEntry
}

type cacheEntry struct {
	result  Result
	reason  Reason
	subject *Subject // read-only
}

func (e *cacheEntry) update(kind probe.Kind, containerID string) Update {
	u := Update{Kind: kind, ContainerID: containerID, Result: e.result, Reason: e.reason}
	if e.subject != nil {
		u.Subject = *e.subject
	}
	return u
}

// New returns an empty cache for probes of kind.
func New(kind probe.Kind) *Cache {
	c := &Cache{kind: kind, seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].entries = make(map[string]cacheEntry)
	}
	c.queues.Store(new([]*queue))
	return c
}

func (c *Cache) shard(containerID string) *cacheShard {
	return &c.shards[maphash.String(c.seed, containerID)%cacheShards]
}

// Kind returns the kind that c was made for.
func (c *Cache) Kind() probe.Kind { return c.kind }

// Get returns the decided result of a container; ok is false when there is none.
func (c *Cache) Get(containerID string) (r Result, ok bool) {
	s := c.shard(containerID)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[containerID]
	return e.result, ok
}

// Set decides the result of a container for the reason why, and reports whether that
// changed the result. Readers are told of changes only; the first result of a
// container is one. subject is kept and must not be modified; nil stands for an empty
// one. Set never blocks.
func (c *Cache) Set(containerID string, r Result, subject *Subject, why Reason) (changed bool) {
	s := c.shard(containerID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.entries[containerID]; ok && e.result == r {
		return false
	}
	e := cacheEntry{r, why, subject}
	s.entries[containerID] = e
	for _, q := range *c.queues.Load() {
		q.put(e.update(c.kind, containerID))
	}
	return true
}

// Remove forgets a container. Readers still get the last result that they have not
// read, and then an update that says Removed. Remove never blocks.
func (c *Cache) Remove(containerID string) {
	s := c.shard(containerID)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[containerID]
	if !ok {
		return
	}
	delete(s.entries, containerID)
	u := e.update(c.kind, containerID)
	u.Removed = true
	for _, q := range *c.queues.Load() {
		q.put(u)
	}
}

// Updates returns the one channel of c's changes, for a reader that selects on it
// like the kubelet's sync loop. Changes of one container that were not read in time
// are merged as by [Subscribe]. The channel is closed by [Cache.Close].
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

// Close ends the channel that [Cache.Updates] returned, if it was called. Get, Set
// and Remove go on working.
func (c *Cache) Close() {
	c.updatesOnce.Do(func() {
		c.updates, c.stopUpdates = make(chan Update), func() {}
		close(c.updates)
	})
	c.stopUpdates()
	c.pump.Wait()
}

// Subscribe returns the changes of all caches, from now until ctx ends, beginning
// with what they hold now. It is level-triggered: a change that was not read before
// the next one of the same kind and container is replaced by it. Of a container that
// was removed a late reader gets the last result and the removal. The sequence is for
// one reader; any number of subscriptions may exist. A reader that stops reading must
// end ctx: until then what it has not read is kept, some 200 bytes a container.
func Subscribe(ctx context.Context, caches ...*Cache) iter.Seq[Update] {
	q := newQueue()
	for _, c := range caches {
		c.attach(q)
	}
	detach := func() {
		for _, c := range caches {
			c.detach(q)
		}
	}
	stop := context.AfterFunc(ctx, detach)
	return func(yield func(Update) bool) {
		for {
			u, ok := q.next(ctx)
			if !ok {
				return
			}
			if !yield(u) {
				stop()
				detach()
				return
			}
		}
	}
}

// attach makes q a reader, beginning with what the cache holds. A change that is made
// meanwhile is told by itself, or seen in its shard, or both.
func (c *Cache) attach(q *queue) {
	c.attaching.Lock()
	defer c.attaching.Unlock()
	c.queues.Store(new(append(slices.Clone(*c.queues.Load()), q)))
	for i := range c.shards {
		c.shards[i].tell(c.kind, q)
	}
}

// tell puts everything that s holds into q.
func (s *cacheShard) tell(kind probe.Kind, q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, e := range s.entries {
		q.put(e.update(kind, id))
	}
}

func (c *Cache) detach(q *queue) {
	c.attaching.Lock()
	defer c.attaching.Unlock()
	kept := slices.DeleteFunc(slices.Clone(*c.queues.Load()), func(o *queue) bool { return o == q })
	c.queues.Store(&kept)
}
