package history

import (
	"math"
	"sync"
	"time"

	"github.com/daeace23/prober/agent/history/record"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/probe"
)

const (
	maxQueue = 1 << 14 // changes that wait for the writer
	maxText  = 256     // bytes of the text of a change
)

// intake is what ticks write to. mu is held for operations of maps and slices only.
type intake struct {
	mu      sync.Mutex
	live    map[id]*observed
	queue   []change
	lost    bool   // a change was not queued: the states of all must be compared
	dropped uint64 // changes
	ended   bool   // the probes are being stopped, which is no change
	signal  chan struct{}
}

// id identifies a probe that exists.
type id struct {
	uid, container string
	kind           probe.Kind
}

func idOf(i *worker.Info) id { return id{i.PodUID, i.Container, i.Kind} }

// change is a change of a probe: it begins, it ends, or it has another state.
type change struct {
	of           *observed
	begins, ends bool
	state        record.State
	at           int64
	handler      string
	reason, text string
}

// observed is a probe that exists. More than one worker may observe it while its spec is replaced.
type observed struct {
	in  *intake
	key record.Key
	id  id

	mu     sync.Mutex // held by the tick of this probe, and for a moment by the writer
	counts record.Counts
	max    uint32 // microseconds, as sum
	sum    uint64
	// Guarded by in.mu: the state as it was told last.
	workers int
	handler string
	state   record.State
	since   int64

	// The writer owns what follows.
	series  *series
	decided record.State
}

var _ worker.ProbeObserver = (*observed)(nil)

// Observe implements [worker.Observer].
func (s *Store) Observe(info worker.Info) worker.ProbeObserver {
	return s.intake.observe(info, time.Now())
}

func (in *intake) observe(info worker.Info, now time.Time) *observed {
	in.mu.Lock()
	defer in.mu.Unlock()
	key := idOf(&info)
	o := in.live[key]
	if o == nil {
		o = &observed{
			in: in, id: key, handler: info.Handler, since: now.UnixMilli(),
			key: record.Key{Namespace: info.Namespace, Pod: info.Pod, Container: info.Container, Kind: info.Kind},
		}
		in.live[key] = o
		in.addLocked(change{of: o, begins: true, at: o.since, handler: o.handler})
	}
	o.workers++
	return o
}

// addLocked queues a change.
func (in *intake) addLocked(c change) {
	if len(in.queue) >= maxQueue {
		in.lost = true
		in.dropped++
		return
	}
	in.queue = append(in.queue, c)
	select {
	case in.signal <- struct{}{}:
	default:
	}
}

// Changed implements [states.Reader].
func (s *Store) Changed(c *states.Change) {
	again := c.From == c.To && !c.Removed
	if again && c.To != states.Unknown {
		return // another cause
	}
	in := &s.intake
	in.mu.Lock()
	defer in.mu.Unlock()
	o := in.live[idOf(&c.Info)]
	if o == nil || in.ended {
		return
	}
	state := record.State(c.To)
	if c.Removed {
		state = record.Unknown // until the worker ends too, or the one that replaces it decides
	}
	if !again {
		o.state, o.since = state, c.Time.UnixMilli()
	}
	o.handler = c.Info.Handler
	in.addLocked(change{of: o, state: state, at: c.Time.UnixMilli(), handler: o.handler, reason: c.Reason, text: clip.Text(c.Text, maxText)})
}

// Close implements [worker.ProbeObserver].
func (o *observed) Close() {
	in := o.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if o.workers--; o.workers > 0 {
		return
	}
	delete(in.live, o.id)
	if !in.ended {
		in.addLocked(change{of: o, ends: true, at: time.Now().UnixMilli()})
	}
}

// Skipped implements [worker.ProbeObserver].
func (*observed) Skipped(worker.SkipReason, int) {}

// Tick implements [worker.ProbeObserver].
func (o *observed) Tick(t *worker.Tick) {
	took := max(t.Duration().Microseconds(), 0)
	o.mu.Lock()
	if n := &o.counts[resultOf(t)]; *n < math.MaxUint16 {
		*n++
		o.sum += uint64(took)
		o.max = max(o.max, uint32(min(took, math.MaxUint32)))
	}
	o.mu.Unlock()
}

// resultOf returns the result of the last attempt of a tick.
func resultOf(t *worker.Tick) record.State {
	switch {
	case t.Err != nil && t.Counted && t.Result == results.Failure:
		return record.Failure // an error that counts as one
	case t.Err != nil:
		return record.Unknown
	}
	switch t.Outcome.Result {
	case probe.Success:
		return record.Success
	case probe.Warning:
		return record.Warning
	case probe.Failure:
		return record.Failure
	default:
		return record.Unknown
	}
}

// take returns the aggregate of the ticks since the last call.
func (o *observed) take() (counts record.Counts, sum uint64, longest uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	counts, sum, longest = o.counts, o.sum, o.max
	o.counts, o.sum, o.max = record.Counts{}, 0, 0
	return counts, sum, longest
}

// end ends the changes: what happens from now on is the end of the agent.
func (in *intake) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
}

// drain moves the queued changes to into, and reports whether some were lost.
func (in *intake) drain(into []change) (_ []change, lost bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	into = append(into, in.queue...)
	clear(in.queue)
	if cap(in.queue) > 1024 {
		in.queue = nil // it was an outage
	}
	in.queue = in.queue[:0]
	lost, in.lost = in.lost, false
	return into, lost
}

// existing is a probe that exists, and its state.
type existing struct {
	*observed
	handler string
	state   record.State
	since   int64
}

// all returns the probes that exist.
func (in *intake) all() []existing {
	in.mu.Lock()
	defer in.mu.Unlock()
	all := make([]existing, 0, len(in.live))
	for _, o := range in.live {
		all = append(all, existing{o, o.handler, o.state, o.since})
	}
	return all
}

// drops returns how many changes were not queued.
func (in *intake) drops() uint64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.dropped
}

// has reports whether a probe of a series exists.
func (in *intake) has(key *record.Key) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, o := range in.live {
		if o.key == *key {
			return true
		}
	}
	return false
}
