package record

import (
	"math/bits"
	"time"
)

// Bucket is a duration on a scale with four buckets for each doubling. From 4 µs on, the middle of a bucket differs
// by at most 12.5 % from every duration in it. Buckets 0 to 3 have so many microseconds, and the last bucket has
// all durations from 2 hours on.
type Bucket uint8

// Buckets is the number of buckets.
const Buckets = 128

// BucketOf returns the bucket of a duration.
func BucketOf(d time.Duration) Bucket {
	us := uint64(max(d, 0) / time.Microsecond)
	if us < 4 {
		return Bucket(us)
	}
	top := bits.Len64(us) - 1
	return Bucket(min(4*(top-1)+int(us>>(top-2)&3), Buckets-1))
}

// Seconds returns the middle of the bucket.
func (b Bucket) Seconds() float64 {
	if b < 4 {
		return float64(b) / 1e6
	}
	width := float64(uint64(1) << (b/4 - 1))
	return (float64(4+b%4) + 0.5) * width / 1e6
}
