// Package native counts durations in the buckets of a Prometheus native histogram. Only buckets with counts
// exist. [Counts] belongs to one probe and takes concurrent ticks. [Sum] adds up one or more Counts for a
// scrape.
package native

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// Schema is the schema of all histograms. It divides each power of two into 2^Schema buckets, so each bound
// is 9 % above the previous one.
const Schema = 3

// ZeroThreshold is the bound of the zero bucket, in seconds: the default of client_golang.
const ZeroThreshold = 2.938735877055719e-39

const perOctave = 1 << Schema

// bounds are the upper bounds of the buckets from 0.5 to 1, without 1: the literals of client_golang.
var bounds = [perOctave]float64{
	0.5, 0.5452538663326288, 0.5946035575013605, 0.6484197773255048,
	0.7071067811865475, 0.7711054127039704, 0.8408964152537144, 0.9170040432046711,
}

// index returns the bucket of a duration above 0. Bucket i ends with 2^(i/8) s, inclusive.
func index(d time.Duration) int {
	fraction, exponent := math.Frexp(d.Seconds())
	i, _ := slices.BinarySearch(bounds[:], fraction)
	return i + (exponent-1)*perOctave
}

// zeroOctave is the octave of the zero bucket.
const zeroOctave = math.MinInt8

// octave has the counts of the buckets between two powers of two. It is a node of a linked list, and takes
// 48 bytes.
type octave struct {
	next   *octave // read-only
	counts [perOctave]atomic.Uint32
	number int8 // read-only
}

// Counts has the counts of one histogram. It takes 48 bytes for each octave with a duration: mostly two or
// three octaves, at most 65. The zero value is empty. It is safe for concurrent use.
type Counts struct{ first atomic.Pointer[octave] }

// Add counts a duration. A negative duration counts as 0.
func (c *Counts) Add(d time.Duration) {
	if d <= 0 {
		c.bucket(zeroOctave, 0).Add(1)
		return
	}
	i := index(d)
	c.bucket(int8(i>>Schema), i&(perOctave-1)).Add(1)
}

// bucket returns a bucket of an octave, and adds the octave if necessary.
func (c *Counts) bucket(number int8, i int) *atomic.Uint32 {
	for {
		first := c.first.Load()
		for o := first; o != nil; o = o.next {
			if o.number == number {
				return &o.counts[i]
			}
		}
		o := &octave{next: first, number: number}
		if c.first.CompareAndSwap(first, o) {
			return &o.counts[i]
		}
	}
}

// AddAll adds the counts of o.
func (c *Counts) AddAll(o *Counts) {
	for from := o.first.Load(); from != nil; from = from.next {
		for i := range from.counts {
			if n := from.counts[i].Load(); n > 0 {
				c.bucket(from.number, i).Add(n)
			}
		}
	}
}

// Bucket is a bucket with counts. It ends with 2^(Index/8) s, inclusive.
type Bucket struct {
	Index int
	Count uint64
}

// Sum is the sum of several [Counts]. Reset keeps its memory for reuse.
type Sum struct {
	Zero    uint64
	Buckets []Bucket // sorted by Index; empty buckets are left out
}

// Reset empties s.
func (s *Sum) Reset() { s.Zero, s.Buckets = 0, s.Buckets[:0] }

// Add adds the counts of c.
func (s *Sum) Add(c *Counts) {
	for o := c.first.Load(); o != nil; o = o.next {
		if o.number == zeroOctave {
			s.Zero += uint64(o.counts[0].Load())
			continue
		}
		for i := range o.counts {
			if n := o.counts[i].Load(); n > 0 {
				s.add(int(o.number)<<Schema+i, uint64(n))
			}
		}
	}
}

func (s *Sum) add(index int, n uint64) {
	at, found := slices.BinarySearchFunc(s.Buckets, index, func(b Bucket, index int) int { return b.Index - index })
	if !found {
		s.Buckets = slices.Insert(s.Buckets, at, Bucket{Index: index})
	}
	s.Buckets[at].Count += n
}

// Count returns the number of durations.
func (s *Sum) Count() uint64 {
	n := s.Zero
	for _, b := range s.Buckets {
		n += b.Count
	}
	return n
}

// Span is a sequence of buckets without a large gap.
type Span struct {
	Offset int32 // distance from the end of the previous span; for the first span, the index of its first bucket
	Length uint32
}

// maxGap is the largest number of consecutive empty buckets inside a span, as in client_golang.
const maxGap = 2

// Spans appends the spans of the buckets to spans. It appends to deltas the difference of each bucket's
// count from the previous bucket's.
func (s *Sum) Spans(spans []Span, deltas []int64) ([]Span, []int64) {
	var last int64
	next := 0 // index after the last bucket
	for n, b := range s.Buckets {
		gap := b.Index - next
		switch {
		case n == 0:
			spans = append(spans, Span{Offset: int32(b.Index)})
		case gap > maxGap:
			spans = append(spans, Span{Offset: int32(gap)})
		default:
			for range gap {
				deltas = append(deltas, -last)
				last = 0
			}
			spans[len(spans)-1].Length += uint32(gap)
		}
		spans[len(spans)-1].Length++
		deltas = append(deltas, int64(b.Count)-last)
		last, next = int64(b.Count), b.Index+1
	}
	return spans, deltas
}
