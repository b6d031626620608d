//go:build linux

package main

import (
	"testing"
	"time"
)

func TestOutages(t *testing.T) {
	begin := time.Unix(1_800_000_000, 0)
	var down [dayTargets]int
	for tick := range outageEvery {
		together := 0
		for n := range dayTargets {
			if outage(n, begin.Add(time.Duration(tick)*dayPeriod)) {
				down[n]++
				together++
			}
		}
		if least := dayTargets * outageLasts / outageEvery; together < least || together > least+2 {
			t.Fatalf("tick %d: %d targets are down, want %d to %d", tick, together, least, least+2)
		}
	}
	for n, ticks := range down {
		if ticks != outageLasts {
			t.Fatalf("target %d is down for %d ticks, want %d", n, ticks, outageLasts)
		}
	}
}
