package pace_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/internal/pace"
)

func TestJitterIsWithinItsBounds(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 1000 {
		seen[pace.Jitter(3, 5)] = true
	}
	if len(seen) != 3 || !seen[3] || !seen[4] || !seen[5] || pace.Jitter(7, 7) != 7 {
		t.Errorf("got %v", seen)
	}
}

func TestDoubled(t *testing.T) {
	for times, want := range map[int]time.Duration{-1: 2, 0: 2, 1: 4, 2: 8, 3: 10, 1000: 10} {
		if got := pace.Doubled(2, 10, times); got != want {
			t.Errorf("%d times: got %d, want %d", times, got, want)
		}
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		wake, begun := make(chan struct{}), time.Now()
		if pace.Wait(ctx, wake, time.Minute) || time.Since(begun) != time.Minute {
			t.Errorf("waited for %v", time.Since(begun))
		}
		if pace.Wait(ctx, nil, 2*time.Hour) || time.Since(begun) != time.Hour {
			t.Errorf("waited until %v after the begin", time.Since(begun))
		}
		close(wake)
		if !pace.Wait(t.Context(), wake, time.Hour) || time.Since(begun) != time.Hour {
			t.Error("not woken")
		}
	})
}

func TestBucket(t *testing.T) {
	rate, start := pace.Rate{Burst: 3, Every: time.Second}, time.Now()
	var b pace.Bucket
	free := func(after time.Duration) (n int) {
		for c := b; !c.Next(rate).After(start.Add(after)); n++ {
			c = c.Take(rate, start.Add(after))
		}
		return n
	}
	check := func(after time.Duration, want int) {
		t.Helper()
		if got, full := free(after), b.Full(start.Add(after)); got != want || full != (want == rate.Burst) {
			t.Errorf("after %v: %d tokens, full %t; want %d", after, got, full, want)
		}
	}
	check(0, 3)
	b = b.Take(rate, start).Take(rate, start).Take(rate, start)
	check(0, 0)
	check(time.Second-1, 0)
	check(time.Second, 1)
	check(2*time.Second, 2)
	check(3*time.Second, 3)
	check(time.Hour, 3)
	b = b.Return(rate)
	check(0, 1)
	b = b.Take(rate, start).Take(rate, start) // one more than the burst
	check(time.Second, 0)
	check(2*time.Second, 1)
}

func TestSeconds(t *testing.T) {
	longest := time.Duration(1<<31) * time.Second
	for n, want := range map[int64]time.Duration{
		-1 << 63: 0, -1: 0, 0: 0, 1: time.Second, 1 << 31: longest, 1<<31 + 1: longest, 9223372036: longest, 9223372037: longest,
		18446744074: longest, 1<<63 - 1: longest,
	} {
		if got := pace.Seconds(n); got != want {
			t.Errorf("%d: got %v, want %v", n, got, want)
		}
	}
	if sum := 3 * longest; sum < longest {
		t.Errorf("three of the longest are %v", sum)
	}
}
