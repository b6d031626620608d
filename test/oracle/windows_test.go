package oracle

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daeace23/prober/probe"
)

// latest is how late a tick may be without [probe.CompatExactTimer], compared with the kubelet's: the longest window
// is 10 ms, and a trigger during an attempt restarts the period at the end of that, which may be late itself.
const latest = 3 * 10 * time.Millisecond

// Without CompatExactTimer the attempts, events and updates are the kubelet's, none is earlier, and none later
// than windows allow. Scenarios are left out in which a few milliseconds matter to the kubelet itself: it does
// something else if all that is not a new pod comes that much earlier.
func TestWindowsChangeNoDecision(t *testing.T) {
	o, windows := newOracle(t), Ours(Profile()&^probe.CompatExactTimer)
	scenarios := max(*count/5, 1)
	var compared, late atomic.Int64
	eachSeed(t, scenarios, func(t *testing.T, seed uint64) {
		s := Generate(seed)
		kubelet := o.Calm(t, s)
		earlier := sooner(s, latest)
		if differ(kubelet, o.Calm(t, earlier), s, -latest, latest) != "" || Compare(kubelet, o.Run(t, s, Ours(Profile()))) != nil {
			return
		}
		compared.Add(1)
		ours := o.Run(t, s, windows)
		if d := differ(kubelet, ours, s, 0, latest); d != "" {
			t.Errorf("seed %d: %s\n%v", seed, d, s)
		}
		if Compare(kubelet, ours) != nil {
			late.Add(1)
		}
	})
	t.Logf("%d of %d scenarios were compared; in %d some ticks were late", compared.Load(), scenarios, late.Load())
	if scenarios >= 100 && compared.Load() < int64(scenarios/4) {
		t.Error("too few scenarios were compared")
	}
}

// sooner returns s with all but the new pods earlier by d, in the same order.
func sooner(s *Scenario, d time.Duration) *Scenario {
	earlier := *s
	earlier.Ops = slices.Clone(s.Ops)
	last := Duration(0)
	for i := range earlier.Ops {
		op := &earlier.Ops[i]
		if op.Do != OpAdd {
			op.At -= Duration(d)
		}
		op.At = max(op.At, last+Duration(time.Microsecond))
		last = op.At
	}
	return &earlier
}

// differ returns the first thing of b that is not at the time that it has in a, or after that by least to most;
// "" if there is none. What comes right before the end is not compared, nor are samples of the caches.
func differ(a, b *Record, s *Scenario, least, most time.Duration) string {
	end := time.Duration(s.End) - 2*latest
	left, right := timesOf(a), timesOf(b)
	for what := range right {
		if _, ok := left[what]; !ok && right[what][0] <= end {
			return fmt.Sprintf("%s: at %v, not at all for the kubelet", what, right[what][0])
		}
	}
	for what, all := range left {
		others := right[what]
		for i, at := range all {
			if at > end {
				break
			}
			if i >= len(others) || others[i]-at < least || others[i]-at > most {
				return fmt.Sprintf("%s: at %v for the kubelet, %v", what, all, others)
			}
		}
		if len(others) > len(all) && others[len(all)] <= end {
			return fmt.Sprintf("%s: at %v for the kubelet, %v", what, all, others)
		}
	}
	return ""
}

// timesOf returns when each attempt, event and update was observed. An update counts if no other one of its key
// follows soon: of those at one instant the record has only the last.
func timesOf(r *Record) map[string][]time.Duration {
	next := make(map[string]time.Duration) // update of a key
	times := make(map[string][]time.Duration)
	for _, o := range slices.Backward(r.observations) {
		if o.update != "" {
			at, ok := next[o.update]
			next[o.update] = o.At
			if ok && at-o.At <= 2*latest {
				continue
			}
		}
		if o.update != "" || strings.HasPrefix(o.What, "attempt ") || strings.HasPrefix(o.What, "event ") {
			times[o.What] = append(times[o.What], o.At)
		}
	}
	for _, all := range times {
		slices.Reverse(all)
	}
	return times
}
