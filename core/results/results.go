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
	"iter"
	"sync"

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

// Update is a change of a decided result.
type Update struct {
	Kind        probe.Kind
	ContainerID string
	Result      Result
	PodUID      string
}

// Cache holds the decided results of one kind of probe by container ID.
// It is safe for concurrent use.
type Cache struct {
	kind probe.Kind

	mu      sync.RWMutex
	entries map[string]cacheEntry
	queues  map[*queue]struct{}

	updatesOnce sync.Once
	updates     chan Update
	stopUpdates context.CancelFunc
	pump        sync.WaitGroup
}

type cacheEntry struct {
	result Result
	podUID string
}

// New returns an empty cache for probes of kind.
func New(kind probe.Kind) *Cache {
	return &Cache{kind: kind, entries: make(map[string]cacheEntry), queues: make(map[*queue]struct{})}
}

// Kind returns the kind that c was made for.
func (c *Cache) Kind() probe.Kind { return c.kind }

// Get returns the decided result of a container; ok is false when there is none.
func (c *Cache) Get(containerID string) (r Result, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok := c.entries[containerID]
	return e.result, ok
}

// Set decides the result of a container and reports whether that changed anything.
// Readers are told of changes only; the first result of a container is one. Set
// never blocks.
func (c *Cache) Set(containerID string, r Result, podUID string) (changed bool) {
	// Most ticks decide what was decided before: they share the lock.
	if old, ok := c.Get(containerID); ok && old == r {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[containerID]; ok && e.result == r {
		return false
	}
	c.entries[containerID] = cacheEntry{r, podUID}
	// Under the lock, so that no reader sees two changes in the wrong order.
	for q := range c.queues {
		q.put(Update{Kind: c.kind, ContainerID: containerID, Result: r, PodUID: podUID})
	}
	return true
}

// Remove forgets a container. It tells no one, and readers are not told of changes
// of that container that they have not read yet.
func (c *Cache) Remove(containerID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.entries[containerID]; !ok {
		return
	}
	delete(c.entries, containerID)
	for q := range c.queues {
		q.drop(queueKey{c.kind, containerID})
	}
}

// Updates returns the one channel of c's changes, for a reader that selects on it
// like the kubelet's sync loop. Changes of one container that were not read in time
// are merged into the newest. The channel is closed by [Cache.Close].
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
// the next one of the same kind and container is replaced by it, and a removed
// container's is dropped. The sequence is for one reader; any number of
// subscriptions may exist.
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

func (c *Cache) attach(q *queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, e := range c.entries {
		q.put(Update{Kind: c.kind, ContainerID: id, Result: e.result, PodUID: e.podUID})
	}
	c.queues[q] = struct{}{}
}

func (c *Cache) detach(q *queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.queues, q)
}
