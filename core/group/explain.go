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

// Explanation is the state of a probe, the reason for its decided result, and the events of its past ticks.
type Explanation struct {
	Status // without History
	// Summary is one sentence: why the last tick did or did not change the decided result, and what happens
	// next. Its durations are relative to now.
	Summary string
	Ticks   []TickTrace // newest first; empty without a history
}

// TickTrace is a past tick with the events of its attempts, and its effect on the thresholds.
type TickTrace struct {
	TickStatus
	Reason   probe.Reason  // "" if no reason of the list applies, or if it was dropped
	Deferred time.Duration // how long attempts waited for a slot; not part of Duration

	Counted   bool           // the thresholds counted the tick
	CountedAs string         // "success" or "failure"; "" if not counted
	Run       int            // consecutive equal results, including this one
	RunBefore int            // the same, excluding this one
	Threshold int            // length of the run that decides; 0 if not counted
	Before    results.Result // decided result before the tick
	After     results.Result // decided result after the tick
	OnHold    bool           // no attempts followed until the container ID changed

	// Events has the events of the attempts. They are kept for the last tick, and for earlier ticks within
	// the budget. Those of ticks that did not succeed are preferred.
	Events  []probe.TraceEvent
	Dropped int // number of events beyond the limits of a tick
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
	var last lastTick
	x.Ticks, last = e.record.traces(&g.memory)
	d := explain.Decision{
		Kind: x.Info.Kind, SuccessThreshold: x.Spec.SuccessThreshold, FailureThreshold: x.Spec.FailureThreshold,
		Restarts: !e.Task().NoRestart, Task: !g.pods, Decided: x.Decided.Word(), Gate: x.Gate, Next: x.Next, Window: x.Window, Skipped: string(last.skipped),
	}
	if len(x.Ticks) > 0 && last.containerID == x.ContainerID {
		d.Last = x.Ticks[0].decided()
	}
	x.Summary = d.Sentence(time.Now())
	return x, true
}

// decided returns the decision of the tick.
func (t *TickTrace) decided() *explain.Tick {
	return &explain.Tick{
		HostTrouble: t.Reason.OfHost(), Dependency: t.Reason == probe.ReasonDependency, Result: t.Result, Error: t.Error != "", Counted: t.Counted, Run: t.Run, Threshold: t.Threshold,
		As: t.CountedAs, Before: t.Before.Word(), After: t.After.Word(),
	}
}

// lastTick is the state after the last tick, besides its outcome.
type lastTick struct {
	containerID string
	skipped     worker.SkipReason // reason of the ticks skipped since then; "" if none
}

// traces returns all kept ticks, newest first.
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
	return all, r.rest.lastTick
}

// skip records that a tick was skipped.
func (r *record) skip(reason worker.SkipReason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restLocked().lastTick.skipped = reason
}

// foldSize is the number of bytes that [appendFold] appends.
const foldSize = 1 + 3*4

// appendFold appends the effect of t on the thresholds: flags with results, and three counts.
func appendFold(b []byte, t *worker.Tick) []byte {
	flags := twoBits(t.Result)<<2 | twoBits(t.Before)<<4 | twoBits(t.After)<<6
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

// twoBits returns r in two bits.
func twoBits(r results.Result) byte { return byte(r) & 3 }

// traceTypes are the types of events. Their indexes are encoded.
var traceTypes = [...]probe.TraceType{"", probe.TracePhase, probe.TraceCall, probe.TraceLog, probe.TraceDenied, probe.TraceWait, probe.TraceRetry}

// appendTrace appends the reason, the deferred time and the events of t. It appends nothing if t has none
// of these.
func appendTrace(b []byte, t *worker.Tick) []byte {
	reason := t.Outcome.Reason
	if t.Err != nil {
		if reason = probe.ReasonOf(t.Err); reason == probe.ReasonInternal {
			reason = "" // carries no information
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

// decoder decodes the output of [appendTrace].
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

// trace returns the tick with the kept part of its trace.
func (e encodedTick) trace() TickTrace {
	t := TickTrace{TickStatus: e.status()}
	more := e.extra()
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
