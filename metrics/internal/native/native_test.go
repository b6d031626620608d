package native_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/daeace23/prober/metrics/internal/native"
)

// shown are the buckets of a histogram.
type shown struct {
	Zero   uint64
	Spans  []native.Span
	Deltas []int64
}

func ours(s *native.Sum) (h shown) {
	h.Zero = s.Zero
	h.Spans, h.Deltas = s.Spans(nil, nil)
	return h
}

func theirs(t *testing.T, peer prometheus.Histogram) (h shown) {
	t.Helper()
	var m dto.Metric
	if err := peer.Write(&m); err != nil {
		t.Fatal(err)
	}
	h.Zero, h.Deltas = m.Histogram.GetZeroCount(), m.Histogram.PositiveDelta
	for _, s := range m.Histogram.PositiveSpan {
		h.Spans = append(h.Spans, native.Span{Offset: s.GetOffset(), Length: s.GetLength()})
	}
	if m.Histogram.GetSchema() != native.Schema || m.Histogram.GetZeroThreshold() != native.ZeroThreshold {
		t.Errorf("client_golang has schema %d, zero threshold %v", m.Histogram.GetSchema(), m.Histogram.GetZeroThreshold())
	}
	return h
}

func TestBucketsMatchClientGolang(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var sum native.Sum // reused
	for range 200 {
		var counts, more native.Counts
		peer := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", NativeHistogramBucketFactor: 1.1})
		for range random.IntN(40) {
			d := time.Duration(random.Int64N(1 << (1 + random.IntN(62))))
			if random.IntN(2) == 0 {
				counts.Add(d)
			} else {
				more.Add(d)
			}
			peer.Observe(d.Seconds())
		}
		sum.Reset()
		sum.Add(&counts)
		sum.Add(&more)
		want := theirs(t, peer)
		if diff := cmp.Diff(want, ours(&sum)); diff != "" {
			t.Fatalf("the sum of two (-want +got)\n%s", diff)
		}
		counts.AddAll(&more)
		sum.Reset()
		sum.Add(&counts)
		if diff := cmp.Diff(want, ours(&sum)); diff != "" {
			t.Fatalf("one that has the counts of both (-want +got)\n%s", diff)
		}
	}
}

func TestCountsTakeConcurrentDurations(t *testing.T) {
	var counts native.Counts
	var adding sync.WaitGroup
	const each = 1000
	for range 4 {
		adding.Go(func() {
			for i := range each {
				counts.Add(time.Duration(1) << (i % 40))
			}
			counts.Add(-1)
		})
	}
	adding.Wait()
	var sum native.Sum
	sum.Add(&counts)
	if sum.Count() != 4*(each+1) || sum.Zero != 4 || len(sum.Buckets) != 40 {
		t.Errorf("%d durations, %d of them 0, in %d buckets; want %d, 4, 40", sum.Count(), sum.Zero, len(sum.Buckets), 4*(each+1))
	}
}
