package group

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// Explanation is the state of a probe, why its decided result is what it is, and what happened
// inside its past ticks.
type Explanation struct {
	Status // without History
	// Summary is one sentence: why the last tick did or did not change the decided result, and
	// what comes next. Its durations count from now.
	Summary string
	Ticks   []TickTrace // newest first; empty where no history is kept
}

// TickTrace is a past tick with what happened inside its attempts, and what the thresholds made of
// it.
type TickTrace struct {
	TickStatus
	Reason   probe.Reason  // "" if no reason of the list fits, or it is not kept any more
	Deferred time.Duration // how long its attempts waited for a slot; not part of the duration

	Counted   bool           // whether the thresholds counted it
	CountedAs string         // "success" or "failure"; "" if they did not
	Run       int            // consecutive equal results, with it
	RunBefore int            // and without it
	Threshold int            // the Run that decides; 0 if it was not counted
	Before    results.Result // decided
	After     results.Result // decided
	OnHold    bool           // no attempts followed until the container ID changed

	// Events are what happened. They are kept for the last tick, and for those before it as far as
	// the budget allows: first for those that were not a success.
	Events  []probe.TraceEvent
	Dropped int // events beyond the limits of a tick
}

// Explain returns the explanation of a probe.
func (g *Group[K]) Explain(id ID[K]) (Explanation, bool) {
	e := g.entry(id)
	if e == nil {
		return Explanation{}, false
	}
	x := Explanation{Status: Status{Status: e.Worker.Status()}}
	x.Last = e.record.latest()
	x.showQuarantine()
	var of lastTick
	x.Ticks, of = e.record.traces(&g.memory)
	d := explain.Decision{
		Kind: x.Info.Kind, SuccessThreshold: x.Spec.SuccessThreshold, FailureThreshold: x.Spec.FailureThreshold,
		Restarts: !e.Task().NoRestart, Task: !g.pods, Decided: x.Decided.Word(), Gate: x.Gate, Next: x.Next, Window: x.Window, Skipped: string(of.skipped),
	}
	if len(x.Ticks) > 0 && of.containerID == x.ContainerID {
		d.Last = x.Ticks[0].decided()
	}
	x.Summary = d.Sentence(time.Now())
	return x, true
}

// decided returns what the tick decided.
func (t *TickTrace) decided() *explain.Tick {
	return &explain.Tick{
		HostTrouble: t.Reason.OfHost(), Result: t.Result, Error: t.Error != "", Counted: t.Counted, Run: t.Run, Threshold: t.Threshold,
		As: t.CountedAs, Before: t.Before.Word(), After: t.After.Word(),
	}
}

// lastTick is what a record knows of the last tick besides its outcome.
type lastTick struct {
	containerID string
	skipped     worker.SkipReason // of the ticks since then; "" if none was skipped
}

// traces returns all ticks that are kept, newest first.
func (r *record) traces(h *history) (all []TickTrace, last lastTick) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.budget == 0 || r.rest == nil {
		return nil, last
	}
	if status := r.latestLocked(); status != nil {
		all = make([]TickTrace, r.rest.ticks+1)
		all[0] = encodedTick(r.last).trace()
		all[0].TickStatus = *status
	}
	at := 0
	for i := len(all) - 1; i > 0; i-- {
		e := encodedTick(r.rest.past[at:])
		all[i] = e.trace()
		at += e.size()
	}
	return all, r.rest.of
}

// skip notes that a tick was skipped.
func (r *record) skip(reason worker.SkipReason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restLocked().of.skipped = reason
}

// foldSize is the size of what [appendFold] appends.
const foldSize = 1 + 3*4

// appendFold appends what the thresholds made of t: flags and results, and three counts.
func appendFold(b []byte, t *worker.Tick) []byte {
	flags := two(t.Result)<<2 | two(t.Before)<<4 | two(t.After)<<6
	if t.Counted {
		flags |= 1
	}
	if t.OnHold {
		flags |= 2
	}
	b = append(b, flags)
	for _, n := range [...]int{t.Run, t.RunBefore, t.Threshold} {
		b = binary.LittleEndian.AppendUint32(b, uint32(min(int64(n), math.MaxUint32)))
	}
	return b
}

// two returns r in two bits.
func two(r results.Result) byte { return byte(r) & 3 }

// traceTypes are the types of events; their indexes are encoded.
var traceTypes = [...]probe.TraceType{"", probe.TracePhase, probe.TraceCall, probe.TraceLog, probe.TraceDenied, probe.TraceWait, probe.TraceRetry}

// appendTrace appends the reason of t and its events, and nothing if it has neither.
func appendTrace(b []byte, t *worker.Tick) []byte {
	reason := t.Outcome.Reason
	if t.Err != nil {
		if reason = probe.ReasonOf(t.Err); reason == probe.ReasonInternal {
			reason = "" // it tells nothing
		}
	}
	var events []probe.TraceEvent
	dropped := 0
	if t.Trace != nil {
		events, dropped = t.Trace.Events, t.Trace.Dropped
	}
	if reason == "" && t.Deferred == 0 && len(events) == 0 {
		return b
	}
	b = appendText(b, string(reason))
	b = binary.AppendUvarint(b, uint64(t.Deferred))
	b = binary.AppendUvarint(b, uint64(dropped))
	for i := range events {
		e := &events[i]
		b = append(b, typeIndex(e.Type))
		b = appendText(appendText(b, e.Name), e.Detail)
		b = binary.AppendUvarint(b, uint64(max(e.Duration, 0)))
	}
	return b
}

func typeIndex(t probe.TraceType) byte {
	for i := range traceTypes {
		if traceTypes[i] == t {
			return byte(i)
		}
	}
	return 0
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decoder reads what [appendTrace] wrote.
type decoder []byte

func (d *decoder) number() uint64 {
	n, size := binary.Uvarint(*d)
	*d = (*d)[size:]
	return n
}

func (d *decoder) duration() time.Duration { return time.Duration(d.number()) }

func (d *decoder) text() string {
	n := d.number()
	s := string((*d)[:n])
	*d = (*d)[n:]
	return s
}

// trace returns the tick with what is kept of its trace.
func (e encodedTick) trace() TickTrace {
	t := TickTrace{TickStatus: e.status()}
	more := e.more()
	if len(more) < foldSize {
		return t
	}
	result := func(shift int) results.Result { return results.Result(more[0] >> shift & 3) }
	t.Counted, t.OnHold, t.Before, t.After = more[0]&1 != 0, more[0]&2 != 0, result(4), result(6)
	if t.Counted {
		t.CountedAs = result(2).Word()
	}
	count := func(at int) int { return int(binary.LittleEndian.Uint32(more[at:])) }
	t.Run, t.RunBefore, t.Threshold = count(1), count(5), count(9)
	d := decoder(more[foldSize:])
	if len(d) == 0 {
		return t
	}
	t.Reason, t.Deferred, t.Dropped = probe.Reason(d.text()), d.duration(), int(d.number())
	for len(d) > 0 {
		kind := traceTypes[d[0]]
		d = d[1:]
		t.Events = append(t.Events, probe.TraceEvent{Type: kind, Name: d.text(), Detail: d.text(), Duration: d.duration()})
	}
	return t
}
