package notify_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/core/states"
)

// flap makes a probe fail and recover n times, each for a time.
func (w *world) flap(pod string, n int, bad, good time.Duration) {
	for range n {
		w.setState(pod, failure)
		time.Sleep(bad)
		w.setState(pod, ok)
		time.Sleep(good)
	}
}

// flapsOf returns "COUNT STATE" of the flaps of each probe of each letter.
func (w *world) flapsOf() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.letters {
		for _, p := range l.Probes {
			if p.Flaps != nil {
				all = append(all, fmt.Sprintf("%s: %s %d %s", l.at, p.Pod, p.Flaps.Count, p.Flaps.State))
			}
		}
	}
	return all
}

func TestFlapping(t *testing.T) {
	const fields = ", groupWait: 1s, groupInterval: 0s"
	for name, c := range map[string]struct {
		fields      string
		steps       func(w *world)
		want, flaps []string
	}{
		"third end is withheld until the probe is steady": {fields, func(w *world) {
			w.flap("a", 3, 10*time.Second, 10*time.Second)
			time.Sleep(time.Hour)
		}, []string{"1s: a failure", "11s: a resolved", "21s: a failure", "31s: a resolved", "41s: a failure", "15m50s: a resolved"}, []string{"41s: a 3 failure"}},
		"the end is sent after a short retention": {fields + ", retention: 1m", func(w *world) {
			w.flap("a", 3, 10*time.Second, 10*time.Second)
			time.Sleep(time.Hour)
		}, []string{"1s: a failure", "11s: a resolved", "21s: a failure", "31s: a resolved", "41s: a failure", "15m50s: a resolved"}, []string{"41s: a 3 failure"}},
		"a flapper of 40 seconds for a day is repeated": {fields, func(w *world) {
			w.flap("a", 24*60*60/40, 20*time.Second, 20*time.Second)
			time.Sleep(time.Hour)
		}, []string{
			"1s: a failure", "21s: a resolved", "41s: a failure", "1m1s: a resolved", "1m21s: a failure", "4h1m21s: a failure again", "8h1m21s: a failure again",
			"12h1m21s: a failure again", "16h1m21s: a failure again", "20h1m21s: a failure again", "24h1m21s: a failure again", "24h14m40s: a resolved",
		}, []string{"1m21s: a 3 failure", "4h1m21s: a 363 failure", "8h1m21s: a 723 failure", "12h1m21s: a 1083 failure", "16h1m21s: a 1443 failure", "20h1m21s: a 1803 failure", "24h1m21s: a 2160 success"}},
		"an outage of a flapping probe is told when it is steady": {fields, func(w *world) {
			w.flap("a", 3, 10*time.Second, 10*time.Second)
			w.setState("a", failure)
			time.Sleep(time.Hour)
			w.setState("a", ok)
			time.Sleep(time.Hour)
		}, []string{"1s: a failure", "11s: a resolved", "21s: a failure", "31s: a resolved", "41s: a failure", "16m0s: a failure", "1h1m1s: a resolved"}, []string{"41s: a 3 failure"}},
		"slow failures are told": {fields, func(w *world) {
			w.flap("a", 4, 10*time.Second, 16*time.Minute)
		}, []string{"1s: a failure", "11s: a resolved", "16m11s: a failure", "16m21s: a resolved", "32m21s: a failure", "32m31s: a resolved", "48m31s: a failure", "48m41s: a resolved"}, nil},
		"a long third failure ends at once": {fields, func(w *world) {
			w.flap("a", 2, 10*time.Second, 10*time.Second)
			w.flap("a", 1, time.Hour, time.Minute)
		}, []string{"1s: a failure", "11s: a resolved", "21s: a failure", "31s: a resolved", "41s: a failure", "1h0m41s: a resolved"}, []string{"41s: a 3 failure"}},
		"failures that are too short to be sent do not count": {fields + ", for: 1m", func(w *world) {
			w.flap("a", 10, 10*time.Second, 10*time.Second)
			w.flap("a", 1, 2*time.Minute, time.Minute)
		}, []string{"4m21s: a failure", "5m21s: a resolved"}, nil},
		"a worse state is told": {fields + ", states: [failure, warning], for: 0s", func(w *world) {
			for range 9 {
				w.setState("a", warning)
				time.Sleep(10 * time.Second)
				w.setState("a", ok)
				time.Sleep(10 * time.Second)
			}
			w.flap("a", 3, 10*time.Second, 10*time.Second)
			time.Sleep(time.Hour)
		}, []string{"1s: a warning", "11s: a resolved", "21s: a warning", "31s: a resolved", "41s: a warning", "3m1s: a failure", "18m50s: a resolved"}, []string{"41s: a 3 warning", "3m1s: a 10 failure"}},
		"a removed probe ends": {fields, func(w *world) {
			w.flap("a", 3, 10*time.Second, 10*time.Second)
			w.removed("a", "uid-a", true)
			time.Sleep(time.Hour)
		}, []string{"1s: a failure", "11s: a resolved", "21s: a failure", "31s: a resolved", "41s: a failure", "2m1.2s: a removed"}, []string{"41s: a 3 failure"}},
		"without detection each change is told": {fields + ", flapDetection: false", func(w *world) {
			w.flap("a", 4, 10*time.Second, 10*time.Second)
		}, []string{"1s: a failure", "11s: a resolved", "21s: a failure", "31s: a resolved", "41s: a failure", "51s: a resolved", "1m1s: a failure", "1m11s: a resolved"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, c.fields, func(t *testing.T, w *world) {
				c.steps(w)
				synctest.Wait()
				if got := w.flapsOf(); !slices.Equal(got, c.flaps) {
					t.Errorf("flaps %q, want %q", got, c.flaps)
				}
				w.expect(c.want...)
			})
		})
	}
}

// A restart or a reload goes on with a probe that flaps, and a reload without detection tells its state.
func TestFlappingOverRestartAndReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ", groupWait: 1s, groupInterval: 0s")
		w.stop()
		w.cfg.StateFile = filepath.Join(t.TempDir(), "notifications.json")
		w.run()
		w.flap("a", 3, 10*time.Second, 10*time.Second)
		w.takeLetters()
		w.stop()
		w.run()
		w.flap("a", 3, 10*time.Second, 10*time.Second)
		w.conf.Receivers = slices.Clone(w.conf.Receivers)
		w.conf.Receivers[0].RepeatInterval = time.Hour
		w.Set("prober.yaml", w.conf)
		w.flap("a", 3, 10*time.Second, 10*time.Second)
		w.expect()
		w.conf.Receivers = slices.Clone(w.conf.Receivers)
		w.conf.Receivers[0].FlapDetection = false
		w.Set("prober.yaml", w.conf)
		time.Sleep(time.Minute)
		w.expect("3m0s: a resolved")
	})
}

// However a probe behaves, a receiver gets few messages, and learns of each state that lasts for longer than a
// flapping probe needs to be steady.
func TestFlappingIsBounded(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 2))
				w := newWorld(t, ", groupWait: 1s, groupInterval: 0s, repeatInterval: 0s, maxPerMinute: 600, states: [failure, warning, unknown], for: 0s")
				paces := []time.Duration{3 * time.Second, time.Minute, 5 * time.Minute, 20 * time.Minute}
				state, since := ok, time.Now()
				const steady = 15*time.Minute + 5*time.Second
				for time.Since(w.start) < 24*time.Hour {
					pace := paces[r.IntN(len(paces))]
					for range r.IntN(30) {
						next := []states.State{ok, ok, failure, failure, warning}[r.IntN(5)]
						if next != state {
							state, since = next, time.Now()
							w.setState("a", state)
						}
						time.Sleep(time.Duration(r.Int64N(int64(pace))))
						if time.Since(since) > steady {
							w.checkLast(state)
						}
					}
				}
				time.Sleep(steady)
				w.checkLast(state)
				synctest.Wait()
				w.checkPace()
			})
		})
	}
}

// checkLast checks that the last message has the present state of the probe.
func (w *world) checkLast(state states.State) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	got := ok.String()
	if n := len(w.letters); n > 0 && w.letters[n-1].Status == format.Failing {
		got = w.letters[n-1].Probes[0].State
	}
	if got != state.String() {
		w.t.Errorf("%s: the probe is %s, and the last message says %s", time.Since(w.start), state, got)
	}
}

// checkPace checks the number of begins and ends in each half an hour: two incidents have some, and so do the spells
// of flapping, each of which lasts for a quarter of an hour.
func (w *world) checkPace() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ends []time.Duration
	for _, l := range w.letters {
		if l.Status != format.Failing {
			ends = append(ends, l.at)
		}
	}
	for i := range ends {
		n := 0
		for _, at := range ends[i:] {
			if at-ends[i] < 30*time.Minute {
				n++
			}
		}
		if n > 4 {
			w.t.Errorf("%d ends in half an hour from %s", n, ends[i])
		}
	}
}
