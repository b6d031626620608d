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

// maxDelay is how much later than the kubelet's a tick may be without [probe.CompatExactTimer]. The longest
// window is 10 ms. A trigger during an attempt restarts the period at the end of the attempt, which may be
// late too.
const maxDelay = 3 * 10 * time.Millisecond

// TestWindowsChangeNoDecision checks that without CompatExactTimer our side has the same attempts, events and
// updates as the kubelet, none of them earlier, and none later than windows allow. It skips scenarios in
// which a few milliseconds change the kubelet's behavior: if all ops but OpAdd are earlier by maxDelay, the
// kubelet's record differs.
func TestWindowsChangeNoDecision(t *testing.T) {
	o, windows := newOracle(t), Ours(Profile()&^probe.CompatExactTimer)
	scenarios := max(*count/5, 1)
	var compared, late atomic.Int64
	eachSeed(t, scenarios, func(t *testing.T, seed uint64) {
		s := Generate(seed)
		kubelet := o.Calm(t, s)
		earlier := earlierBy(s, maxDelay)
		if differ(kubelet, o.Calm(t, earlier), s, -maxDelay, maxDelay) != "" || Compare(kubelet, o.Run(t, s, Ours(Profile()))) != nil {
			return
		}
		compared.Add(1)
		ours := o.Run(t, s, windows)
		if d := differ(kubelet, ours, s, 0, maxDelay); d != "" {
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

// earlierBy returns s with all ops but OpAdd earlier by d, in the same order.
func earlierBy(s *Scenario, d time.Duration) *Scenario {
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

// differ describes an observation of b that is not least to most later than the same observation of a. It
// returns "" if there is none. It does not compare samples of the caches, and observations right before the
// end.
func differ(a, b *Record, s *Scenario, least, most time.Duration) string {
	end := time.Duration(s.End) - 2*maxDelay
	left, right := timesOf(a), timesOf(b)
	for text := range right {
		if _, ok := left[text]; !ok && right[text][0] <= end {
			return fmt.Sprintf("%s: at %v, and never for the kubelet", text, right[text][0])
		}
	}
	for text, all := range left {
		others := right[text]
		for i, at := range all {
			if at > end {
				break
			}
			if i >= len(others) || others[i]-at < least || others[i]-at > most {
				return fmt.Sprintf("%s: at %v for the kubelet, %v", text, all, others)
			}
		}
		if len(others) > len(all) && others[len(all)] <= end {
			return fmt.Sprintf("%s: at %v for the kubelet, %v", text, all, others)
		}
	}
	return ""
}

// timesOf returns when each attempt, event and update was observed. It omits an update if another one of the
// same key follows soon, because the record has only the last update of an instant.
func timesOf(r *Record) map[string][]time.Duration {
	next := make(map[string]time.Duration) // update of a key
	times := make(map[string][]time.Duration)
	for _, o := range slices.Backward(r.observations) {
		if o.update != "" {
			at, ok := next[o.update]
			next[o.update] = o.At
			if ok && at-o.At <= 2*maxDelay {
				continue
			}
		}
		if o.update != "" || strings.HasPrefix(o.Text, "attempt ") || strings.HasPrefix(o.Text, "event ") {
			times[o.Text] = append(times[o.Text], o.At)
		}
	}
	for _, all := range times {
		slices.Reverse(all)
	}
	return times
}
