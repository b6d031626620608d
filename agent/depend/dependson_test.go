package depend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/agent/depend"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/probe"
)

// fleet has the probes of several groups. A pod is named GROUP-NUMBER, or GROUP as for a push. A test sets
// the outcome of each probe.
type fleet struct {
	*depend.Judge
	mu     sync.Mutex
	probes map[string]probe.Handler // by pod
	asked  map[string]int           // by pod
	paused map[string]bool          // by pod
	spec   probe.Spec
	ip     string
}

func newFleet(t *testing.T, rules depend.Rules) *fleet {
	f := &fleet{probes: make(map[string]probe.Handler), asked: make(map[string]int), paused: make(map[string]bool), spec: probe.Spec{Timeout: time.Second}, ip: "127.0.0.1"}
	f.Judge = depend.New(func(key manager.Key) error {
		pod := string(key.PodUID)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked[pod]++
		if !f.paused[pod] && f.probes[pod] != nil {
			go f.probe(pod)
		}
		return nil
	})
	f.Set(rules)
	t.Cleanup(func() { time.Sleep(time.Minute) }) // until the attempts of witnesses have ended
	return f
}

// on returns rules by which group depends on names.
func on(group string, names ...string) depend.Rules {
	return depend.Rules{DependsOn: map[string][]string{group: names}}
}

// add adds a probe of a pod without an attempt. It replaces another one.
func (f *fleet) add(pod string, h probe.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	probe.Release(f.probes[pod])
	f.probes[pod] = f.Wrap(h)
}

// pause makes triggers of a pod have no effect.
func (f *fleet) pause(pod string, paused bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused[pod] = paused
}

func (f *fleet) triggers(pod string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[pod]
}

// probe makes an attempt, and returns it as "result reason text" or "error reason text", with its duration.
func (f *fleet) probe(pod string) (string, time.Duration) {
	f.mu.Lock()
	h, spec := f.probes[pod], f.spec
	f.mu.Unlock()
	group, _, _ := strings.Cut(pod, "-")
	req := request(pod, group, f.ip)
	req.Spec = spec
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), spec.Timeout)
	defer cancel()
	out, err := h.Probe(ctx, req)
	if err != nil {
		return fmt.Sprintf("error %s %s", probe.ReasonOf(err), err), time.Since(start)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", out.Result, out.Reason, out.Output)), time.Since(start)
}

func fails(err error) probe.HandlerFunc {
	return func(context.Context, probe.Request) (probe.Outcome, error) { return probe.Outcome{}, err }
}

var (
	refused = answers(probe.Failure, probe.ReasonConnectRefused, "refused")
	broken  = answers(probe.Failure, probe.ReasonHTTPStatus, "status 500")
)

const behind = "error dependency depends on db, which fails: db-1: refused; own failure: status 500"

func TestDependent(t *testing.T) {
	for name, c := range map[string]struct {
		db   map[string]probe.HandlerFunc
		web  probe.HandlerFunc
		spec probe.Spec
		want string
	}{
		"both fail":                 {db: map[string]probe.HandlerFunc{"db-1": refused}, want: behind},
		"all of the dependency":     {db: map[string]probe.HandlerFunc{"db-2": broken, "db-1": refused}, want: behind},
		"one of the dependency":     {db: map[string]probe.HandlerFunc{"db-1": refused, "db-2": ok}, want: "failure http_status status 500"},
		"pod with the group's name": {db: map[string]probe.HandlerFunc{"db": refused}, want: strings.Replace(behind, "db-1: ", "", 1)},
		"dependency is well":        {db: map[string]probe.HandlerFunc{"db-1": ok}, want: "failure http_status status 500"},
		"dependency warns":          {db: map[string]probe.HandlerFunc{"db-1": answers(probe.Warning, "", "slow")}, want: "failure http_status status 500"},
		"dependency is unknown": {db: map[string]probe.HandlerFunc{"db-1": answers(probe.Unknown, "", "")},
			want: "error dependency depends on db, which fails: db-1: unknown; own failure: status 500"},
		"dependency times out": {db: map[string]probe.HandlerFunc{"db-1": fails(fmt.Errorf("ask: %w", context.DeadlineExceeded))},
			want: "error dependency depends on db, which fails: db-1: timed out after 1s; own failure: status 500"},
		"dependency has an error": {db: map[string]probe.HandlerFunc{"db-1": fails(errors.New("trap"))}, want: "failure http_status status 500"},
		"dependency has an error that counts": {db: map[string]probe.HandlerFunc{"db-1": fails(errors.New("trap"))}, spec: probe.Spec{ErrorPolicy: probe.CountAsFailure},
			want: "error dependency depends on db, which fails: db-1: trap; own failure: status 500"},
		"dependency on a troubled host": {db: map[string]probe.HandlerFunc{"db-1": fails(&probe.Error{Reason: probe.ReasonHostResources, Err: errors.New("no port")})},
			spec: probe.Spec{ErrorPolicy: probe.CountAsFailure}, want: "failure http_status status 500"},
		"no attempt of the dependency": {want: "failure http_status status 500"},
		"success":                      {db: map[string]probe.HandlerFunc{"db-1": refused}, web: ok, want: "success"},
		"warning":                      {db: map[string]probe.HandlerFunc{"db-1": refused}, web: answers(probe.Warning, "", "slow"), want: "warning  slow"},
		"unknown": {db: map[string]probe.HandlerFunc{"db-1": refused}, web: answers(probe.Unknown, "", "stale"),
			want: "error dependency depends on db, which fails: db-1: refused; own failure: stale"},
		"no response": {db: map[string]probe.HandlerFunc{"db-1": refused}, web: silent,
			want: "error dependency depends on db, which fails: db-1: refused; own failure: timed out after 1s"},
		"error": {db: map[string]probe.HandlerFunc{"db-1": refused}, web: fails(errors.New("trap")), want: "error internal trap"},
		"error that counts": {db: map[string]probe.HandlerFunc{"db-1": refused}, web: fails(errors.New("trap")), spec: probe.Spec{ErrorPolicy: probe.CountAsFailure},
			want: "error dependency depends on db, which fails: db-1: refused; own failure: trap"},
		"no slot": {db: map[string]probe.HandlerFunc{"db-1": refused}, web: fails(probe.ErrNoSlot), spec: probe.Spec{ErrorPolicy: probe.CountAsFailure},
			want: "error internal " + probe.ErrNoSlot.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, on("web", "db"))
				f.spec = c.spec
				f.spec.Timeout = time.Second
				for pod, h := range c.db {
					f.add(pod, h)
					f.probe(pod)
				}
				f.add("web-1", broken)
				if c.web != nil {
					f.add("web-1", c.web)
				}
				time.Sleep(time.Minute)
				if got, took := f.probe("web-1"); got != c.want || took > time.Second+time.Millisecond {
					t.Errorf("after %v: got %s\nwant %s", took, got, c.want)
				}
			})
		})
	}
}

// A probe that depends on nothing that fails neither waits nor triggers another one.
func TestBystander(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, on("web", "db"))
		for _, pod := range []string{"db-1", "other-1"} {
			f.add(pod, refused)
			time.Sleep(time.Minute)
			if got, took := f.probe(pod); got != "failure connect_refused refused" || took > 0 {
				t.Errorf("%s: after %v: %s", pod, took, got)
			}
		}
		if n := f.triggers("db-1"); n > 0 {
			t.Errorf("the dependency was triggered %d times", n)
		}
	})
}

// The order of the attempts of a target and of its dependency does not matter.
func TestDependencyIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, on("web", "db"))
		var up atomic.Bool
		up.Store(true)
		f.add("db-1", func(ctx context.Context, r probe.Request) (probe.Outcome, error) {
			if up.Load() {
				return ok(ctx, r)
			}
			return refused(ctx, r)
		})
		f.add("web-1", broken)
		check := func(what, want string) {
			t.Helper()
			time.Sleep(time.Minute)
			if got, took := f.probe("web-1"); got != want || took > 200*time.Millisecond {
				t.Errorf("%s: after %v: %s", what, took, got)
			}
		}
		f.probe("db-1")
		up.Store(false)
		check("the dependency goes down first", behind)
		up.Store(true)
		check("the dependency came back since its last attempt", behind)
		check("the dependency is well", "failure http_status status 500")
		f.add("web-1", func(ctx context.Context, r probe.Request) (probe.Outcome, error) {
			up.Store(false)
			f.probe("db-1")
			up.Store(true)
			f.probe("db-1")
			return broken(ctx, r)
		})
		check("the dependency was down meanwhile", behind)
		f.add("web-1", broken)
		check("the dependency is well again", "failure http_status status 500")
	})
}

// In a chain, each group names the group on which it depends itself. No attempt waits for the end of the wait
// of another one.
func TestChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, depend.Rules{DependsOn: map[string][]string{"web": {"cache", "db"}, "db": {"disk"}}})
		f.spec.Timeout = 20 * time.Second
		f.add("disk-1", func(context.Context, probe.Request) (probe.Outcome, error) {
			time.Sleep(2 * time.Second)
			return probe.Outcome{Result: probe.Failure, Output: "full"}, nil
		})
		f.add("cache-1", ok)
		f.add("db-1", refused)
		f.add("web-1", broken)
		f.probe("disk-1")
		f.probe("cache-1")
		time.Sleep(time.Minute)
		for range 2 { // first the db has made no attempt
			const want = "error dependency depends on disk, which fails: disk-1: full; own failure: refused"
			if got, took := f.probe("db-1"); got != want || took != 2*time.Second {
				t.Errorf("db: after %v: %s", took, got)
			}
			time.Sleep(time.Minute)
			if got, took := f.probe("web-1"); got != behind || took != 0 {
				t.Errorf("web: after %v: %s", took, got)
			}
			time.Sleep(time.Minute)
		}
	})
}

// An attempt of a dependency that takes long has the result of the one before it. Without an attempt, the
// dependency does not fail.
func TestSlowAndPausedDependency(t *testing.T) {
	for name, c := range map[string]struct {
		paused bool
		want   string
		took   []time.Duration // of the first two attempts
	}{
		"slow":   {false, strings.Replace(behind, "refused", "timed out after 20s", 1), []time.Duration{3 * time.Second, 3 * time.Second}},
		"paused": {true, "failure http_status status 500", []time.Duration{3 * time.Second, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, on("web", "db"))
				f.spec.Timeout = 20 * time.Second
				f.add("db-1", func(ctx context.Context, r probe.Request) (probe.Outcome, error) {
					<-ctx.Done()
					return probe.TimedOut(r.Spec.Timeout), nil
				})
				f.add("web-1", broken)
				f.probe("db-1")
				f.pause("db-1", c.paused)
				for i, took := range c.took {
					time.Sleep(time.Minute)
					var all sync.WaitGroup
					for range 2 {
						all.Go(func() {
							if got, after := f.probe("web-1"); got != c.want || after != took {
								t.Errorf("attempt %d: after %v: %s", i, after, got)
							}
						})
					}
					all.Wait()
				}
			})
		})
	}
}

// A probe of a dependency that gets no slot makes no attempt: the others decide.
func TestDependencyWithoutSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, on("web", "db"))
		var full atomic.Bool
		f.add("db-1", refused)
		f.add("db-2", func(ctx context.Context, r probe.Request) (probe.Outcome, error) {
			if full.Load() {
				return probe.Outcome{}, probe.ErrNoSlot
			}
			return ok(ctx, r)
		})
		f.add("web-1", broken)
		f.probe("db-1")
		f.probe("db-2")
		full.Store(true)
		time.Sleep(time.Minute)
		for _, want := range []time.Duration{3 * time.Second, 0} {
			if got, took := f.probe("web-1"); got != behind || took != want {
				t.Errorf("after %v: %s", took, got)
			}
			time.Sleep(time.Minute)
		}
	})
}

// The result of an attempt that ends late counts neither after a newer one nor after the end of its probe.
func TestLateAttempts(t *testing.T) {
	late := func(ctx context.Context, r probe.Request) (probe.Outcome, error) {
		time.Sleep(time.Minute)
		return refused(ctx, r)
	}
	for name, end := range map[string]func(f *fleet){
		"newer attempt": func(f *fleet) { f.probe("db-1") },
		"end":           func(f *fleet) { probe.Release(f.probes["db-1"]) },
	} {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, first %t", name, first), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFleet(t, on("web", "db"))
					var isLate atomic.Bool
					f.add("db-1", func(ctx context.Context, r probe.Request) (probe.Outcome, error) {
						if isLate.Load() {
							return late(ctx, r)
						}
						return ok(ctx, r)
					})
					f.add("web-1", broken)
					if !first {
						f.probe("db-1")
					}
					isLate.Store(true)
					go f.probe("db-1")
					synctest.Wait()
					isLate.Store(false)
					end(f)
					time.Sleep(time.Hour)
					if got, took := f.probe("web-1"); got != "failure http_status status 500" || took != 0 {
						t.Errorf("after %v: %s", took, got)
					}
				})
			})
		}
	}
}

// While the network is lost, an attempt without a response has the reason of the uplink, and is no failure of
// a dependency. Both together take no longer than one.
func TestUplinkAndDependency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, depend.Rules{Uplink: []string{"gw"}, DependsOn: map[string][]string{"web": {"db"}}})
		f.ip = "10.0.0.1"
		f.add("gw-1", silent)
		f.add("db-1", silent)
		f.add("web-1", silent)
		f.probe("gw-1")
		const lost = "error host_network timed out after 1s; no witness of the uplink responded: gw-1: timed out after 1s"
		for _, pod := range []string{"db-1", "web-1"} {
			if got, took := f.probe(pod); got != lost || took > 5*time.Second {
				t.Errorf("%s: after %v: %s", pod, took, got)
			}
		}
		f.add("web-1", broken)
		if got, took := f.probe("web-1"); got != "failure http_status status 500" || took != 2*time.Second {
			t.Errorf("a failure with a response: after %v: %s", took, got)
		}
		f.pause("db-1", true)
		f.pause("gw-1", true)
		f.add("web-1", silent)
		time.Sleep(time.Minute)
		if got, took := f.probe("web-1"); got != "failure deadline timed out after 1s" || took != 4*time.Second {
			t.Errorf("neither makes attempts: after %v: %s", took, got)
		}
	})
}

// Changed rules apply at once. A set that stays keeps its results.
func TestSetKeepsResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, on("web", "db"))
		f.add("db-1", func(ctx context.Context, r probe.Request) (probe.Outcome, error) {
			time.Sleep(10 * time.Second)
			return refused(ctx, r)
		})
		f.add("web-1", broken)
		f.add("shop-1", broken)
		f.probe("db-1")
		f.Set(depend.Rules{DependsOn: map[string][]string{"web": {"db"}, "shop": {"db"}}})
		if got, _ := f.probe("shop-1"); got != behind {
			t.Errorf("a new dependent: %s", got)
		}
		time.AfterFunc(time.Second, func() { f.Set(on("shop", "db")) })
		if got, _ := f.probe("web-1"); got != behind {
			t.Errorf("it began as a dependent: %s", got)
		}
		if got, took := f.probe("web-1"); got != "failure http_status status 500" || took != 0 {
			t.Errorf("no dependent: after %v: %s", took, got)
		}
	})
}

// The end of a dependency, of the dependencies or of the agent ends every wait.
func TestEndsOfDependencies(t *testing.T) {
	for name, end := range map[string]func(*fleet){
		"of the agent":            func(f *fleet) { f.Close() },
		"of the dependency":       func(f *fleet) { f.mu.Lock(); defer f.mu.Unlock(); probe.Release(f.probes["db-1"]) },
		"of the dependencies":     func(f *fleet) { f.Set(depend.Rules{}) },
		"as another one is added": func(f *fleet) { f.Set(on("web", "disk")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, on("web", "db"))
				f.add("db-1", ok)
				f.add("web-1", broken)
				f.probe("db-1")
				f.pause("db-1", true)
				time.Sleep(time.Minute)
				time.AfterFunc(time.Second, func() { end(f) })
				if got, took := f.probe("web-1"); got != "failure http_status status 500" || took != time.Second {
					t.Errorf("after %v: %s", took, got)
				}
			})
		})
	}
}

// Many targets that fail trigger many probes of a dependency at most five times a second.
func TestManyDependents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		f := newFleet(t, on("web", "db"))
		for i := range n {
			f.add(fmt.Sprintf("db-%d", i), refused)
			f.add(fmt.Sprintf("web-%d", i), broken)
			f.probe(fmt.Sprintf("db-%d", i))
		}
		start := time.Now()
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				if got, took := f.probe(fmt.Sprintf("web-%d", i)); !strings.HasPrefix(got, "error dependency depends on db, which fails: db-") || took > 200*time.Millisecond {
					t.Errorf("after %v: %s", took, got)
				}
			})
		}
		all.Wait()
		if most := int(time.Since(start)/(200*time.Millisecond)) + 2; f.triggers("db-7") > most {
			t.Errorf("a probe of the dependency was triggered %d times, want at most %d", f.triggers("db-7"), most)
		}
	})
}

// Attempts that succeed allocate nothing, whatever the role of their group is.
func TestSuccessAllocatesNothing(t *testing.T) {
	j := depend.New(func(manager.Key) error { return nil })
	j.Set(depend.Rules{Uplink: []string{"gw"}, DependsOn: map[string][]string{"web": {"db"}}})
	for _, group := range []string{"web", "db", "gw", "other"} {
		h, req, ctx := j.Wrap(ok), request(group+"-1", group, "10.0.0.1"), t.Context()
		if got := testing.AllocsPerRun(100, func() { _, _ = h.Probe(ctx, req) }); got > 0 {
			t.Errorf("%s: %v allocations", group, got)
		}
	}
}

// FuzzUplinkDown compares UplinkDown after random attempts and ends of four witnesses with their last results.
func FuzzUplinkDown(f *testing.F) {
	f.Add([]byte{0, 4, 1, 5})
	f.Add([]byte{4, 5, 8, 12, 4, 1})
	outcomes := []probe.HandlerFunc{ok, answers(probe.Failure, probe.ReasonConnectTimeout, "no answer"), fails(errors.New("trap"))}
	f.Fuzz(func(t *testing.T, steps []byte) {
		j := depend.New(func(manager.Key) error { return nil })
		j.Set(depend.Rules{Uplink: []string{"gw"}})
		var next probe.HandlerFunc
		handlers, down := make(map[byte]probe.Handler), make(map[byte]bool) // down has witnesses with a result
		for _, step := range steps {
			witness, action := step%4, int(step/4)%(len(outcomes)+1)
			if handlers[witness] == nil {
				handlers[witness] = j.Wrap(probe.HandlerFunc(func(ctx context.Context, r probe.Request) (probe.Outcome, error) { return next(ctx, r) }))
			}
			delete(down, witness)
			if action == len(outcomes) {
				probe.Release(handlers[witness])
				delete(handlers, witness)
			} else {
				next = outcomes[action]
				_, _ = handlers[witness].Probe(t.Context(), request(fmt.Sprintf("gw-%d", witness), "gw", "10.0.0.1"))
			}
			if action < 2 {
				down[witness] = action == 1
			}
			want := len(down) > 0
			for _, isDown := range down {
				want = want && isDown
			}
			if got := j.UplinkDown(); got != want {
				t.Fatalf("after step %d of %v: got %t, want %t", step, steps, got, want)
			}
		}
	})
}

// BenchmarkSuccess measures successful attempts of a group without a role, of a dependent group and of its
// dependency.
func BenchmarkSuccess(b *testing.B) {
	for _, c := range []struct {
		name  string
		rules depend.Rules
		group string
	}{
		{"rules=none", depend.Rules{}, "web"},
		{"rules=other", on("a", "b"), "web"},
		{"rules=dependent", on("web", "db"), "web"},
		{"rules=dependency", on("web", "db"), "db"},
	} {
		b.Run(c.name, func(b *testing.B) {
			j := depend.New(func(manager.Key) error { return nil })
			j.Set(c.rules)
			b.RunParallel(func(pb *testing.PB) {
				h, req, ctx := j.Wrap(ok), request("pod", c.group, "10.0.0.1"), b.Context()
				for pb.Next() {
					_, _ = h.Probe(ctx, req)
				}
			})
		})
	}
}
