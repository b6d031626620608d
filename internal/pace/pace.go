// Package pace spaces attempts in time, with [Jitter], [Doubled] and [Wait], and limits their rate, with [Bucket].
package pace

import (
	"context"
	"math/rand/v2"
	"time"
)

// Jitter returns a random duration from least to most, so that actions that began at the same time spread out.
func Jitter(least, most time.Duration) time.Duration { return least + rand.N(most-least+1) }

// Doubled returns first, doubled the given number of times, and at most most.
func Doubled(first, most time.Duration, times int) time.Duration {
	for ; times > 0 && first < most; times-- {
		first *= 2
	}
	return min(first, most)
}

// Seconds returns n seconds: 0 if n is negative, and at most 68 years. A [time.Duration] can hold 292 years, so that a
// sum of three results does not overflow.
func Seconds(n int64) time.Duration {
	const most = 1 << 31
	return time.Duration(min(max(n, 0), most)) * time.Second
}

// Wait waits for d, for wake, which may be nil, or for the end of ctx. It reports whether wake came first.
func Wait(ctx context.Context, wake <-chan struct{}, d time.Duration) (woken bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-wake:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// Rate is the rate of a [Bucket]: at most Burst tokens, with one more every Every.
type Rate struct {
	Burst int
	Every time.Duration
}

// Bucket is a token bucket that is refilled at a [Rate]. The zero value is full.
type Bucket struct {
	full  time.Time // when it is full again
	taken time.Time // when the last token was taken
}

// Next returns the time from which a token is available. It may be in the past.
func (b Bucket) Next(r Rate) time.Time { return b.full.Add(-time.Duration(r.Burst-1) * r.Every) }

// Full reports whether the bucket is full.
func (b Bucket) Full(now time.Time) bool { return !b.full.After(now) }

// Take returns b with one token less, even if it has none.
func (b Bucket) Take(r Rate, now time.Time) Bucket {
	if b.Full(now) {
		b.full = now
	}
	return Bucket{b.full.Add(r.Every), now}
}

// Return returns b with one token more, after a Take.
func (b Bucket) Return(r Rate) Bucket {
	if b.full = b.full.Add(-r.Every); !b.full.After(b.taken) {
		return Bucket{} // also if the clock was set back
	}
	return b
}
