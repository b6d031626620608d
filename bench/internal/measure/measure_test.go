package measure_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/daeace23/prober/bench/internal/measure"
)

const ms = time.Millisecond

func TestQuantileIsWithinABucket(t *testing.T) {
	var h measure.Histogram
	for i := range 1000 {
		h.Add(time.Duration(i+1) * ms)
	}
	for _, c := range []struct {
		q    float64
		want time.Duration
	}{{0, ms}, {0.5, 500 * ms}, {0.99, 990 * ms}, {1, 1000 * ms}} {
		got, ok := h.Quantile(c.q)
		if !ok || got < c.want || float64(got) > float64(c.want)*1.016 {
			t.Errorf("quantile %v = %v, %v, want %v", c.q, got, ok, c.want)
		}
	}
}

func TestLostTicksAreLaterThanAllOthers(t *testing.T) {
	var h measure.Histogram
	for range 98 {
		h.Add(ms)
	}
	h.Lose(2)
	if _, ok := h.Quantile(0.98); !ok {
		t.Error("98 of 100 ticks ran, but their quantile is lost")
	}
	if got := h.Milliseconds(0.99); !math.IsInf(got, 1) {
		t.Errorf("p99 with 2 %% lost = %v ms, want +Inf", got)
	}
	if h.Count() != 100 || h.Lost() != 2 || h.Max() != ms {
		t.Errorf("count %d, lost %d, max %v", h.Count(), h.Lost(), h.Max())
	}
}

func TestMergeAddsCounts(t *testing.T) {
	var a, b measure.Histogram
	a.Add(ms)
	b.Add(3 * time.Hour)
	b.Lose(1)
	a.Merge(&b)
	if a.Count() != 3 || a.Lost() != 1 || a.Max() != 3*time.Hour {
		t.Errorf("count %d, lost %d, max %v", a.Count(), a.Lost(), a.Max())
	}
	if got := a.Milliseconds(0.5); got != 3*3600*1000 {
		t.Errorf("median %v ms, want three hours", got)
	}
}

func TestEmptyHistogram(t *testing.T) {
	var h measure.Histogram
	if got, ok := h.Quantile(0.99); got != 0 || !ok {
		t.Errorf("got %v, %v", got, ok)
	}
}

func TestLags(t *testing.T) {
	const p = 1000 * ms
	for _, c := range []struct {
		name       string
		calls      []time.Duration
		start, end time.Duration
		ticks      uint64
		lost       uint64
		max        time.Duration
	}{
		{"punctual", []time.Duration{300 * ms, 1300 * ms, 2300 * ms, 3300 * ms}, 1000 * ms, 3000 * ms, 2, 0, 0},
		{"one late", []time.Duration{300 * ms, 1350 * ms, 2300 * ms, 3300 * ms}, 1000 * ms, 3000 * ms, 2, 0, 50 * ms},
		{"first call late", []time.Duration{340 * ms, 1300 * ms, 2310 * ms, 3300 * ms}, 0, 3000 * ms, 3, 0, 40 * ms},
		{"call across the period", []time.Duration{990 * ms, 2010 * ms, 2990 * ms, 3990 * ms}, 1000 * ms, 3500 * ms, 2, 0, 20 * ms},
		{"one lost", []time.Duration{300 * ms, 2300 * ms, 3300 * ms}, 1000 * ms, 3000 * ms, 2, 1, 0},
		{"more than a period late", []time.Duration{300 * ms, 1300 * ms, 3500 * ms, 3600 * ms, 4300 * ms}, 1000 * ms, 4000 * ms, 3, 0, 1300 * ms},
		{"after the end", []time.Duration{300 * ms, 1300 * ms, 3250 * ms, 3400 * ms}, 1000 * ms, 3000 * ms, 2, 0, 1150 * ms},
		{"no call", nil, 0, 5000 * ms, 5, 5, 0},
		{"ended", []time.Duration{300 * ms, 1300 * ms}, 1000 * ms, 4000 * ms, 3, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h measure.Histogram
			measure.Lags(&h, c.calls, p, c.start, c.end)
			if h.Count() != c.ticks || h.Lost() != c.lost || h.Max() != c.max {
				t.Errorf("%d ticks, %d lost, max %v; want %d, %d, %v", h.Count(), h.Lost(), h.Max(), c.ticks, c.lost, c.max)
			}
		})
	}
}

func TestCallsBeyondTheLimitAreCounted(t *testing.T) {
	c := measure.NewCalls(2, 1)
	c.Record(1)
	c.Record(1)
	if c.Count(0) != 0 || c.Count(1) != 2 {
		t.Errorf("%d and %d calls", c.Count(0), c.Count(1))
	}
	var h measure.Histogram
	now := time.Now()
	c.Lags(&h, 0, time.Second, now.Add(-3*time.Second), now)
	if h.Lost() != 3 {
		t.Errorf("%d lost ticks of a probe without calls", h.Lost())
	}
}

func TestSummaryAndRatio(t *testing.T) {
	odd := measure.Summarize([]float64{3, 1, 2})
	if odd != (measure.Summary{Min: 1, Median: 2, Max: 3, N: 3}) {
		t.Error(odd)
	}
	even := measure.Summarize([]float64{4, 1, 2, 8})
	if even.Median != 3 {
		t.Error(even)
	}
	if got := measure.Ratio(odd, even); got != 2.0/3 {
		t.Error(got)
	}
	inf := measure.Summarize([]float64{math.Inf(1), math.Inf(1)})
	if !math.IsInf(inf.Median, 1) || !math.IsNaN(measure.Ratio(odd, inf)) || !math.IsNaN(measure.Ratio(odd, measure.Summary{})) {
		t.Error("a ratio to nothing must not be a number")
	}
}

// TestLagsFindSchedule compares the lags of probes with an unknown schedule with the generated ones. One tick
// in a thousand is lost.
func TestLagsFindTheSchedule(t *testing.T) {
	const probes, ticks, p = 3000, 12, time.Second
	random := rand.New(rand.NewPCG(1, 2))
	var want, got measure.Histogram
	for range probes {
		phase := time.Duration(random.Int64N(int64(p)))
		var calls []time.Duration
		for i := range ticks + 1 {
			lag := time.Duration(random.ExpFloat64() * float64(2*ms))
			due := phase + time.Duration(i)*p
			inWindow := due >= p && due < ticks*p
			switch {
			case random.IntN(1000) == 0:
				if inWindow {
					want.Lose(1)
				}
				continue
			case inWindow:
				want.Add(lag)
			}
			calls = append(calls, due+lag)
		}
		measure.Lags(&got, calls, p, p, ticks*p)
	}
	if diff := int64(got.Lost()) - int64(want.Lost()); diff < -2 || diff > 2 {
		t.Errorf("%d lost ticks, want %d", got.Lost(), want.Lost())
	}
	for _, q := range []float64{0.5, 0.9, 0.99} {
		// The earliest of twelve calls counts as punctual, although it is 0.2 ms late here.
		if g, w := got.Milliseconds(q), want.Milliseconds(q); g > w || g < w-0.3 {
			t.Errorf("quantile %v is %v ms, want %v", q, g, w)
		}
	}
}
