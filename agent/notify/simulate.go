package notify

import (
	"log/slog"
	"time"

	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// Simulation tells which messages receivers would get for changes of the past, or for made-up ones. Its
// receivers decide as a [Notifier] does, with the times of the changes for a clock, and accept each message
// at once. It sends nothing. It is not safe for concurrent use.
type Simulation struct {
	// Labels returns the labels of a pod or a target by the UID in the changes. nil: probes have no labels. It must
	// be set before the first change.
	Labels func(podUID string) map[string]string

	notifier *Notifier
	sent     func(*format.Message)
	clocks   []*clock
	exists   map[Key]bool
}

// clock says when a receiver makes its next step.
type clock struct {
	*receiver
	at       time.Time // zero: when it is woken
	settling bool      // it was woken, and collects more changes until at
	woken    bool      // since the last step
}

// NewSimulation returns a simulation of the receivers of a configuration, whose time is start. It calls sent for
// each message, in the order of time.
func NewSimulation(c *config.Notify, start time.Time, sent func(*format.Message)) *Simulation {
	s := &Simulation{sent: sent, exists: make(map[Key]bool)}
	s.notifier = New(Config{Log: slog.New(slog.DiscardHandler), Exists: func(k Key) bool { return s.exists[k] }, Labels: s.labels})
	s.notifier.Set("", c)
	for _, r := range s.notifier.receivers {
		r.takeOver()
		s.clocks = append(s.clocks, &clock{receiver: r, at: start})
	}
	return s
}

// labels implements [Config].Labels.
func (s *Simulation) labels(podUID, _ string, _ probe.Kind) (labels map[string]string, ok bool) {
	if s.Labels == nil {
		return nil, false
	}
	return s.Labels(podUID), true
}

// Change advances the simulation to the time of a change, which must not be before the last one, and adds the
// change.
func (s *Simulation) Change(c *states.Change) {
	s.Advance(c.Time)
	s.exists[Key{c.Info.Namespace, c.Info.Pod, c.Info.Container, c.Info.Kind}] = !c.Removed
	s.notifier.Changed(c)
	s.wake(c.Time)
}

// Maintain advances the simulation, and records that a probe is in a maintenance window from now on, or no more.
func (s *Simulation) Maintain(i *worker.Info, in bool, now time.Time) {
	s.Advance(now)
	s.notifier.Maintain(i, in, nil, now)
	s.wake(now)
}

// wake wakes the receivers that have something to apply.
func (s *Simulation) wake(now time.Time) {
	for _, r := range s.clocks {
		if len(r.dirty) > 0 && len(r.receiver.wake) > 0 {
			<-r.receiver.wake
			r.wakeAt(now)
		}
	}
}

// Advance runs the receivers until a time.
func (s *Simulation) Advance(until time.Time) {
	for {
		var first *clock
		for _, r := range s.clocks {
			if !r.at.IsZero() && !r.at.After(until) && (first == nil || r.at.Before(first.at)) {
				first = r
			}
		}
		if first == nil {
			return
		}
		s.step(first, first.at)
	}
}

// wakeAt does what a change does to the wait of a receiver.
func (r *clock) wakeAt(now time.Time) {
	if r.settling {
		r.woken = true
		return
	}
	r.settling, r.at = true, now.Add(settleTime)
}

// step makes the steps of a receiver at a time, until it waits.
func (s *Simulation) step(r *clock, now time.Time) {
	for {
		groups, m, items, at := r.receiver.step(now)
		if m == nil {
			r.at, r.settling = at, false
			break
		}
		r.sending = false
		r.book.delivered(groups, items, now)
		s.sent(m)
	}
	if !r.at.IsZero() && !r.at.After(now) {
		r.at = now.Add(time.Nanosecond) // due at once: time must go on
	}
	if r.woken {
		r.woken = false
		r.wakeAt(now)
	}
}
