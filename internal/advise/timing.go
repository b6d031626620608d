package advise

import (
	"fmt"
	"slices"
	"time"

	"github.com/daeace23/prober/agent/api"
)

const (
	slowShare = 0.001 // of the attempts may take longer than the measured duration
	headroom  = 3     // times the measured duration is a timeout
	tight     = 2     // times the measured duration is too short a timeout
	idle      = 4     // times the mean duration is a period
)

// nice are the values that are suggested, in milliseconds.
var nice = []time.Duration{10, 20, 50, 100, 200, 300, 500, 1000, 2000, 3000, 5000, 10_000, 15_000, 20_000, 30_000, 60_000, 120_000, 300_000}

// roundUp returns the smallest nice value that is not below d.
func roundUp(d time.Duration) time.Duration {
	for _, ms := range nice {
		if d <= ms*time.Millisecond {
			return ms * time.Millisecond
		}
	}
	return (d + time.Minute - 1).Truncate(time.Minute)
}

// slowest returns a duration that at most the given share of the attempts exceeds. A point has only the
// duration of its slowest attempt, so that the result may be too long.
func slowest(points []api.HistoryPoint, share float64) time.Duration {
	byMax := slices.Clone(points)
	slices.SortFunc(byMax, func(a, b api.HistoryPoint) int {
		if a.MaxSeconds > b.MaxSeconds {
			return -1
		} else if a.MaxSeconds < b.MaxSeconds {
			return 1
		}
		return 0
	})
	all, over := 0, 0
	for i := range byMax {
		all += attemptsOf(&byMax[i])
	}
	for i := range byMax {
		if over += attemptsOf(&byMax[i]); float64(over) > share*float64(all) {
			return time.Duration(byMax[i].MaxSeconds * float64(time.Second))
		}
	}
	return 0
}

// timeoutOf suggests a timeout with headroom, and one that is not longer than the period.
func timeoutOf(m *measured, s Spec) *change {
	if len(m.points) == 0 {
		return nil
	}
	took := slowest(m.points, slowShare)
	enough := roundUp(headroom * took)
	if s.Timeout >= time.Second {
		enough = max(enough, time.Second) // timeoutSeconds of a pod is an integer
	}
	reason := fmt.Sprintf("99.9%% of %d attempts took at most %s in %s", m.Attempts, span(took), span(m.time()))
	switch {
	case s.Timeout > s.Period && enough <= s.Period:
		reason += fmt.Sprintf("; while the target hangs, attempts are %s apart, not %s", span(s.Timeout), span(s.Period))
	case s.Timeout <= s.Period && tight*took > s.Timeout:
		if took >= s.Timeout-s.Timeout/20 { // the history has an error of 5 %
			reason = fmt.Sprintf("more than 0.1%% of %d attempts took the whole timeout in %s, and others then succeeded", m.Attempts, span(m.time()))
		}
		if enough = min(enough, s.Period); enough <= s.Timeout {
			return nil
		}
	default:
		return nil
	}
	return &change{Suggestion{Timeout, span(s.Timeout), span(enough), reason}, func(s *Spec) { s.Timeout = enough }}
}

func (m *measured) time() time.Duration { return time.Duration(m.Seconds * float64(time.Second)) }

// periodOf suggests a period that is not shorter than the timeout, and leaves a pause between attempts.
func periodOf(m *measured, s Spec) *change {
	enough, reason := s.Period, ""
	switch {
	case s.Timeout > s.Period:
		enough = roundUp(s.Timeout)
		reason = fmt.Sprintf("the timeout is %s: while the target hangs, attempts are not %s apart", span(s.Timeout), span(s.Period))
	case 2*m.mean > s.Period:
		enough = roundUp(idle * m.mean)
		reason = fmt.Sprintf("%d attempts took %s on average", m.Attempts, span(m.mean))
	}
	if enough <= s.Period {
		return nil
	}
	return &change{Suggestion{Period, span(s.Period), span(enough), reason}, func(s *Spec) { s.Period = enough }}
}
