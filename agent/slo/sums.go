package slo

import (
	"cmp"
	"math"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/timespan"
)

// burnWindows are the windows of burn rates: the ones of the alerts in deploy/prometheus.
var burnWindows = []time.Duration{5 * time.Minute, 30 * time.Minute, time.Hour, 6 * time.Hour, 3 * 24 * time.Hour}

const (
	minutesFor = 6 * time.Hour      // how long sums by minute are kept
	hoursFor   = 3 * 24 * time.Hour // how long sums by hour are kept at least
)

// bucket has the time of probes in a minute or an hour, in microseconds.
type bucket struct{ number, good, bad int64 }

// ring has the latest buckets. The number of a bucket is the time since the epoch, in units of its length.
type ring struct {
	length  int64 // of a bucket, in microseconds
	buckets []bucket
}

func newRing(length, span time.Duration) ring {
	return ring{length.Microseconds(), make([]bucket, int(span/length)+1)}
}

// at returns a bucket; nil if the ring has later ones in its place.
func (r *ring) at(number int64) *bucket {
	b := &r.buckets[int(uint64(number)%uint64(len(r.buckets)))]
	switch {
	case b.number > number:
		return nil
	case b.number < number:
		*b = bucket{number: number}
	}
	return b
}

// add adds the time from from to to, in microseconds since the epoch, of good and bad probes.
func (r *ring) add(from, to, good, bad int64) {
	if begin := to - r.length*int64(len(r.buckets)); from < begin {
		from = begin // earlier time does not fit
	}
	for from < to {
		number := from / r.length
		end := min(to, (number+1)*r.length)
		if b := r.at(number); b != nil {
			b.good += (end - from) * good
			b.bad += (end - from) * bad
		}
		from = end
	}
}

// last returns the time of the span that ends at now. A bucket at its begin counts in proportion.
func (r *ring) last(span time.Duration, now int64) (good, bad float64) {
	begin := now - span.Microseconds()
	for _, b := range r.buckets {
		from, to := b.number*r.length, (b.number+1)*r.length
		if to <= begin || from > now {
			continue
		}
		part := 1 - float64(max(begin-from, 0))/float64(r.length)
		good += part * float64(b.good)
		bad += part * float64(b.bad)
	}
	return good / 1e6, bad / 1e6
}

// since returns the begin of the first bucket of the span that ends at now and has time; the zero time if
// none has.
func (r *ring) since(span time.Duration, now int64) time.Time {
	first := int64(math.MaxInt64)
	for _, b := range r.buckets {
		if b.good+b.bad > 0 && (b.number+1)*r.length > now-span.Microseconds() {
			first = min(first, b.number*r.length)
		}
	}
	if first == math.MaxInt64 {
		return time.Time{}
	}
	return time.UnixMicro(max(first, now-span.Microseconds())).UTC()
}

// sums has the time of the probes of an objective.
type sums struct{ minutes, hours ring }

func newSums(window time.Duration) sums {
	return sums{newRing(time.Minute, minutesFor), newRing(time.Hour, max(window, hoursFor))}
}

func (s *sums) add(from, to, good, bad int64) {
	s.minutes.add(from, to, good, bad)
	s.hours.add(from, to, good, bad)
}

// last returns the seconds of the probes in the span that ends at now.
func (s *sums) last(span time.Duration, now int64) (good, bad float64) {
	if span <= minutesFor {
		return s.minutes.last(span, now)
	}
	return s.hours.last(span, now)
}

// since returns when the measured time within the span that ends at now begins: to the minute if it is
// short, else to the hour.
func (s *sums) since(span time.Duration, now int64) time.Time {
	at := s.hours.since(span, now)
	if minute := s.minutes.since(span, now); !at.IsZero() && !minute.IsZero() && minute.Sub(at) < time.Hour {
		return minute
	}
	return at
}

// allowed returns the fraction of the time that may be bad.
func allowed(s *config.SLO) float64 { return (100 - s.Objective) / 100 }

// fill sets the measured fields of a status, as of now in microseconds since the epoch.
func (s *sums) fill(status *api.SLO, slo *config.SLO, now int64) {
	status.GoodSeconds, status.BadSeconds = s.last(slo.Window, now)
	status.Since = s.since(slo.Window, now)
	measured := status.GoodSeconds + status.BadSeconds
	b := &status.Budget
	b.TotalSeconds, b.SpentSeconds = measured*allowed(slo), status.BadSeconds
	b.LeftSeconds = b.TotalSeconds - b.SpentSeconds
	if measured > 0 {
		status.Availability = new(status.GoodSeconds / measured)
		b.Left = new(b.LeftSeconds / b.TotalSeconds)
	}
	for _, window := range burnWindows {
		rate := api.BurnRate{Window: timespan.Format(window)}
		if good, bad := s.last(window, now); good+bad > 0 {
			rate.Rate = new(bad / (good + bad) / allowed(slo))
		}
		status.BurnRates = append(status.BurnRates, rate)
	}
}

// sorted orders buckets by number, for the file.
func sorted(a, b bucket) int { return cmp.Compare(a.number, b.number) }
