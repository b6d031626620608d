// Package measure has the statistics of the benchmarks, and reads the resources of processes from the kernel.
package measure

import (
	"math"
	"math/bits"
	"time"
)

// There are 64 buckets for each power of two nanoseconds, so a quantile is at most 1.6 % too high.
const buckets = 64 * 58

// Histogram counts how late ticks began. A tick that never ran is later than all others. The zero
// value is empty. It is not safe for concurrent use.
type Histogram struct {
	counts [buckets]uint64
	n      uint64 // including lost ticks
	lost   uint64
	max    time.Duration
}

// Add counts a tick that began d late. A negative d counts as 0.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucketOf(d)]++
	h.n++
	h.max = max(h.max, d)
}

// Lose counts ticks that never ran.
func (h *Histogram) Lose(ticks uint64) {
	h.n += ticks
	h.lost += ticks
}

// Merge adds the counts of o.
func (h *Histogram) Merge(o *Histogram) {
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.n += o.n
	h.lost += o.lost
	h.max = max(h.max, o.max)
}

// Count returns the number of ticks, including lost ones.
func (h *Histogram) Count() uint64 { return h.n }

// Lost returns the number of ticks that never ran.
func (h *Histogram) Lost() uint64 { return h.lost }

// Max returns the largest lag of a tick that ran.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile returns the lag that the share q of all ticks, from 0 to 1, does not exceed. It is 0
// for an empty histogram. ok is false if that many ticks did not run.
func (h *Histogram) Quantile(q float64) (lag time.Duration, ok bool) {
	if h.n == 0 {
		return 0, true
	}
	rank := uint64(math.Ceil(q * float64(h.n)))
	var sum uint64
	for i, c := range h.counts {
		if sum += c; c > 0 && sum >= rank {
			return min(upperBound(i), h.max), true
		}
	}
	return 0, false
}

// Milliseconds returns the quantile q in milliseconds; +Inf if that many ticks did not run.
func (h *Histogram) Milliseconds(q float64) float64 {
	lag, ok := h.Quantile(q)
	if !ok {
		return math.Inf(1)
	}
	return float64(lag) / 1e6
}

func bucketOf(d time.Duration) int {
	v := uint64(d)
	if v < 64 {
		return int(v)
	}
	shift := bits.Len64(v) - 7
	return (shift+1)<<6 + int(v>>shift)&63
}

// upperBound returns the largest lag of a bucket.
func upperBound(i int) time.Duration {
	if i < 64 {
		return time.Duration(i)
	}
	shift := i>>6 - 1
	return time.Duration((uint64(64+i&63)+1)<<shift - 1)
}
