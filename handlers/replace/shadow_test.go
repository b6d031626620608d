package replace_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/handlers/replace"
	"github.com/daeace23/prober/handlers/shadow"
	"github.com/daeace23/prober/probe"
)

// answering is a handler that calls a function.
type answering func(ctx context.Context) (probe.Outcome, error)

func (a answering) Probe(ctx context.Context, _ probe.Request) (probe.Outcome, error) { return a(ctx) }

func always(r probe.Result, err error) answering {
	return func(context.Context) (probe.Outcome, error) { return probe.Outcome{Result: r}, err }
}

var request = probe.Request{Attempt: 1, Spec: probe.Spec{Timeout: time.Second}}

// TestShadowAndUnshadow checks that the shadow runs on the first attempt of a tick, and is closed at its end.
func TestShadowAndUnshadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := handlerWith(t, &version{number: 1}, replace.Config{})
		a, b := prepareProbe(t, s, "{}"), prepareProbe(t, s, "{}")
		v2 := &version{number: 2, hold: make(chan struct{})}
		if err := s.Shadow(t.Context(), v2); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for _, attempt := range []int{1, 2, 3} {
			req := request
			req.Attempt = attempt
			_, errA := a.Probe(t.Context(), req)
			_, errB := b.Probe(t.Context(), req)
			if err := errors.Join(errA, errB); err != nil {
				t.Error(err)
			}
		}
		s.Unshadow()
		if took := time.Since(start); took != 0 || s.HasShadow() {
			t.Errorf("took %s, shadow %v", took, s.HasShadow())
		}
		synctest.Wait()
		if v2.closed.Load() {
			t.Error("closed during an attempt")
		}
		close(v2.hold)
		synctest.Wait()
		if !v2.closed.Load() || v2.ended.Load() != v2.prepared.Load() || s.Shadowing().Agree != 2 {
			t.Errorf("closed %v, %d of %d ended, %+v", v2.closed.Load(), v2.ended.Load(), v2.prepared.Load(), s.Shadowing())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestPromote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v1, v2 := &version{number: 1}, &version{number: 2, refuses: "bad"}
		s := handlerWith(t, v1, replace.Config{})
		a := prepareProbe(t, s, `{}`)
		if err := s.Promote(t.Context()); !errors.Is(err, replace.ErrNoShadow) {
			t.Errorf("got %v", err)
		}
		if err := s.Shadow(t.Context(), v2); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"v1 {} 1", "v1 {} 2", "v1 {} 3"} {
			wantAnswer(t, a, want)
		}
		synctest.Wait()
		bad := prepareProbe(t, s, `{"bad":1}`) // a shadow that refuses a config cannot be promoted
		if err := s.Promote(t.Context()); err == nil || current(s) != v1 || !s.HasShadow() {
			t.Errorf("got %v, %v, has shadow: %v", err, current(s), s.HasShadow())
		}
		probe.Release(bad)
		if err := s.Promote(t.Context()); err != nil || current(s) != v2 || s.HasShadow() || generation(s) != 2 {
			t.Errorf("got %v, %v, has shadow: %v", err, current(s), s.HasShadow())
		}
		synctest.Wait()
		wantAnswer(t, a, "v2 {} 4") // with the store of the previous handler
		if !v1.closed.Load() || v2.closed.Load() {
			t.Errorf("closed: %v, %v; want the old one", v1.closed.Load(), v2.closed.Load())
		}
		if err := s.Close(); err != nil || !v2.closed.Load() {
			t.Error(err)
		}
		if got := s.Shadowing(); got != (shadow.Counts{Agree: 3, Errors: 1}) {
			t.Errorf("got %+v", got)
		}
		if v1.ended.Load() != v1.prepared.Load() || v2.ended.Load() != v2.prepared.Load() {
			t.Errorf("released %d of %d and %d of %d", v1.ended.Load(), v1.prepared.Load(), v2.ended.Load(), v2.prepared.Load())
		}
	})
}

// calling calls a function in Prepare.
type calling struct {
	answering
	meanwhile func()
}

func (m calling) Prepare([]byte, probe.Target) (probe.Handler, error) {
	m.meanwhile()
	return m, nil
}

// TestUnshadowWaitsForPromote checks that Unshadow does not end a version that is being promoted.
func TestUnshadowWaitsForPromote(t *testing.T) {
	s := handlerWith(t, always(probe.Failure, nil), replace.Config{})
	defer s.Close()
	h := prepareProbe(t, s, "{}")
	call := func() {}
	if err := s.Shadow(t.Context(), calling{always(probe.Success, nil), func() { call() }}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	call = func() {
		go func() {
			defer close(ended)
			s.Unshadow()
		}()
		select {
		case <-ended:
		case <-time.After(50 * time.Millisecond): // Unshadow waits for the promotion
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
