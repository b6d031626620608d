package load

import (
	"errors"
	"math"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// ownLags are the cumulative buckets of prober_schedule_lag_seconds.
type ownLags struct{ *dto.Histogram }

// lagsOf reads ownLags from prober's metrics.
func lagsOf(g prometheus.Gatherer) (*ownLags, error) {
	families, err := g.Gather()
	if err != nil {
		return nil, err
	}
	for _, f := range families {
		if f.GetName() == "prober_schedule_lag_seconds" {
			return &ownLags{f.GetMetric()[0].GetHistogram()}, nil
		}
	}
	return nil, errors.New("no prober_schedule_lag_seconds")
}

// milliseconds returns the lowest bucket bound that the fraction q of the ticks since before does not exceed.
func (l *ownLags) milliseconds(before *ownLags, q float64) float64 {
	total := l.GetSampleCount() - before.GetSampleCount()
	for i, b := range l.GetBucket() {
		if n := b.GetCumulativeCount() - before.GetBucket()[i].GetCumulativeCount(); float64(n) >= q*float64(total) {
			return 1000 * b.GetUpperBound()
		}
	}
	return math.Inf(1)
}
