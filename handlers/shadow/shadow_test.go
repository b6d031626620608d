package shadow_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/handlers/shadow"
	"github.com/daeace23/prober/probe"
)

var (
	errTrap  = &probe.Error{Reason: probe.ReasonTrap, Err: errors.New("trap")}
	errStart = &probe.Error{Reason: probe.ReasonInstantiate, Err: errors.New("cannot start")}

	request = probe.Request{Attempt: 1, Spec: probe.Spec{Timeout: time.Second}}
)

func always(r probe.Result, err error) probe.HandlerFunc {
	return func(context.Context, probe.Request) (probe.Outcome, error) { return probe.Outcome{Result: r}, err }
}

func TestProbeComparesAnswers(t *testing.T) {
	hangs := func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
		<-ctx.Done()
		return probe.Outcome{}, ctx.Err()
	}
	panics := func(context.Context, probe.Request) (probe.Outcome, error) { panic("oops") }
	for _, c := range []struct {
		name            string
		decides, shadow probe.HandlerFunc
		want            shadow.Counts
	}{
		{"agree", always(probe.Success, nil), always(probe.Success, nil), shadow.Counts{Agree: 1}},
		{"disagree", always(probe.Success, nil), always(probe.Warning, nil), shadow.Counts{Disagree: 1}},
		{"both in error", always(0, errTrap), always(0, errStart), shadow.Counts{Agree: 1}},
		{"shadow in error", always(probe.Failure, nil), always(0, errTrap), shadow.Counts{Errors: 1}},
		{"shadow panics", always(probe.Failure, nil), panics, shadow.Counts{Errors: 1}},
		{"decider in error", always(0, errTrap), always(probe.Success, nil), shadow.Counts{Disagree: 1}},
		{"deadline is a failure", always(probe.Failure, nil), hangs, shadow.Counts{Agree: 1}},
		{"shadow has no slot", always(probe.Failure, nil), always(0, probe.ErrNoSlot), shadow.Counts{Skipped: 1}},
		{"tick skipped", always(0, probe.ErrNoSlot), always(probe.Success, nil), shadow.Counts{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var comparison shadow.Comparison
				start, done := time.Now(), 0
				want, wantErr := c.decides(t.Context(), request)
				got, err := comparison.Probe(t.Context(), request, c.decides, c.shadow, func() { done++ })
				if got.Result != want.Result || err != wantErr || time.Since(start) != 0 {
					t.Errorf("got %v, %v after %s; want %v, %v at once", got.Result, err, time.Since(start), want.Result, wantErr)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := comparison.Counts(); got != c.want || done != 1 {
					t.Errorf("got %+v, done %d times; want %+v", got, done, c.want)
				}
			})
		})
	}
}

func TestProbePanicsWithDecider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var comparison shadow.Comparison
		panics := probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) { panic("oops") })
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_, _ = comparison.Probe(t.Context(), request, panics, always(probe.Success, nil), func() {})
		}()
		synctest.Wait()
		if got := comparison.Counts(); got != (shadow.Counts{}) {
			t.Errorf("got %+v", got)
		}
	})
}

// TestProbeSkipsWhenBusy checks that a slow shadow makes fewer attempts.
func TestProbeSkipsWhenBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var comparison shadow.Comparison
		hold := make(chan struct{})
		slow := probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			<-hold
			return probe.Outcome{Result: probe.Success}, nil
		})
		start := time.Now()
		var done atomic.Int32
		for range 10 {
			if _, err := comparison.Probe(t.Context(), request, always(probe.Success, nil), slow, func() { done.Add(1) }); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(start); took != 0 || comparison.Counts().Skipped != 2 || done.Load() != 2 {
			t.Errorf("took %s, %+v, %d done", took, comparison.Counts(), done.Load())
		}
		close(hold)
		synctest.Wait()
		if got := comparison.Counts(); got != (shadow.Counts{Agree: 8, Skipped: 2}) || done.Load() != 10 {
			t.Errorf("got %+v, %d done", got, done.Load())
		}
	})
}

func TestCountsLess(t *testing.T) {
	now, earlier := shadow.Counts{Agree: 5, Disagree: 4, Errors: 3, Skipped: 2}, shadow.Counts{Agree: 1, Disagree: 1, Errors: 1, Skipped: 1}
	if got := now.Less(earlier); got != (shadow.Counts{Agree: 4, Disagree: 3, Errors: 2, Skipped: 1}) || got.Compared() != 9 {
		t.Errorf("got %+v, %d compared", got, got.Compared())
	}
}
