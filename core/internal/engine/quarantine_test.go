package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/core/internal/engine"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// resting is the error of a handler that has quarantined its probe.
type resting struct {
	until   time.Time
	skipped bool
}

func (r resting) Error() string {
	if r.skipped {
		return "resting: trap"
	}
	return "trap"
}
func (r resting) Is(target error) bool        { return r.skipped && target == probe.ErrNoSlot }
func (r resting) QuarantinedUntil() time.Time { return r.until }

func TestQuarantine(t *testing.T) {
	bubble(t, "quarantine has one event and counted skips, and keeps the decided result", func(t *testing.T) {
		until := time.Now().Add(time.Minute)
		rests := probetest.Error(resting{until: until})
		skips := probetest.Error(resting{until: until, skipped: true})
		again := probetest.Error(resting{until: until.Add(time.Minute)})
		r := newRig(t, probe.Readiness, success, rests, rests, rests, skips, skips, again, again, again, skips, failure).run()
		r.tick()
		tick := r.lastTick()
		if !tick.Quarantined.Equal(until) || tick.Counted {
			t.Errorf("got %+v", tick)
		}
		text := "in quarantine until " + until.UTC().Format(time.RFC3339) + ": trap"
		if s := r.w.Status(); s.Quarantine != text || !s.QuarantinedSince.Equal(tick.Start) {
			t.Errorf("status %q since %s, want %q since %s", s.Quarantine, s.QuarantinedSince, text, tick.Start)
		}
		for range 4 {
			r.tick()
		}
		if got := r.skips(worker.SkipQuarantine); got != 3 || r.skips(worker.SkipNoSlot) != 0 {
			t.Errorf("%d skipped in quarantine, %d for want of a slot", got, r.skips(worker.SkipNoSlot))
		}
		r.wantCached(results.Success)
		var told []string
		for _, e := range r.sent() {
			if strings.HasPrefix(e, "ProbeQuarantined: ") {
				told = append(told, e)
			}
		}
		if len(told) != 1 || told[0] != "ProbeQuarantined: Readiness probe is "+text {
			t.Errorf("events %q", told)
		}
		if s := r.w.Status(); s.Quarantine != "resting: trap" || !s.QuarantinedSince.Equal(tick.Start) {
			t.Errorf("status %q since %s", s.Quarantine, s.QuarantinedSince)
		}
		r.tick()
		if s := r.w.Status(); s.Quarantine != "" || !s.QuarantinedSince.IsZero() || !r.lastTick().Quarantined.IsZero() {
			t.Errorf("after a verdict: status %q", s.Quarantine)
		}
		r.wantCached(results.Failure)
	})
	bubble(t, "a long error is cut", func(t *testing.T) {
		long := &probe.Error{Reason: probe.ReasonTrap, Err: fmt.Errorf("%w%s", resting{until: time.Now().Add(time.Minute)}, strings.Repeat("x", 1<<20))}
		r := newRig(t, probe.Readiness, probetest.Error(long)).run()
		tick := r.lastTick()
		if n := len(tick.Err.Error()); n != probe.MaxOutput || probe.ReasonOf(tick.Err) != probe.ReasonTrap || !errors.Is(tick.Err, long) {
			t.Errorf("an error of %d bytes, reason %s", n, probe.ReasonOf(tick.Err))
		}
		if n := len(r.w.Status().Quarantine); n > probe.MaxOutput+100 {
			t.Errorf("a quarantine with a text of %d bytes", n)
		}
		for _, e := range r.sent() {
			if len(e) > probe.MaxOutput+200 {
				t.Errorf("an event of %d bytes: %.100s", len(e), e)
			}
		}
	})
	bubble(t, "quarantine that another probe began has its event at the first skip", func(t *testing.T) {
		skips := probetest.Error(resting{until: time.Now(), skipped: true})
		r := newRig(t, probe.Liveness, skips, skips).run()
		r.tick()
		if got := r.sent(); len(got) != 1 || got[0] != "ProbeQuarantined: Liveness probe is resting: trap" {
			t.Errorf("events %q", got)
		}
		if len(r.ticks) != 0 {
			t.Errorf("%d ticks observed", len(r.ticks))
		}
	})
	bubble(t, "missing slot does not end a quarantine, a new handler does", func(t *testing.T) {
		rests := probetest.Error(resting{until: time.Now()})
		noSlot := probetest.Error(probe.ErrNoSlot)
		r := newRig(t, probe.Readiness, rests, rests, rests, noSlot).run()
		r.tick()
		if r.w.Status().Quarantine == "" {
			t.Error("the quarantine is over")
		}
		r.w.Update(engine.Change{Setup: r.cfg.Setup, KeepRun: true})
		if r.w.Status().Quarantine == "" {
			t.Error("another spec ended the quarantine")
		}
		r.w.Update(engine.Change{Setup: r.cfg.Setup})
		if got := r.w.Status().Quarantine; got != "" {
			t.Errorf("still %s", got)
		}
	})
}
