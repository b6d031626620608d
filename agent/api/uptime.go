package api

import (
	"fmt"
	"math"
	"strings"
)

// Uptime returns the share of the known time without failures for people, such as "99.986%"; "-" if no time is
// known. It is cut to three digits: it is 100% only without any failure, and 0% only if all of the time was a
// failure.
func (s *StateSeconds) Uptime() string {
	millis := func(seconds float64) int64 { return int64(math.Round(seconds * 1000)) }
	up, down := millis(s.Success+s.Warning), millis(s.Failure)
	switch {
	case up+down == 0:
		return "-"
	case down == 0:
		return "100%"
	case up == 0:
		return "0%"
	}
	parts := up * 100_000 / (up + down)
	if parts == 0 {
		return "<0.001%"
	}
	return fmt.Sprintf("%d.%03d%%", parts/1000, parts%1000)
}

// Counts are numbers of probes by [ProbeStatus.Counted].
type Counts map[string]int

// String returns the counts for people, such as "3 probes: 2 success, 1 failure".
func (c Counts) String() string {
	all := 0
	for _, n := range c {
		all += n
	}
	text := fmt.Sprintf("%d probes: %d success", all, c["success"])
	if all == 1 {
		text = strings.Replace(text, "probes", "probe", 1)
	}
	for _, state := range []string{"warning", "failure", "unknown", Paused, InMaintenance} {
		if n := c[state]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, state)
		}
	}
	return text
}
