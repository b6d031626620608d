package states

import (
	"sync"
	"time"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// tracked is the state of one probe. The probe's ticks own it: they alone change it, and hold mu then.
type tracked struct {
	tracker *Tracker
	info    worker.Info
	told    bool // readers know of the probe

	mu    sync.Mutex
	rule  Rule
	since time.Time
	why   *why // nil for a success, and before the first attempt
}

var _ worker.GateObserver = (*tracked)(nil)

// Tick implements [worker.ProbeObserver].
func (p *tracked) Tick(t *worker.Tick) {
	p.info.Handler = t.Handler
	next := p.rule.Tick(t)
	if next == p.rule && next.State() == Success {
		return
	}
	failed := t.Err != nil || t.Outcome.Result != probe.Success
	p.step(next, causeOf(t), failed, t.End)
}

// Gated implements [worker.GateObserver].
func (p *tracked) Gated(gate worker.Gate) {
	if next := p.rule.Gated(gate); next != p.rule {
		p.step(next, ended, true, time.Now())
	}
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
	if p.told {
		p.tracker.tell(&Change{Info: p.info, From: p.rule.State(), Since: p.since, Time: time.Now(), Removed: true})
	}
}

// step sets the rule after what ended at now, and tells what has changed. failed means that c is the cause of
// a state that is not a success.
func (p *tracked) step(next Rule, c Cause, failed bool, now time.Time) {
	from, since := p.rule.State(), p.since
	to := next.State()
	var was Cause
	if p.why != nil && p.told && to != from {
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
	case to != from, !p.told && next.Blind(): // a probe that decides nothing from its start on is told once
	case p.told && p.why != nil && p.why.lasts(now):
	default:
		return
	}
	if !p.told {
		p.told = true
		p.tracker.live.add(p)
	}
	change := Change{Info: p.info, From: from, To: to, Since: since, Time: now, Was: was}
	if p.why != nil {
		p.why.told = p.why.cause()
		change.Cause = p.why.told
	} else {
		text, mark := cut(c.Text)
		change.Cause = Cause{c.Reason, text + mark}
	}
	p.tracker.tell(&change)
}

// noteLocked notes the cause of an attempt.
func (p *tracked) noteLocked(c Cause, now time.Time) {
	w := p.why
	if w == nil {
		w = &why{since: now}
		p.why = w
	} else if !w.alike(c) {
		w.ticks, w.since = 0, now
	}
	w.ticks++
	if !w.is(c) {
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
	return s
}

// key identifies a probe.
type key struct {
	podUID, container string
	kind              probe.Kind
}

func keyOf(i *worker.Info) key { return key{i.PodUID, i.Container, i.Kind} }

// live has the probes that readers know of, and of two with one key the one that has told last: a probe that
// is replaced is there beside its successor for a while. The zero value is empty.
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

func (l *live) forget(p *tracked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := keyOf(&p.info); l.probes[k] == p {
		delete(l.probes, k)
	}
}

// Of returns the state of the probe of a container. It waits for no tick.
func (t *Tracker) Of(podUID, container string, kind probe.Kind) Status {
	t.live.mu.RLock()
	p := t.live.probes[key{podUID, container, kind}]
	t.live.mu.RUnlock()
	if p == nil {
		return Status{}
	}
	return p.status()
}
