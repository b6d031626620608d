package probetest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

func TestHandlerFollowsItsScript(t *testing.T) {
	broken := errors.New("broken")
	h := probetest.NewHandler(
		probetest.Answer(probe.Warning, "slow"),
		probetest.Error(broken),
		probetest.Answer(probe.Failure, "down"),
	)
	type answer struct {
		Result probe.Result
		Output string
		Err    error
	}
	var got []answer
	for range 4 {
		o, err := h.Probe(t.Context(), probe.Request{})
		got = append(got, answer{o.Result, o.Output, err})
	}
	want := []answer{
		{probe.Warning, "slow", nil},
		{probe.Unknown, "", broken},
		{probe.Failure, "down", nil},
		{probe.Failure, "down", nil},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b error) bool { return a == b })); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	h.Then(probetest.Panic("boom"))
	defer func() {
		if r := recover(); r != "boom" {
			t.Errorf("recovered %v, want boom", r)
		}
		if h.Active() != 0 {
			t.Errorf("%d calls active after a panic", h.Active())
		}
	}()
	_, _ = h.Probe(t.Context(), probe.Request{})
}

func TestHandlerWithoutScriptSucceeds(t *testing.T) {
	got, err := probetest.NewHandler().Probe(t.Context(), probe.Request{})
	if err != nil || got.Result != probe.Success {
		t.Errorf("got %v, %v; want success", got.Result, err)
	}
}

func TestHandlerWaits(t *testing.T) {
	cases := []struct {
		name    string
		step    probetest.Step
		timeout time.Duration
		took    time.Duration
		result  probe.Result
	}{
		{"delay", probetest.Answer(probe.Success, "").After(time.Second), time.Minute, time.Second, probe.Success},
		{"delay beyond the deadline", probetest.Answer(probe.Success, "").After(time.Hour), time.Minute, time.Minute, probe.Failure},
		{"delay up to the deadline", probetest.Answer(probe.Success, "").After(time.Minute), time.Minute, time.Minute, probe.Failure},
		{"deaf", probetest.Step{Delay: time.Hour, Deaf: true}, time.Minute, time.Hour, probe.Unknown},
		{"hang", probetest.Hang(), time.Minute, time.Minute, probe.Failure},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := probetest.NewHandler(c.step)
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				start := time.Now()
				got, err := h.Probe(ctx, probe.Request{})
				if took := time.Since(start); err != nil || got.Result != c.result || took != c.took {
					t.Errorf("got %v, %v after %v; want %v after %v", got.Result, err, took, c.result, c.took)
				}
			})
		})
	}
}

func TestHandlerRecordsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := probetest.NewHandler(probetest.Hang())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		done := make(chan struct{})
		for i := range 2 {
			go func() {
				_, _ = h.Probe(ctx, probe.Request{Attempt: i + 1})
				done <- struct{}{}
			}()
			synctest.Wait()
		}
		if h.Active() != 2 || h.Count() != 2 {
			t.Errorf("%d of %d calls active; want 2 of 2", h.Active(), h.Count())
		}
		<-done
		<-done
		want := []probetest.Call{
			{Start: start, Timeout: time.Minute, Request: probe.Request{Attempt: 1}},
			{Start: start, Timeout: time.Minute, Request: probe.Request{Attempt: 2}},
		}
		if diff := cmp.Diff(want, h.Calls(), cmp.Comparer(func(a, b probe.Tracer) bool { return true })); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if h.Active() != 0 || h.Peak() != 2 {
			t.Errorf("%d active, peak %d; want 0, 2", h.Active(), h.Peak())
		}
	})
}
