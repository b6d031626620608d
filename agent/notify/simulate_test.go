package notify_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/agent/notify"
	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/core/states"
)

// A simulation tells the messages that a notifier sends to a receiver that accepts all of them, at the same
// times.
func TestSimulationTellsWhatNotifierSends(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			w := newWorld(t, []string{
				"", ", groupBy: [pod]", ", groupWait: 0s, groupInterval: 10s", ", for: 1m, states: [failure, warning, unknown]", ", repeatInterval: 10m, resolved: false",
				", groupBy: [pod], maxPerMinute: 2", ", retention: 5m",
			}[r.IntN(7)])
			var told []string
			s := notify.NewSimulation(w.conf, w.start, func(m *format.Message) {
				l := letter{Message: *m}
				told = append(told, m.Time.Sub(w.start).Round(100*time.Millisecond).String()+": "+l.summary())
			})
			now := make(map[string]states.State)
			for range 80 {
				time.Sleep(time.Duration(r.IntN(1+[]int{200, 5000, 60_000, 1_200_000}[r.IntN(4)]))*time.Millisecond + time.Microsecond)
				pod := fmt.Sprint("pod", r.IntN(5))
				if r.IntN(8) == 0 {
					i, in := info(pod, pod), r.IntN(2) == 0
					w.Maintain(&i, in, nil, time.Now())
					s.Maintain(&i, in, time.Now())
					continue
				}
				c := &states.Change{Info: info(pod, pod), From: now[pod], To: []states.State{ok, ok, warning, failure, failure, unknown}[r.IntN(6)], Time: time.Now(), Cause: states.Cause{Reason: "body", Text: fmt.Sprint("text ", r.IntN(3))}}
				c.Removed = r.IntN(20) == 0
				if now[pod] = c.To; c.Removed {
					now[pod] = unknown
				}
				w.mu.Lock()
				w.probes[key(pod)] = !c.Removed
				w.mu.Unlock()
				w.Changed(c)
				s.Change(c)
			}
			time.Sleep(9 * time.Hour)
			s.Advance(time.Now())
			if sent := w.takeLetters(); !slices.Equal(told, sent) {
				t.Errorf("seed %d:\nsimulated %q\nsent      %q", seed, told, sent)
			}
		})
	}
}
