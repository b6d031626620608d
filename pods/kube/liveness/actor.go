package liveness

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/pace"
)

const (
	measureEvery           = time.Second
	minSettle              = time.Second // minimum delay of an action, for related failures to appear
	maxSettle              = 10 * time.Second
	recheck                = 10 * time.Second
	maxActions             = 4           // at once
	maxActionsPerNamespace = 3           // so that others get a slot
	longAction             = time.Minute // an action that takes longer does not count for these limits
)

// Reasons of events, or their endings; see loop.recordOnce.
const (
	eventKilling  = "Killing"
	eventPreStop  = "FailedPreStopHook"
	eventEvicted  = "ProbeEvicted"
	eventFailed   = "Failed"
	eventRefused  = "Refused"
	eventWithheld = "Withheld"
)

// pending is a failure that is not resolved.
type pending struct {
	Failure
	key      key
	restarts int32
	acted    bool
	hooked   bool            // its preStop hook has run, but the breaker has opened meanwhile
	running  bool            // an action is in progress
	settled  time.Time       // no action before this time, so that related failures appear first
	blocked  time.Time       // no action before this time, by a PodDisruptionBudget or another pod of the workload
	blocks   int             // consecutive times that the action was blocked
	next     time.Time       // time of the next decision
	reason   string          // reason of the last wait
	recorded map[string]bool // events, by ending of the reason
	counted  map[string]bool // by reason of Counts.Withheld
}

// loop is the state that the goroutine of Run owns.
type loop struct {
	*Actor
	breaker *breaker
	guards  guards
	pending map[key]*pending
	begun   map[types.UID]action // actions in progress, by pod
	done    chan outcome
	running sync.WaitGroup
}

// action has the start and the namespace of an action in progress.
type action struct {
	begun     time.Time
	namespace string
}

// outcome is the result of an action.
type outcome struct {
	task *task
	err  error
}

// Run acts on failures until ctx ends, which also ends the actions in progress. Failures that are
// left are forgotten: the probes of the next agent decide them again.
func (a *Actor) Run(ctx context.Context) {
	l := &loop{
		Actor: a, breaker: newBreaker(&a.cfg, a.log), pending: map[key]*pending{}, begun: map[types.UID]action{}, done: make(chan outcome),
		guards: guards{cfg: &a.cfg, workloads: map[types.UID]pace.Bucket{}, backoffs: map[key]backoff{}, served: map[string]time.Time{}},
	}
	defer l.running.Wait()
	ticks := time.NewTicker(measureEvery)
	defer ticks.Stop()
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-due.C:
		case o := <-l.done:
			l.ended(o, time.Now())
		case <-ticks.C:
			l.breaker.measure()
			l.guards.forget(time.Now())
		}
		l.step(ctx, time.Now())
		due.Reset(l.untilNext(time.Now()))
	}
}

// step reads the inbox, and decides about the failures that are due.
func (l *loop) step(ctx context.Context, now time.Time) {
	l.mu.Lock()
	in := l.inbox
	l.inbox = inbox{}
	l.mu.Unlock()
	for i := range in.changes {
		l.breaker.changed(&in.changes[i])
	}
	for i := range in.failures {
		f := &in.failures[i]
		l.add(f, now)
		if l.cfg.Failing(f.Pod.UID, f.Container, f.Kind) {
			l.breaker.fails(f.Pod.UID, probeKey{f.Container, f.Kind}, now)
		}
	}
	before := l.Doubts()
	doubts := l.breaker.check(now)
	if !maps.Equal(doubts, before) {
		l.open.Store(&doubts)
	}
	var due []*pending
	for _, p := range l.pending {
		scope := scopeOf(p.Pod)
		closed := p.reason == WithheldBreaker && before.About(scope).Open != "" && doubts.About(scope).Open == ""
		if !p.running && (closed || !now.Before(p.next)) {
			due = append(due, p)
		}
	}
	for len(due) > 0 { // least recently served namespace first
		first := slices.MinFunc(due, func(a, b *pending) int {
			return cmp.Or(l.guards.served[a.Pod.Namespace].Compare(l.guards.served[b.Pod.Namespace]), a.settled.Compare(b.settled),
				cmp.Compare(a.key.uid, b.key.uid), cmp.Compare(a.key.container, b.key.container))
		})
		due = slices.DeleteFunc(due, func(p *pending) bool { return p == first })
		l.decide(ctx, first, now)
	}
}

// untilNext returns the time until the next decision.
func (l *loop) untilNext(now time.Time) time.Duration {
	next := now.Add(recheck)
	for _, p := range l.pending {
		if !p.running && p.next.Before(next) {
			next = p.next
		}
	}
	return next.Sub(now)
}

// add adds a pending failure. A further failure of the same container updates it.
func (l *loop) add(f *Failure, now time.Time) {
	k := key{f.Pod.UID, f.Container}
	if p := l.pending[k]; p != nil && p.ContainerID == f.ContainerID {
		p.Kind, p.Grace, p.Mode, p.Text = f.Kind, f.Grace, f.Mode, f.Text
		return
	}
	p := &pending{
		Failure: *f, key: k, restarts: -1, settled: now.Add(settleTime(f.Period)), recorded: map[string]bool{}, counted: map[string]bool{},
	}
	p.next = p.settled
	if s := statusNamed(&f.Pod.Status, f.Container); s != nil && s.ContainerID == f.ContainerID {
		p.restarts = s.RestartCount
	}
	l.pending[k] = p
}

// settleTime returns the delay of an action after a failure of a probe with the given period. Probes that
// fail for the same reason fail within one period.
func settleTime(period time.Duration) time.Duration {
	return min(max(period, minSettle), maxSettle) + pace.Jitter(0, minSettle/2)
}

// decide calls the function decide for a failure, and carries out the decision.
func (l *loop) decide(ctx context.Context, p *pending, now time.Time) {
	s := l.situation(p, now)
	d := decide(s, now)
	p.reason = d.reason
	if d.reason != "" {
		l.withheld(p, d.reason)
	}
	switch d.do {
	case drop:
		delete(l.pending, p.key)
		if d.reason == WithheldOnFailure || d.reason == WithheldUnavailable {
			l.recordOnce(p, s.pod, v1.EventTypeWarning, eventRefused, d.text)
		}
	case wait:
		p.next = d.until
		if latest := now.Add(recheck); p.next.After(latest) {
			p.next = latest
		}
		if d.reason != "" {
			again := "it is tried again at " + d.until.UTC().Format(time.RFC3339)
			if d.reason == WithheldBreaker {
				again = "it is tried again when the breaker closes"
			}
			l.recordOnce(p, s.pod, v1.EventTypeWarning, eventWithheld, d.text+"; "+again)
		}
	case act:
		l.act(ctx, p, s.pod, d.order, now)
	}
}

// situation returns the input of a decision about a failure.
func (l *loop) situation(p *pending, now time.Time) *situation {
	held := false
	if l.cfg.Asked != nil {
		p.Mode, held = l.cfg.Asked(p.key.uid, p.Container, p.Kind)
	}
	s := &situation{
		held:    held || p.Mode != Restart && p.Mode != Evict,
		failure: &p.Failure, restarts: p.restarts, acted: p.acted, pod: l.cfg.Current(p.key.uid),
		failing: l.cfg.Failing(p.key.uid, p.Container, p.Kind), open: l.Doubts().About(scopeOf(p.Pod)).Open, onFailure: l.cfg.OnFailure,
		possible: p.Mode == Restart && l.cfg.Stop != nil || p.Mode == Evict && l.cfg.Evict != nil,
		settled:  p.settled, blocked: p.blocked,
	}
	s.owned = true
	if l.cfg.Owner != nil {
		uid, ok := l.cfg.Owner(p.ContainerID)
		s.owned = ok && uid == p.key.uid
	}
	busy, own := 0, 0
	for _, a := range l.begun {
		if now.Sub(a.begun) < longAction {
			busy++
			if a.namespace == p.Pod.Namespace {
				own++
			}
		}
	}
	_, s.busy = l.begun[p.key.uid]
	s.noSlot = busy >= maxActions || own >= maxActionsPerNamespace
	if s.pod != nil {
		l.guards.fill(s, p.key, workloadOf(s.pod))
	}
	return s
}

// withheld counts a withheld action, once for each failure and reason.
func (l *loop) withheld(p *pending, reason string) {
	if !p.counted[reason] {
		p.counted[reason] = true
		l.count(func(c *Counts) { c.Withheld[reason]++ })
	}
}

// recordOnce records an event about an action, at most once for each failure and ending. The reason of the event is
// the action followed by ending, such as ProbeRestartRefused.
func (l *loop) recordOnce(p *pending, pod *v1.Pod, eventType, ending, text string) {
	if p.recorded[ending] {
		return
	}
	p.recorded[ending] = true
	action, subject := "Restart", "container "+p.Container+" is not restarted"
	if p.Mode == Evict {
		action, subject = "Evict", "the pod is not evicted"
	}
	l.event(&p.Failure, pod, eventType, "Probe"+action+ending, fmt.Sprintf("The %s probe of container %s fails, and %s: %s", p.Kind, p.Container, subject, text))
}

// event records an event about the container of a failure. pod may be nil.
func (a *Actor) event(f *Failure, pod *v1.Pod, eventType, reason, message string) {
	if a.cfg.Recorder == nil {
		return
	}
	_, init := containerNamed(&cmp.Or(pod, f.Pod).Spec, f.Container)
	const maxMessage = 1 << 10 // bytes
	a.cfg.Recorder.Event(manager.ContainerReference(f.Pod.Namespace, f.Pod.Name, f.Pod.UID, f.Container, init), eventType, reason, clip.Text(message, maxMessage))
}
