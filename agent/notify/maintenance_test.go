package notify_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/core/states"
)

// maintain begins or ends a maintenance window of a pod.
func (w *world) maintain(pod string, in bool) {
	i := info(pod, "uid-"+pod)
	w.Maintain(&i, in, nil, time.Now())
}

func TestMaintenance(t *testing.T) {
	const others = "notify: {receivers: [{name: others, webhook: {url: 'http://ops.example/hook'}"
	for name, c := range map[string]struct {
		fields string
		steps  func(w *world)
		want   []string
	}{
		"failure begins and ends inside": {"", func(w *world) {
			w.maintain("web", true)
			w.setState("web", failure)
			time.Sleep(time.Hour)
			w.setState("web", ok)
			w.maintain("web", false)
		}, nil},
		"failure began before and ends inside": {"", func(w *world) {
			w.setState("web", failure)
			time.Sleep(time.Minute)
			w.maintain("web", true)
			time.Sleep(9 * time.Hour) // no repetition
			w.setState("web", ok)
		}, []string{"10s: web failure", "9h1m10s: web resolved"}},
		"failure begins inside and lasts": {"", func(w *world) {
			w.maintain("web", true)
			w.setState("web", failure)
			time.Sleep(time.Hour)
			w.maintain("web", false)
			time.Sleep(time.Hour)
		}, []string{"1h0m10s: web failure"}},
		"failure begins inside and lasts for long enough": {", for: 5m, groupWait: 0s", func(w *world) {
			w.maintain("web", true)
			w.setState("web", failure)
			time.Sleep(time.Hour)
			w.maintain("web", false)
			time.Sleep(time.Hour)
		}, []string{"1h5m0s: web failure"}},
		"failure ends soon after the window": {", for: 5m", func(w *world) {
			w.maintain("web", true)
			w.setState("web", failure)
			time.Sleep(time.Hour)
			w.maintain("web", false)
			time.Sleep(4 * time.Minute)
			w.setState("web", ok)
		}, nil},
		"failure began before and lasts": {", repeatInterval: 2h", func(w *world) {
			w.setState("web", failure)
			time.Sleep(time.Minute)
			w.maintain("web", true)
			time.Sleep(5 * time.Hour)
			w.maintain("web", false)
			time.Sleep(time.Hour)
		}, []string{"10s: web failure", "5h1m0.2s: web failure again"}},
		"failure begins just before": {", for: 1m", func(w *world) {
			w.setState("web", failure)
			time.Sleep(30 * time.Second)
			w.maintain("web", true)
			time.Sleep(time.Hour)
			w.maintain("web", false)
			time.Sleep(time.Hour)
		}, []string{"1h1m40s: web failure"}},
		"warning becomes a failure inside": {", states: [failure, warning], for: 0s", func(w *world) {
			w.setState("web", warning)
			time.Sleep(time.Minute)
			w.maintain("web", true)
			w.setState("web", failure)
			time.Sleep(time.Hour)
			w.maintain("web", false)
			time.Sleep(time.Hour)
		}, []string{"10s: web warning", "1h1m10s: web failure"}},
		"failure returns inside": {"", func(w *world) {
			w.setState("web", failure)
			time.Sleep(time.Minute)
			w.maintain("web", true)
			w.setState("web", ok)
			time.Sleep(time.Hour)
			w.setState("web", failure)
			time.Sleep(time.Hour)
			w.maintain("web", false)
			time.Sleep(time.Hour)
		}, []string{"10s: web failure", "1m10s: web resolved", "2h1m10s: web failure"}},
		"message of a group does not list it": {"", func(w *world) {
			w.setState("db", failure)
			time.Sleep(time.Minute)
			w.maintain("db", true)
			w.maintain("other", true)
			w.setState("other", failure)
			w.setState("web", failure)
			time.Sleep(5 * time.Hour)
			w.setState("web", ok)
		}, []string{"10s: db failure", "1m10s: web failure", "4h1m10s: web failure again", "5h1m10s: web resolved"}},
		"another cause inside": {"", func(w *world) {
			w.setState("web", failure)
			time.Sleep(time.Minute)
			w.maintain("web", true)
			w.setStateOf("web", "uid-web", failure, "quite another text")
			time.Sleep(time.Hour)
		}, []string{"10s: web failure"}},
		"two windows touch": {"", func(w *world) {
			w.maintain("web", true)
			w.setState("web", failure)
			time.Sleep(time.Hour)
			w.maintain("web", false)
			time.Sleep(time.Second)
			w.maintain("web", true)
			time.Sleep(time.Hour)
		}, nil},
		"pod is removed inside": {"", func(w *world) {
			w.setState("web", failure)
			time.Sleep(time.Minute)
			w.maintain("web", true)
			w.removed("web", "uid-web", true)
			w.maintain("web", false)
			time.Sleep(time.Hour)
		}, []string{"10s: web failure", "2m10.2s: web removed"}},
		"pod is replaced inside": {"", func(w *world) {
			next := info("web", "next")
			w.maintain("web", true)
			w.Maintain(&next, true, nil, time.Now())
			w.removed("web", "uid-web", false)
			w.maintain("web", false)
			w.setStateOf("web", "next", failure, "")
			time.Sleep(time.Hour)
			w.Maintain(&next, false, nil, time.Now())
			time.Sleep(time.Hour)
		}, []string{"1h0m10s: web failure"}},
		"new receiver inside": {"", func(w *world) {
			w.maintain("web", true)
			w.setState("web", failure)
			time.Sleep(time.Minute)
			w.Set("prober.yaml", parse(w.t, others+"}]}"))
			time.Sleep(time.Hour)
			w.maintain("web", false)
			time.Sleep(time.Hour)
		}, []string{"1h1m10s: web failure"}},
		"new receiver after the window": {", for: 10m", func(w *world) {
			w.maintain("web", true)
			w.setState("web", failure)
			time.Sleep(time.Hour)
			w.maintain("web", false)
			time.Sleep(time.Minute)
			w.Set("prober.yaml", parse(w.t, others+", for: 10m}]}"))
			time.Sleep(time.Hour)
		}, []string{"1h10m0s: web failure"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, c.fields, func(_ *testing.T, w *world) {
				c.steps(w)
				time.Sleep(30 * time.Second)
				w.expect(c.want...)
			})
		})
	}
}

// silence begins or ends maintenance windows of a pod for receivers.
func (w *world) silence(pod string, all bool, receivers ...string) {
	i := info(pod, "uid-"+pod)
	w.Maintain(&i, all, receivers, time.Now())
}

func TestMaintenanceOfOneReceiver(t *testing.T) {
	for name, c := range map[string]struct {
		steps func(w *world)
		want  []string
	}{
		"failure lasts at the end": {func(w *world) {
			w.silence("web", false, "ops", "others")
			w.setState("web", failure)
			w.setState("db", failure)
			time.Sleep(time.Hour)
			w.silence("web", false, "others")
			time.Sleep(time.Hour)
		}, []string{"10s: db failure", "1h0m10s: db failure, web failure"}},
		"failure began before and ends inside": {func(w *world) {
			w.setState("web", failure)
			time.Sleep(time.Minute)
			w.silence("web", false, "ops")
			time.Sleep(9 * time.Hour) // no repetition
			w.setState("web", ok)
		}, []string{"10s: web failure", "9h1m10s: web resolved"}},
		"window of another receiver": {func(w *world) {
			w.silence("web", false, "others")
			w.setState("web", failure)
			time.Sleep(time.Minute)
		}, []string{"10s: web failure"}},
		"end of a window of another receiver": {func(w *world) {
			w.setState("web", failure)
			w.silence("web", false, "others")
			time.Sleep(5 * time.Second)
			w.silence("web", false)
		}, []string{"10s: web failure"}},
		"window of all ends first": {func(w *world) {
			w.silence("web", true, "ops")
			w.setState("web", failure)
			time.Sleep(time.Hour)
			w.silence("web", false, "ops")
			time.Sleep(time.Hour)
			w.silence("web", false)
		}, []string{"2h0m10s: web failure"}},
		"window of all ends last": {func(w *world) {
			w.setState("web", failure)
			w.silence("web", true, "ops")
			time.Sleep(time.Hour)
			w.silence("web", true)
			time.Sleep(time.Hour)
			w.silence("web", false)
		}, []string{"2h0m10s: web failure"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, "", func(_ *testing.T, w *world) {
				c.steps(w)
				time.Sleep(30 * time.Second)
				w.expect(c.want...)
			})
		})
	}
}

// A message that the receiver did not accept before the window is sent inside, as it is about a time before it.
func TestMaintenanceDelaysNoOlderMessage(t *testing.T) {
	bubble(t, "", func(_ *testing.T, w *world) {
		w.answerWith(status(503))
		w.setState("web", failure)
		time.Sleep(time.Minute)
		w.maintain("web", true)
		w.answerWith(nil)
		time.Sleep(10 * time.Minute)
		if got := w.takeLetters(); len(got) != 1 {
			w.t.Errorf("letters %q", got)
		}
	})
}

func TestStatusShowsMaintenance(t *testing.T) {
	bubble(t, "", func(t *testing.T, w *world) {
		w.maintain("web", true)
		w.setState("web", failure)
		time.Sleep(time.Minute)
		synctest.Wait()
		r := w.Status().Items[0]
		if r.Pending != 0 || len(r.Alerts) != 1 || !r.Alerts[0].Maintenance || r.Alerts[0].State != "failure" {
			t.Errorf("inside: %+v", r)
		}
		w.maintain("web", false)
		time.Sleep(time.Second)
		synctest.Wait()
		if r := w.Status().Items[0]; r.Pending != 1 || r.Alerts[0].Maintenance {
			t.Errorf("after the window: %+v", r)
		}
	})
}

// An agent that starts within a window repeats nothing, and sends what lasts after the window.
func TestMaintenanceOverRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ", repeatInterval: 1h")
		w.stop()
		w.cfg.StateFile = filepath.Join(t.TempDir(), "notifications.json")
		w.run()
		w.setState("known", failure)
		time.Sleep(time.Minute)
		w.maintain("known", true)
		w.maintain("new", true)
		w.setState("new", failure)
		time.Sleep(time.Minute)
		w.stop()
		w.run()
		w.maintain("known", true)
		w.maintain("new", true)
		time.Sleep(time.Minute) // the probes are undecided
		w.setState("known", failure)
		w.setState("new", failure)
		time.Sleep(3 * time.Hour)
		w.expect("10s: known failure")
		w.maintain("known", false)
		w.maintain("new", false)
		time.Sleep(30 * time.Minute)
		w.expect("3h3m0.2s: known failure, new failure")
	})
}

// After random changes of states and windows, no message shows a failure that began in a window that has not
// ended, and the last message has the present state of each probe.
func TestMaintenanceModel(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomMaintenance(t, rand.New(rand.NewPCG(seed, 2))) })
		})
	}
}

func randomMaintenance(t *testing.T, random *rand.Rand) {
	w := newWorld(t, []string{"", ", groupBy: [pod]", ", groupWait: 0s", ", for: 2m, repeatInterval: 10m"}[random.IntN(4)])
	type state struct {
		now    states.State
		in     bool
		inside bool // the incident began inside the window, which has not ended
		told   bool
	}
	pods := map[string]*state{"a": {now: ok}, "b": {now: ok}, "c": {now: ok}, "d": {now: ok}}
	read := 0
	check := func() {
		t.Helper()
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		for ; read < len(w.letters); read++ {
			for _, p := range w.letters[read].Probes {
				s := pods[p.Pod]
				if failing := p.Status == format.Failing; failing && (s.inside && !s.told || s.in && w.letters[read].Repeated) {
					t.Errorf("%s: %s in a window", w.letters[read].at, w.letters[read].summary())
				}
				s.told = p.Status == format.Failing
			}
		}
	}
	for range 300 {
		pod := string(rune('a' + random.IntN(len(pods))))
		s := pods[pod]
		switch random.IntN(3) {
		case 0:
			s.in = !s.in
			s.inside = s.inside && s.in
			w.maintain(pod, s.in)
		default:
			to := []states.State{ok, failure}[random.IntN(2)]
			if to == failure && s.now == ok {
				s.inside = s.in
			}
			s.inside = s.inside && to == failure
			s.now = to
			w.setState(pod, to)
		}
		for range random.IntN(8) {
			time.Sleep(time.Duration(random.IntN(60)) * time.Second)
			check()
		}
		time.Sleep(300 * time.Millisecond) // a message of a moment ago may be under way
		check()
	}
	for pod := range pods {
		w.maintain(pod, false)
	}
	time.Sleep(time.Hour)
	for _, s := range pods {
		s.in, s.inside = false, false
	}
	check()
	for pod, s := range pods {
		if s.told != (s.now == failure) {
			t.Errorf("%s is %s, and the receiver knows of a failure: %t", pod, s.now, s.told)
		}
	}
}
