package states

import (
	"sync"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// tracked is the state of one probe. Only the probe's ticks change it, and they hold mu when they do.
type tracked struct {
	tracker  *Tracker
	info     worker.Info
	reported bool // readers were notified of the probe

	mu    sync.Mutex
	rule  Rule
	since time.Time
	why   *why // nil in state success, and before the first attempt

	forced *forced // nil without a forced state
}

// forced is a forced state. It is immutable.
type forced struct {
	gate  worker.Gate
	since time.Time
}

// under returns the gate of the forced state, Open without one.
func (f *forced) under() worker.Gate {
	if f == nil {
		return worker.Open
	}
	return f.gate
}

var _ worker.GateObserver = (*tracked)(nil)

// Tick implements [worker.ProbeObserver].
func (p *tracked) Tick(t *worker.Tick) {
	p.info.Handler = t.Handler
	p.force(worker.Open)
	next := p.rule.Tick(t)
	if next == p.rule && next.State() == Success {
		return
	}
	failed := t.Err != nil || t.Outcome.Result != probe.Success
	p.step(next, causeOf(t), failed, t.End)
}

// Gated implements [worker.GateObserver].
func (p *tracked) Gated(gate worker.Gate) {
	p.force(gate)
	if next := p.rule.Gated(gate); next != p.rule {
		p.step(next, ended, true, time.Now())
	}
}

// force stores the gate of a forced state, and notifies readers of its begin and its end.
func (p *tracked) force(gate worker.Gate) {
	if _, ok := gate.Forced(); !ok {
		gate = worker.Open
	}
	if gate == p.forced.under() {
		return
	}
	from, now := p.status(), time.Now()
	var next *forced
	if gate != worker.Open {
		next = &forced{gate, now}
	}
	p.mu.Lock()
	p.forced = next
	p.mu.Unlock()
	if !p.reported {
		p.tracker.live.add(p)
	}
	to := p.status()
	p.tracker.notify(&Change{Info: p.info, From: from.State, To: to.State, Since: from.Since, Time: now, Cause: to.Cause, Was: from.Cause, Forced: true})
}

// Skipped implements [worker.ProbeObserver].
func (p *tracked) Skipped(reason worker.SkipReason, ticks int) {
	if next := p.rule.Skipped(reason, ticks); next != p.rule {
		p.step(next, Cause{string(probe.ReasonInternal), "the probe panicked"}, true, time.Now())
	}
}

// Close implements [worker.ProbeObserver].
func (p *tracked) Close() {
	p.tracker.live.forget(p)
	if p.reported {
		p.tracker.notify(&Change{Info: p.info, From: p.rule.State(), Since: p.since, Time: time.Now(), Removed: true})
	}
}

// step sets the rule after an event that ended at now, and notifies readers of changes. failed means that c
// is the cause of a state other than success.
func (p *tracked) step(next Rule, c Cause, failed bool, now time.Time) {
	from, since := p.rule.State(), p.since
	to := next.State()
	first := !p.reported && next.Decided() && to != Unknown // also if it is the initial state
	var was Cause
	if p.why != nil && p.reported && to != from {
		was = p.why.cause()
	}
	p.mu.Lock()
	p.rule = next
	if to != from {
		p.since = now
	}
	if to == Success || failed && to != from {
		p.why = nil
	}
	if to != Success && (failed || p.why == nil) {
		p.noteLocked(c, now)
	}
	p.mu.Unlock()
	switch {
	case to != from, first, !p.reported && next.Blind(): // a probe that has never decided anything is reported once
	case p.reported && p.why != nil && p.why.hasLasted(now):
	default:
		return
	}
	if !p.reported {
		p.reported, from = true, Unknown
		p.tracker.live.add(p)
	}
	change := Change{Info: p.info, From: from, To: to, Since: since, Time: now, Was: was}
	if p.why != nil {
		p.why.reported = p.why.cause()
		change.Cause = p.why.reported
	} else {
		text, mark := cut(c.Text)
		change.Cause = Cause{c.Reason, text + mark}
	}
	p.tracker.notify(&change)
}

// noteLocked records the cause of an attempt.
func (p *tracked) noteLocked(c Cause, now time.Time) {
	w := p.why
	if w == nil {
		w = &why{since: now}
		p.why = w
	} else if !w.alike(c) {
		w.ticks, w.since = 0, now
	}
	w.ticks++
	if !w.equal(c) {
		w.set(c)
	}
}

// status returns the state of p.
func (p *tracked) status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{State: p.rule.State(), Since: p.since}
	if p.why != nil {
		s.Cause = p.why.cause()
	}
	if p.forced == nil {
		return s
	}
	s.Forced, s.State = p.forced.gate, p.rule.Under(p.forced.gate)
	switch s.Forced {
	case worker.ForcedUp:
		s.Since, s.Cause = p.forced.since, Cause{}
	case worker.ForcedDown:
		s.Since, s.Cause = p.forced.since, Cause{string(results.Forced), s.Forced.String()}
	}
	return s
}

// key identifies a probe.
type key struct {
	podUID, container string
	kind              probe.Kind
}

func keyOf(i *worker.Info) key { return key{i.PodUID, i.Container, i.Kind} }

// live has the probes that readers were notified of. If two probes have the same key, it has the one that
// was reported last: a replaced probe exists beside its successor for a while. The zero value is empty.
type live struct {
	mu     sync.RWMutex
	probes map[key]*tracked
}

func (l *live) add(p *tracked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.probes == nil {
		l.probes = make(map[key]*tracked)
	}
	l.probes[keyOf(&p.info)] = p
}

// addNew adds a probe that readers were not notified of, unless there is one with the same key.
func (l *live) addNew(p *tracked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.probes == nil {
		l.probes = make(map[key]*tracked)
	}
	if k := keyOf(&p.info); l.probes[k] == nil {
		l.probes[k] = p
	}
}

func (l *live) forget(p *tracked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := keyOf(&p.info); l.probes[k] == p {
		delete(l.probes, k)
	}
}

// Of returns the state of the probe of a container. It does not wait for a tick.
func (t *Tracker) Of(podUID, container string, kind probe.Kind) Status {
	t.live.mu.RLock()
	p := t.live.probes[key{podUID, container, kind}]
	t.live.mu.RUnlock()
	if p == nil {
		return Status{}
	}
	return p.status()
}
