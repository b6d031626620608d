package maintenance_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/maintenance"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/window"
	"github.com/daeace23/prober/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a table with probes, and a record of its calls.
type rig struct {
	t *testing.T
	*maintenance.Table
	observers map[string]worker.ProbeObserver
	offset    atomic.Int64 // of the wall clock

	mu   sync.Mutex
	said []string
	now  map[string]string // names of the windows of probes, as of the calls
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, observers: make(map[string]worker.ProbeObserver), now: make(map[string]string)}
	r.Table = maintenance.New(maintenance.Config{
		Changed: r.changed, Log: slog.New(slog.DiscardHandler),
		Began: func(w *maintenance.Window) { r.say("began " + w.Name) },
		Ended: func(w *maintenance.Window) { r.say("ended " + w.Name) },
		Now:   func() time.Time { return time.Now().Add(time.Duration(r.offset.Load())) },
	})
	t.Cleanup(r.Close)
	return r
}

func (r *rig) say(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, text)
}

func (r *rig) changed(all []maintenance.Change) {
	var words []string
	for _, c := range all {
		word := c.Info.Pod + ":"
		r.mu.Lock()
		delete(r.now, c.Info.Pod)
		if c.Now != nil {
			word += c.Now.Name
			r.now[c.Info.Pod] = c.Now.Name
		}
		if len(c.Receivers) > 0 {
			word += fmt.Sprint(c.Receivers)
		}
		r.mu.Unlock()
		words = append(words, word)
	}
	slices.Sort(words)
	r.say(strings.Join(words, " "))
}

// take returns the calls since the last one.
func (r *rig) take() string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	said := r.said
	r.said = nil
	return strings.Join(said, ", ")
}

func (r *rig) expect(when, want string) {
	r.t.Helper()
	if got := r.take(); got != want {
		r.t.Errorf("%s: got %q, want %q", when, got, want)
	}
}

func info(pod string, labels map[string]string) worker.Info {
	return worker.Info{
		Subject: results.Subject{Namespace: "shop", Pod: pod, PodUID: "uid-" + pod, Container: "web"}, Kind: probe.Readiness, Handler: "http",
		PodMeta: &probe.Pod{Labels: labels},
	}
}

func (r *rig) add(pods ...string) {
	for _, pod := range pods {
		r.observers[pod] = r.Observe(info(pod, nil))
	}
}

// match returns entries for pods.
func match(patterns ...string) (all []config.ProbeMatch) {
	for _, p := range patterns {
		all = append(all, config.ProbeMatch{Pod: p})
	}
	return all
}

// once returns a window from and until times after the present one.
func once(t *testing.T, name string, from, until time.Duration, patterns ...string) config.Maintenance {
	t.Helper()
	w, err := window.Once(time.Now().Add(from), time.Now().Add(until))
	if err != nil {
		t.Fatal(err)
	}
	return config.Maintenance{Name: name, Match: match(patterns...), Window: w, Uptime: config.UptimeExclude}
}

func TestWindowsBeginAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.add("db-1", "db-2", "web")
		r.Set([]config.Maintenance{
			once(t, "past", -2*time.Hour, -time.Hour, "*"), once(t, "begun", -time.Hour, time.Hour, "web"), once(t, "later", 30*time.Minute, 2*time.Hour, "db-*"),
			once(t, "unused", time.Minute, 2*time.Minute, "none"),
		})
		r.expect("a window that begins in the past", "began begun, web:begun")
		time.Sleep(30*time.Minute - time.Second)
		r.expect("without probes", "began unused, ended unused")
		time.Sleep(time.Second)
		r.expect("at its begin", "began later, db-1:later db-2:later")
		time.Sleep(30 * time.Minute)
		r.expect("at the end", "ended begun, web:")
		r.add("db-3")
		r.expect("a new probe", "db-3:later")
		r.observers["db-1"].Close()
		r.expect("a probe that ends", "db-1:")
		time.Sleep(time.Hour)
		r.expect("at its end", "ended later, db-2: db-3:")
		time.Sleep(24 * time.Hour)
		r.expect("after all", "")
	})
}

func TestWindowsOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.add("web")
		short, long := once(t, "short", time.Hour, 3*time.Hour, "web"), once(t, "long", 2*time.Hour, 4*time.Hour, "web")
		long.Uptime = config.UptimeCount
		r.Set([]config.Maintenance{short, long})
		key := manager.Key{PodUID: "uid-web", Container: "web", Kind: probe.Readiness}
		for _, want := range []struct {
			calls, name string
			left        time.Duration
			spared      bool
		}{
			{"began short, web:short", "short", 2 * time.Hour, true},
			{"began long, web:long", "long", 2 * time.Hour, true},
			{"ended short, web:long", "long", time.Hour, false}, // reports count its time again
			{"ended long, web:", "", 0, false},
		} {
			time.Sleep(time.Hour)
			r.expect("hour", want.calls)
			got := maintenance.Active{Until: time.Now()}
			if a := r.Of(key); a != nil {
				got = *a
			}
			if got.Name != want.name || time.Until(got.Until) != want.left || got.Spared != want.spared {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
	})
}

// A window of receivers puts its probes in no maintenance, and one of all receivers is independent of it.
func TestWindowsOfReceivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.add("a", "b")
		start := func(name string, from, until time.Duration, receivers []string, patterns ...string) {
			t.Helper()
			w := byClient(t, name, from, until, patterns...)
			w.Receivers = receivers
			if _, _, err := r.Start(w); err != nil {
				t.Error(err)
			}
		}
		start("one", 0, 4*time.Hour, []string{"ops", "pager"}, "a")
		r.expect("one", "began one, a:[ops pager]")
		start("two", time.Hour, 2*time.Hour, []string{"mail", "ops"})
		time.Sleep(time.Hour)
		r.expect("two", "began two, a:[mail ops pager] b:[mail ops]")
		if w, ok := r.Silence("ops"); w.Name != "one" || !ok {
			t.Errorf("ops: %+v", w)
		}
		if w, ok := r.Silence("mail"); w.Name != "two" || !ok {
			t.Errorf("mail: %+v", w)
		}
		if len(slices.Collect(r.Probes())) > 0 {
			t.Error("probes are in maintenance")
		}
		start("all", 0, 4*time.Hour, nil, "b")
		r.expect("all", "began all, b:all[mail ops]")
		r.observers["c"] = r.Observe(info("c", nil))
		r.expect("new", "c:[mail ops]")
		time.Sleep(time.Hour)
		r.expect("end of two", "ended two, a:[ops pager] b:all c:")
		if w, ok := r.Silence("mail"); ok {
			t.Errorf("mail: %+v", w)
		}
		again := r.Observe(info("a", nil)) // replaces the probe
		r.observers["a"].Close()
		r.expect("replaced", "a:[ops pager]")
		if err := r.End("one"); err != nil {
			t.Error(err)
		}
		r.expect("end of one", "ended one, a:")
		again.Close()
	})
}

func TestSetReplacesWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.add("a", "b")
		first := once(t, "w", 0, time.Hour, "a")
		r.Set([]config.Maintenance{first})
		r.expect("set", "began w, a:w")
		r.Set([]config.Maintenance{first, once(t, "other", time.Hour, 2*time.Hour)})
		r.expect("unchanged", "")
		first.Match = match("b")
		r.Set([]config.Maintenance{first})
		r.expect("other probes", "a: b:w")
		first.Reason = "disks"
		r.Set([]config.Maintenance{first})
		r.expect("another reason", "b:w")
		r.Set([]config.Maintenance{once(t, "w", time.Hour, 2*time.Hour, "b")})
		r.expect("a later begin", "ended w, b:")
		r.Set([]config.Maintenance{first})
		r.expect("an earlier begin", "began w, b:w")
		r.Set(nil)
		r.expect("removed", "ended w, b:")
		time.Sleep(3 * time.Hour)
		r.expect("after the removal", "")
	})
}

func TestLabelsChangeWithinWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		all, err := config.ParseMatch("f", []byte(`[{"labels": "tier=data"}, {"handler": "redis"}]`))
		if err != nil {
			t.Fatal(err)
		}
		w := once(t, "w", 0, time.Hour)
		w.Match = all
		r.Set([]config.Maintenance{w})
		r.observers["db"] = r.Observe(info("db", map[string]string{"tier": "data"}))
		r.add("web")
		r.expect("two probes", "began w, db:w")
		redis := info("web", nil)
		redis.Handler = "redis"
		r.Relabel([]worker.Info{info("db", map[string]string{"tier": "web"}), redis, info("unknown", map[string]string{"tier": "data"})})
		r.expect("other labels, another handler", "db:, web:w")
		r.Relabel([]worker.Info{info("web", map[string]string{"tier": "data"})})
		r.expect("labels instead of the handler", "")
	})
}

// While a probe is replaced, two workers have its name.
func TestReplacedProbeStaysInWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.Set([]config.Maintenance{once(t, "w", 0, time.Hour)})
		old, next := r.Observe(info("a", nil)), r.Observe(info("a", nil))
		old.Close()
		r.expect("replaced", "began w, a:w, a:w")
		next.Close()
		r.expect("removed", "a:")
	})
}

// The wall clock decides, also if it is set or the host sleeps. Until a window notices, a minute may pass.
func TestClockIsSet(t *testing.T) {
	for name, c := range map[string]struct {
		from, until time.Duration
		jump        time.Duration
		want        string
	}{
		"forward into a window":   {time.Hour, 2 * time.Hour, 90 * time.Minute, "began w, a:w"},
		"forward over a window":   {time.Hour, 2 * time.Hour, 3 * time.Hour, ""},
		"forward out of it":       {-time.Hour, time.Hour, 2 * time.Hour, "began w, a:w, ended w, a:"},
		"back out of it":          {-time.Hour, time.Hour, -2 * time.Hour, "began w, a:w, ended w, a:"},
		"back before its end":     {-time.Hour, 30 * time.Second, -30 * time.Minute, "began w, a:w"},
		"back into a past window": {-2 * time.Hour, -time.Hour, -90 * time.Minute, "began w, a:w"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.add("a")
				r.Set([]config.Maintenance{once(t, "w", c.from, c.until, "a"), once(t, "far", 1000*time.Hour, 1001*time.Hour, "a")})
				synctest.Wait()
				r.offset.Store(int64(c.jump))
				time.Sleep(time.Minute)
				r.expect(name, c.want)
			})
		})
	}
}

// A span of two hours from 2:30 in Berlin, in the nights in which the clock is changed.
//
// Reported as gatus 327; uptime-kuma 6233, 4856, 3626.
func TestScheduleOverChangesOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := head + "maintenance: [{name: w, schedule: '30 2 * * *', duration: 2h, timeZone: Europe/Berlin}]\n"
		c, err := config.Parse("f", []byte(spec))
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t)
		for _, begin := range []string{"2000-03-26T01:00:00Z", "2000-10-29T00:30:00Z"} {
			at, err := time.Parse(time.RFC3339, begin)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Until(at) - time.Second)
			r.Set(c.Maintenance)
			r.take()
			time.Sleep(time.Second)
			r.expect(begin, "began w")
			time.Sleep(2*time.Hour - time.Second)
			r.expect("a second before the end", "")
			time.Sleep(time.Second)
			r.expect("at the end", "ended w")
			r.Set(nil)
		}
	})
}

const head = "apiVersion: prober.dev/v1\nkind: AgentConfig\n"

func TestClosedTableBeginsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.add("a")
		r.Set([]config.Maintenance{once(t, "w", time.Hour, 2*time.Hour)})
		r.Set([]config.Maintenance{once(t, "now", 0, time.Hour), once(t, "w", time.Hour, 2*time.Hour)})
		r.expect("before", "began now, a:now")
		r.Close()
		time.Sleep(3 * time.Hour)
		r.observers["a"].Close()
		r.expect("closed", "")
	})
}

// After each random change, the table and its calls agree with a look at all windows.
func TestTableAgreesWithModel(t *testing.T) {
	for range 50 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			r := newRig(t)
			var windows []config.Maintenance
			live := make(map[string]map[string]string)
			for range 60 {
				pod := fmt.Sprint("p", random.IntN(6))
				labels := map[string]string{"l": fmt.Sprint(random.IntN(2))}
				switch random.IntN(6) {
				case 0:
					windows = nil
					for i := range random.IntN(4) {
						from := time.Duration(random.IntN(20)-10) * time.Minute
						w := once(t, fmt.Sprint("w", i), from, from+time.Duration(1+random.IntN(20))*time.Minute, fmt.Sprintf("p[%d-%d]", random.IntN(3), 2+random.IntN(4)))
						if random.IntN(2) == 0 {
							w.Match, _ = config.ParseMatch("f", []byte(`[{"labels": "l=1"}]`))
						}
						windows = append(windows, w)
					}
					r.Set(windows)
				case 1:
					if _, ok := live[pod]; !ok {
						live[pod], r.observers[pod] = labels, r.Observe(info(pod, labels))
					}
				case 2:
					if _, ok := live[pod]; ok {
						r.observers[pod].Close()
						delete(live, pod)
					}
				case 3:
					if _, ok := live[pod]; ok {
						live[pod] = labels
						r.Relabel([]worker.Info{info(pod, labels)})
					}
				default:
					time.Sleep(time.Duration(random.IntN(5*60)) * time.Second)
				}
				synctest.Wait()
				want := make(map[string]string)
				for pod, labels := range live {
					if name := inWindow(windows, pod, labels); name != "" {
						want[pod] = name
					}
				}
				if diff := cmp.Diff(want, r.now); diff != "" {
					t.Fatalf("seed %d: %s", seed, diff)
				}
				for pod := range live {
					a := r.Of(manager.Key{PodUID: types.UID("uid-" + pod), Container: "web", Kind: probe.Readiness})
					if got := want[pod]; (a == nil) != (got == "") || a != nil && a.Name != got {
						t.Fatalf("seed %d: %s: %+v, want %q", seed, pod, a, got)
					}
				}
			}
		})
	}
}

// inWindow returns the window of a probe that ends last; the first name of several.
func inWindow(windows []config.Maintenance, pod string, labels map[string]string) (name string) {
	var until time.Time
	for i := range windows {
		w := &windows[i]
		facts := &config.ProbeFacts{Namespace: "shop", Pod: pod, Container: "web", Kind: "readiness", Handler: "http", Labels: labels}
		if _, end := w.Window.Next(time.Now()); w.Window.Contains(time.Now()) && config.MatchesAny(w.Match, facts) && end.After(until) {
			name, until = w.Name, end
		}
	}
	return name
}
