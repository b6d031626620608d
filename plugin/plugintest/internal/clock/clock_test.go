package clock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/plugin/plugintest/internal/clock"
)

// schedule calls At for events out of order, and returns the calls in their order and time.
func schedule(t *testing.T, c clock.Clock) string {
	t.Helper()
	start := c.Now()
	var mu sync.Mutex // the calls of a Real are made by timers
	var calls []string
	at := func(name string, d time.Duration) {
		c.At(start.Add(d), func() {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, name+" "+c.Now().Sub(start).String())
		})
	}
	at("c", 2*time.Second)
	at("a", time.Second)
	at("b", time.Second)
	at("now", 0)
	at("late", time.Minute)
	if c.Wait(t.Context(), nil, 5*time.Second) {
		t.Error("Wait reports that it was woken")
	}
	mu.Lock()
	defer mu.Unlock()
	return strings.Join(append(calls, "end "+c.Now().Sub(start).String()), ", ")
}

func TestEventsRunInOrder(t *testing.T) {
	const want = "now 0s, a 1s, b 1s, c 2s, end 5s"
	if got := schedule(t, clock.NewVirtual(clock.NewLimit(time.Minute))); got != want {
		t.Errorf("virtual: got %s, want %s", got, want)
	}
	synctest.Test(t, func(t *testing.T) {
		if got := schedule(t, &clock.Real{}); got != want {
			t.Errorf("real: got %s, want %s", got, want)
		}
	})
}

func TestVirtualWait(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name  string
		ctx   context.Context
		event time.Duration // that signals; 0 for none
		wait  time.Duration
		woken bool
		now   time.Duration // afterwards
	}{
		{"nothing happens", t.Context(), 0, time.Second, false, time.Second},
		{"a signal", t.Context(), time.Second, time.Minute, true, time.Second},
		{"a signal without a bound", t.Context(), time.Hour, -1, true, time.Hour},
		{"a signal after the end", t.Context(), time.Minute, time.Second, false, time.Second},
		{"an ended context", ended, 0, time.Second, false, 0},
	} {
		v := clock.NewVirtual(clock.NewLimit(time.Minute))
		wake := make(chan struct{}, 1)
		if c.event > 0 {
			v.At(clock.Epoch.Add(c.event), func() { wake <- struct{}{} })
		}
		if got := v.Wait(c.ctx, wake, c.wait); got != c.woken || v.Now().Sub(clock.Epoch) != c.now {
			t.Errorf("%s: got %v at %v, want %v at %v", c.name, got, v.Now().Sub(clock.Epoch), c.woken, c.now)
		}
	}
}

// TestVirtualFollowsPeersInRealTime has a peer that acts after a second of real time, which the bubble passes.
func TestVirtualFollowsPeersInRealTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := clock.NewVirtual(clock.NewLimit(time.Hour))
		v.Follow(1)
		acted := 0
		// await waits as a host does: it may be woken without a reason. It checks the time that it takes.
		await := func(ctx context.Context, what string, ready func() bool, most, want time.Duration) {
			t.Helper()
			start, begun := v.Now(), time.Now()
			for !ready() && v.Wait(ctx, make(chan struct{}), most-v.Now().Sub(start)) {
			}
			if virtual, real := v.Now().Sub(start), time.Since(begun); virtual != want || real != want {
				t.Errorf("%s: %v, and %v of real time, want %v", what, virtual, real, want)
			}
		}
		once, never := func() bool { return acted == 1 }, func() bool { return false }
		go func() {
			time.Sleep(time.Second)
			v.At(v.Now(), func() { acted++ })
		}()
		await(t.Context(), "an action", once, time.Minute, time.Second)
		await(t.Context(), "a bound", never, 2*time.Second, 2*time.Second)
		v.At(v.Now().Add(time.Second), func() { acted++ })
		await(t.Context(), "an event", func() bool { return acted == 2 }, time.Minute, time.Second)
		ctx, cancel := v.WithTimeout(t.Context(), time.Second)
		defer cancel()
		await(ctx, "a deadline", never, time.Minute, time.Second)
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("got %v", ctx.Err())
		}
		v.Follow(-1)
		begun := time.Now()
		v.Wait(t.Context(), nil, time.Hour)
		if took := time.Since(begun); took != 0 {
			t.Errorf("without peers, a wait took %v of real time", took)
		}
	})
}

func TestVirtualStartAtDropsEvents(t *testing.T) {
	v := clock.NewVirtual(clock.NewLimit(time.Minute))
	v.At(clock.Epoch.Add(time.Second), func() { t.Error("the event is called") })
	v.StartAt(clock.Epoch.Add(time.Hour))
	v.Wait(t.Context(), nil, time.Second)
	if got := v.Now().Sub(clock.Epoch); got != time.Hour+time.Second {
		t.Errorf("it is %v later", got)
	}
}

func TestVirtualStartAtGoesBackWithoutTimeouts(t *testing.T) {
	v := clock.NewVirtual(clock.NewLimit(time.Minute))
	start := clock.Epoch.Add(time.Hour)
	v.StartAt(start)
	_, cancel := v.WithTimeout(t.Context(), time.Hour)
	v.StartAt(clock.Epoch)
	if got := v.Now(); !got.Equal(start) {
		t.Errorf("with an open timeout: got %v, want no step back", got)
	}
	cancel()
	v.StartAt(clock.Epoch)
	if got := v.Now(); !got.Equal(clock.Epoch) {
		t.Errorf("without a timeout: got %v, want %v", got, clock.Epoch)
	}
}

func TestVirtualTimeout(t *testing.T) {
	v := clock.NewVirtual(clock.NewLimit(time.Minute))
	ctx, cancel := v.WithTimeout(t.Context(), time.Second)
	defer cancel()
	inner, cancelInner := v.WithTimeout(ctx, time.Hour)
	defer cancelInner()
	if deadline, _ := inner.Deadline(); !deadline.Equal(clock.Epoch.Add(time.Second)) {
		t.Errorf("the inner deadline is %v, want the outer one", deadline)
	}
	v.Wait(ctx, nil, -1)
	if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) || v.Now().Sub(clock.Epoch) != time.Second {
		t.Errorf("got %v at %v", err, v.Now())
	}
}

func TestVirtualTimeoutEndsAtLimit(t *testing.T) {
	limit := clock.NewLimit(5 * time.Second)
	if was := limit.Exceeded(); was != 5*time.Second {
		t.Errorf("the limit was %v", was)
	}
	if was := limit.Exceeded(); was != 2*time.Second {
		t.Errorf("the limit was reduced to %v", was)
	}
	ctx, cancel := clock.NewVirtual(clock.NewLimit(time.Millisecond)).WithTimeout(t.Context(), time.Hour)
	defer cancel()
	<-ctx.Done()
	if err := ctx.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that real time ended it", err)
	}
}
