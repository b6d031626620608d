package measure

import (
	"math"
	"time"
)

// Calls records when each of many probes was called, in a fixed amount of memory. Record may be
// called concurrently for different probes.
type Calls struct {
	epoch time.Time
	limit int      // maximum number of kept calls of a probe
	at    []uint32 // in microseconds after epoch
	count []uint32
}

// NewCalls returns an empty record that keeps at most limit calls of each probe, made within an
// hour. Its memory is resident from the beginning, so that it does not count as memory of the probes.
func NewCalls(probes, limit int) *Calls {
	c := &Calls{epoch: time.Now(), limit: limit, at: make([]uint32, probes*limit), count: make([]uint32, probes)}
	for i := range c.at {
		c.at[i] = math.MaxUint32
	}
	for i := range c.count {
		c.count[i] = 1
	}
	clear(c.count)
	return c
}

// Record records a call of a probe now.
func (c *Calls) Record(probe int) {
	n := c.count[probe]
	c.count[probe] = n + 1
	if int(n) < c.limit {
		c.at[probe*c.limit+int(n)] = uint32(time.Since(c.epoch).Microseconds())
	}
}

// Reset deletes all calls.
func (c *Calls) Reset() { clear(c.count) }

// Count returns the number of calls of a probe, including calls that were not kept.
func (c *Calls) Count(probe int) int { return int(c.count[probe]) }

// Lags returns the lateness of the ticks of a probe that were due from start until end. It must be called
// after the last call. See [Lags].
func (c *Calls) Lags(h *Histogram, probe int, period time.Duration, start, end time.Time) {
	n := min(int(c.count[probe]), c.limit)
	calls := make([]time.Duration, n)
	for i, at := range c.at[probe*c.limit:][:n] {
		calls[i] = time.Duration(at) * time.Microsecond
	}
	Lags(h, calls, period, start.Sub(c.epoch), end.Sub(c.epoch))
}

// Lags adds to h the lateness of the ticks of one probe that were due from start until end. calls are the
// times of its calls in ascending order, from any origin. Calls before start and after end help to assign
// calls to ticks.
//
// The phase of the probe is not known: the earliest call, modulo the period, counts as punctual. Each call is
// assigned to the newest due tick that has no call yet. A tick without a call is lost.
func Lags(h *Histogram, calls []time.Duration, period, start, end time.Duration) {
	if len(calls) == 0 {
		h.Lose(uint64((end - start) / period))
		return
	}
	phase := phaseOf(calls, period)
	first, last := ceil(start-phase, period), ceil(end-phase, period)-1 // ticks of the window
	origin := min(first, floor(calls[0]-phase, period))
	ran := make([]bool, max(last, floor(calls[len(calls)-1]-phase, period))-origin+1)
	for _, at := range calls {
		for i := floor(at-phase, period) - origin; i >= 0; i-- {
			if ran[i] {
				continue
			}
			ran[i] = true
			if tick := origin + i; tick >= first && tick <= last {
				h.Add(at - phase - tick*period)
			}
			break
		}
	}
	for tick := first; tick <= last; tick++ {
		if !ran[tick-origin] {
			h.Lose(1)
		}
	}
}

// phaseOf returns a due time: the time of the call that is earliest in its period.
func phaseOf(calls []time.Duration, period time.Duration) time.Duration {
	earliest := calls[0]
	for _, at := range calls {
		// The distance from the first call, rounded to whole periods.
		if off := at - ((at - calls[0] + period/2) / period * period); off < earliest {
			earliest = off
		}
	}
	return earliest
}

// floor and ceil divide, and round towards minus and plus infinity.
func floor(d, period time.Duration) time.Duration {
	n := d / period
	if d%period < 0 {
		n--
	}
	return n
}

func ceil(d, period time.Duration) time.Duration { return -floor(-d, period) }
