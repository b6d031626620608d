// Package pace spaces attempts out in time: [Jitter], [Doubled] and [Wait] between them, and a [Bucket] for all.
package pace

import (
	"context"
	"math/rand/v2"
	"time"
)

// Jitter returns a random duration from least to most, so that what began together does not go on together.
func Jitter(least, most time.Duration) time.Duration { return least + rand.N(most-least+1) }

// Doubled returns first, doubled so many times, and at most most.
func Doubled(first, most time.Duration, times int) time.Duration {
	for ; times > 0 && first < most; times-- {
		first *= 2
	}
	return min(first, most)
}

// Seconds returns n seconds: 0 if n is negative, and at most 68 years. A [time.Duration] has room for 292: a
// sum of three does not overflow either.
func Seconds(n int64) time.Duration {
	const most = 1 << 31
	return time.Duration(min(max(n, 0), most)) * time.Second
}

// Wait waits for d, for wake, which may be nil, or for the end of ctx. It reports whether wake was first.
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

// Rate is at most Burst tokens at once, and one more every Every.
type Rate struct {
	Burst int
	Every time.Duration
}

// Bucket is a token bucket, which a [Rate] refills. The zero value is full.
type Bucket struct {
	full  time.Time // when it is full again
	taken time.Time // when the last token was taken
}

// Next returns when there is a token; it may be long ago.
func (b Bucket) Next(r Rate) time.Time { return b.full.Add(-time.Duration(r.Burst-1) * r.Every) }

// Full reports whether all tokens are there.
func (b Bucket) Full(now time.Time) bool { return !b.full.After(now) }

// Take returns b without a token, even if it has none.
func (b Bucket) Take(r Rate, now time.Time) Bucket {
	if b.Full(now) {
		b.full = now
	}
	return Bucket{b.full.Add(r.Every), now}
}

// Return returns b with a token that was taken.
func (b Bucket) Return(r Rate) Bucket {
	if b.full = b.full.Add(-r.Every); !b.full.After(b.taken) {
		return Bucket{} // also for a clock that is set back
	}
	return b
}
