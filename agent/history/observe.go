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

// intake receives ticks and changes. mu is held for operations on maps and slices only.
type intake struct {
	mu      sync.Mutex
	live    map[id]*observed
	queue   []change
	lost    bool   // a change was dropped: the writer must compare the states of all probes
	dropped uint64 // number of changes
	ended   bool   // the agent is stopping: ends of probes are not recorded
	signal  chan struct{}
}

// id identifies a live probe.
type id struct {
	uid, container string
	kind           probe.Kind
}

func idOf(i *worker.Info) id { return id{i.PodUID, i.Container, i.Kind} }

// change is a change of a probe: its begin, its end, a new state, or whether its time is spared.
type change struct {
	probe        *observed
	begins, ends bool
	marks        bool // the time from at on is spared, or not
	spared       bool
	state        record.State
	at           int64
	handler      string
	reason, text string
}

// observed is a live probe. More than one worker may observe it while its spec is replaced.
type observed struct {
	in  *intake
	key record.Key
	id  id

	mu     sync.Mutex // held by the tick of this probe, and for a moment by the writer
	counts record.Counts
	max    uint32 // microseconds, like sum
	sum    uint64
	hour   durations // since the last hour was stored
	// Guarded by in.mu: the state that Changed last set.
	workers int
	handler string
	state   record.State
	since   int64
	spared  bool

	// The fields below are owned by the writer.
	series  *series
	decided record.State
	exempt  bool // its time is spared
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
		in.addLocked(change{probe: o, begins: true, at: o.since, handler: o.handler})
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
	if c.Forced {
		return // its time counts as the state of before, as a pause does
	}
	again := c.From == c.To && !c.Removed
	if again && c.To != states.Unknown {
		return // only the cause differs
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
		state = record.Unknown // until the worker ends, or its replacement decides
	}
	if !again {
		o.state, o.since = state, c.Time.UnixMilli()
	}
	o.handler = c.Info.Handler
	in.addLocked(change{probe: o, state: state, at: c.Time.UnixMilli(), handler: o.handler, reason: c.Reason, text: clip.Text(c.Text, maxText)})
}

// Spare records that reports count the time of a probe from now on for no state, or for its state again. The probe
// must be observed already.
func (s *Store) Spare(i *worker.Info, spared bool) {
	in := &s.intake
	in.mu.Lock()
	defer in.mu.Unlock()
	o := in.live[idOf(i)]
	if o == nil || in.ended || o.spared == spared {
		return
	}
	o.spared = spared
	in.addLocked(change{probe: o, marks: true, spared: spared, at: time.Now().UnixMilli()})
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
		in.addLocked(change{probe: o, ends: true, at: time.Now().UnixMilli()})
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
	o.hour.add(t)
	o.mu.Unlock()
}

// resultOf returns the result of the last attempt of a tick.
func resultOf(t *worker.Tick) record.State {
	switch {
	case t.Err != nil && t.Counted && t.Result == results.Failure:
		return record.Failure // an error that counts as a failure
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

// addHourTo adds the durations since the last hour was stored to sum. If ends is set, the next hour begins.
func (o *observed) addHourTo(sum *durations, ends bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	sum.merge(&o.hour)
	if ends {
		o.hour.clear()
	}
}

// end makes the intake ignore changes and ends from now on, as the agent is stopping.
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
		in.queue = nil // it grew in an outage: free the memory
	}
	in.queue = in.queue[:0]
	lost, in.lost = in.lost, false
	return into, lost
}

// liveProbe is a live probe with a copy of its state.
type liveProbe struct {
	*observed
	handler string
	state   record.State
	since   int64
	spared  bool
}

// probes returns the live probes.
func (in *intake) probes() []liveProbe {
	in.mu.Lock()
	defer in.mu.Unlock()
	all := make([]liveProbe, 0, len(in.live))
	for _, o := range in.live {
		all = append(all, liveProbe{o, o.handler, o.state, o.since, o.spared})
	}
	return all
}

// drops returns how many changes were dropped.
func (in *intake) drops() uint64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.dropped
}

// has reports whether a live probe belongs to the series.
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
