package handlers_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/probe"
)

// answering is a plugin that answers as it is told.
type answering func(ctx context.Context) (probe.Outcome, error)

func (a answering) Probe(ctx context.Context, _ probe.Request) (probe.Outcome, error) { return a(ctx) }

func always(r probe.Result, err error) answering {
	return func(context.Context) (probe.Outcome, error) { return probe.Outcome{Result: r}, err }
}

var request = probe.Request{Attempt: 1, Spec: probe.Spec{Timeout: time.Second}}

func TestShadowIsCompared(t *testing.T) {
	hangs := answering(func(ctx context.Context) (probe.Outcome, error) {
		<-ctx.Done()
		return probe.Outcome{}, ctx.Err()
	})
	panics := answering(func(context.Context) (probe.Outcome, error) { panic("oops") })
	for _, c := range []struct {
		name            string
		decides, shadow answering
		want            handlers.Shadowing
	}{
		{"agree", always(probe.Success, nil), always(probe.Success, nil), handlers.Shadowing{Agree: 1}},
		{"disagree", always(probe.Success, nil), always(probe.Warning, nil), handlers.Shadowing{Disagree: 1}},
		{"agree on an error", always(0, errTrap), always(0, errStart), handlers.Shadowing{Agree: 1}},
		{"an error", always(probe.Failure, nil), always(0, errTrap), handlers.Shadowing{Errors: 1}},
		{"a panic", always(probe.Failure, nil), panics, handlers.Shadowing{Errors: 1}},
		{"one that decides less", always(0, errTrap), always(probe.Success, nil), handlers.Shadowing{Disagree: 1}},
		{"a deadline is a failure", always(probe.Failure, nil), hangs, handlers.Shadowing{Agree: 1}},
		{"the shadow has no slot", always(probe.Failure, nil), always(0, probe.ErrNoSlot), handlers.Shadowing{Skipped: 1}},
		{"the tick is skipped", always(0, probe.ErrNoSlot), always(probe.Success, nil), handlers.Shadowing{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := swapOf(t, c.decides, handlers.SwapConfig{})
				h := prepareProbe(t, s, "{}")
				if err := s.Shadow(t.Context(), c.shadow); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				if _, err := h.Probe(t.Context(), request); (err == nil) != (c.name != "agree on an error" && c.name != "one that decides less" && c.name != "the tick is skipped") {
					t.Errorf("got %v", err)
				}
				again := request
				again.Attempt = 2
				_, _ = h.Probe(t.Context(), again) // of the same tick
				if time.Since(start) != 0 {
					t.Errorf("delayed by %s", time.Since(start))
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if got := s.Shadowing(); got != c.want {
					t.Errorf("got %+v, want %+v", got, c.want)
				}
			})
		})
	}
}

// A shadow that is slow is asked less often, and delays nobody.
func TestShadowIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := swapOf(t, &version{number: 1}, handlers.SwapConfig{ShadowAttempts: 3})
		a, b := prepareProbe(t, s, "{}"), prepareProbe(t, s, "{}")
		slow := &version{number: 2, hold: make(chan struct{})}
		if err := s.Shadow(t.Context(), slow); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for range 5 {
			_, errA := a.Probe(t.Context(), request)
			_, errB := b.Probe(t.Context(), request)
			if err := errors.Join(errA, errB); err != nil {
				t.Error(err)
			}
		}
		if time.Since(start) != 0 || s.Shadowing().Skipped != 7 {
			t.Errorf("took %s, %+v", time.Since(start), s.Shadowing())
		}
		s.Unshadow()
		close(slow.hold)
		synctest.Wait()
		if !slow.closed.Load() || slow.ended.Load() != slow.prepared.Load() || s.Shadowing().Agree != 3 {
			t.Errorf("closed %v, %d of %d ended, %+v", slow.closed.Load(), slow.ended.Load(), slow.prepared.Load(), s.Shadowing())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestPromote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v1, v2 := &version{number: 1}, &version{number: 2, refuses: "bad"}
		s := swapOf(t, v1, handlers.SwapConfig{})
		a := prepareProbe(t, s, `{}`)
		if err := s.Promote(t.Context()); !errors.Is(err, handlers.ErrNoShadow) {
			t.Errorf("got %v", err)
		}
		if err := s.Shadow(t.Context(), v2); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"v1 {} 1", "v1 {} 2", "v1 {} 3"} {
			says(t, a, want)
		}
		synctest.Wait()
		bad := prepareProbe(t, s, `{"bad":1}`) // what the shadow does not take cannot be promoted
		if err := s.Promote(t.Context()); err == nil || s.Handler() != v1 || s.ShadowHandler() != v2 {
			t.Errorf("got %v, %v beside %v", err, s.ShadowHandler(), s.Handler())
		}
		probe.Release(bad)
		if err := s.Promote(t.Context()); err != nil || s.Handler() != v2 || s.ShadowHandler() != nil || s.Generation() != 2 {
			t.Errorf("got %v, %v beside %v", err, s.ShadowHandler(), s.Handler())
		}
		synctest.Wait()
		says(t, a, "v2 {} 4") // its store is that of the one that has decided
		if !v1.closed.Load() || v2.closed.Load() {
			t.Errorf("closed: %v, %v; want the old one", v1.closed.Load(), v2.closed.Load())
		}
		if err := s.Close(); err != nil || !v2.closed.Load() {
			t.Error(err)
		}
		if got := s.Shadowing(); got != (handlers.Shadowing{Agree: 3, Errors: 1}) {
			t.Errorf("got %+v", got)
		}
		if v1.ended.Load() != v1.prepared.Load() || v2.ended.Load() != v2.prepared.Load() {
			t.Errorf("released %d of %d and %d of %d", v1.ended.Load(), v1.prepared.Load(), v2.ended.Load(), v2.prepared.Load())
		}
	})
}

// meddling does something while it is prepared.
type meddling struct {
	answering
	meanwhile func()
}

func (m meddling) Prepare([]byte, probe.Target) (probe.Handler, error) {
	m.meanwhile()
	return m, nil
}

// Unshadow does not end a version that is being promoted: its probes would have a handler
// that is closed.
func TestUnshadowWhilePromoted(t *testing.T) {
	s := swapOf(t, always(probe.Failure, nil), handlers.SwapConfig{})
	defer s.Close()
	h := prepareProbe(t, s, "{}")
	meddle := func() {}
	if err := s.Shadow(t.Context(), meddling{always(probe.Success, nil), func() { meddle() }}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	meddle = func() {
		go func() {
			defer close(ended)
			s.Unshadow()
		}()
		select {
		case <-ended:
		case <-time.After(50 * time.Millisecond): // it waits for the promotion
		}
	}
	if err := s.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-ended
	if out, err := h.Probe(t.Context(), request); err != nil || out.Result != probe.Success {
		t.Errorf("got %v, %v", out, err)
	}
}
