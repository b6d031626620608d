package manager_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daeace23/prober/core/endpoint"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// checkHandler is a handler of one check, which counts its releases.
type checkHandler struct {
	probe.HandlerFunc
	released atomic.Int32
}

func (h *checkHandler) Release() { h.released.Add(1) }

func (h *checkHandler) Describe(name string, req *probe.Request) string {
	return name + " " + req.Target.Address()
}

// checksRig is a rig with one pod, whose checks are answered by the handler of their name.
type checksRig struct {
	*rig
	ticks []worker.Tick
	bound map[string][]*checkHandler
}

func newChecksRig(t *testing.T, handlers map[string]probe.HandlerFunc) *checksRig {
	r := &checksRig{bound: make(map[string][]*checkHandler)}
	observe := observerFunc(func(t *worker.Tick) {
		tick := *t
		if t.Trace != nil {
			tick.Trace = &worker.Trace{Events: slices.Clone(t.Trace.Events)}
		}
		r.ticks = append(r.ticks, tick)
	})
	r.rig = newRig(t, resolveSecrets, func(cfg *manager.Config) {
		cfg.Observers, cfg.History = []worker.Observer{observe}, 1<<20
		cfg.Handlers = prepareNamed(func(name string) (probe.Handler, error) {
			if handlers[name] == nil {
				return nil, errors.New("no such plugin")
			}
			h := &checkHandler{HandlerFunc: handlers[name]}
			r.bound[name] = append(r.bound[name], h)
			return h, nil
		})
	})
	return r
}

type prepareNamed func(name string) (probe.Handler, error)

func (p prepareNamed) Prepare(name string, _ []byte, _ probe.Target) (probe.Handler, error) {
	return p(name)
}

func answers(r probe.Result, output string) probe.HandlerFunc {
	return func(context.Context, probe.Request) (probe.Outcome, error) {
		return probe.Outcome{Result: r, Output: output}, nil
	}
}

// start adds a pod with this readiness probe, and returns the first tick.
func (r *checksRig) start(readiness string) worker.Tick {
	r.t.Helper()
	pod := annotated("web: {readiness: {" + readiness + ", period: 1s, timeout: 500ms}}")
	r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
	r.add(pod)
	r.wait(900 * ms)
	if len(r.ticks) == 0 {
		r.t.Fatal("no tick")
	}
	return r.ticks[0]
}

// TestCombinedChecksFollowRule compares a probe of random checks with [endpoint.Rule.Decide].
func TestCombinedChecksFollowRule(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n := 1 + random.IntN(5)
		parts, handlers, total := make([]endpoint.Part, n), make(map[string]probe.HandlerFunc), 0
		var list []string
		failed := false
		for i := range parts {
			name := fmt.Sprintf("c%d", i)
			p := endpoint.Part{Name: name, Weight: 1 + random.IntN(3), Text: "text of " + name}
			total += p.Weight
			list = append(list, fmt.Sprintf("%s: {plugin: {name: %s}, weight: %d}", name, name, p.Weight))
			result := probe.Result(random.IntN(5))
			p.State = []states.State{states.Unknown, states.Success, states.Warning, states.Failure, states.Unknown}[result]
			handlers[name] = answers(result, p.Text)
			if result == 4 {
				failed = true
				handlers[name] = func(context.Context, probe.Request) (probe.Outcome, error) {
					return probe.Outcome{}, errors.New(p.Text)
				}
			}
			parts[i] = p
		}
		rule := endpoint.Rule{Mode: endpoint.AtLeast, Min: 1 + random.IntN(total)}
		want := rule.Decide(parts)
		bubble(t, fmt.Sprintf("%d of %v", rule.Min, list), func(t *testing.T) {
			r := newChecksRig(t, handlers)
			tick := r.start(fmt.Sprintf("atLeast: {min: %d, of: {%s}}", rule.Min, strings.Join(list, ", ")))
			switch {
			case tick.Err != nil:
				if want.State != states.Unknown || !failed || tick.Err.Error() != want.Reason || tick.Attempts != probe.MaxAttempts {
					t.Errorf("%d attempts, error %q, want %+v", tick.Attempts, tick.Err, want)
				}
			case tick.Outcome.Result.String() != want.State.String():
				t.Errorf("result %v, want %v", tick.Outcome.Result, want.State)
			case want.State != states.Success && tick.Outcome.Output != want.Reason:
				t.Errorf("output %q, want %q", tick.Outcome.Output, want.Reason)
			}
		})
	}
}

func TestCombinedChecks(t *testing.T) {
	bubble(t, "checks run at once, and one that hangs fails at the timeout", func(t *testing.T) {
		slow := func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			time.Sleep(400 * ms)
			return probe.Outcome{Result: probe.Success}, nil
		}
		hang := func(ctx context.Context, req probe.Request) (probe.Outcome, error) {
			<-ctx.Done()
			return probe.Outcome{}, ctx.Err()
		}
		r := newChecksRig(t, map[string]probe.HandlerFunc{"slow": slow, "hang": hang})
		tick := r.start("all: {a: {plugin: {name: slow}}, b: {plugin: {name: slow}}, c: {plugin: {name: hang}}}")
		if got := tick.End.Sub(tick.Start); got != 500*ms || tick.Outcome.Result != probe.Failure || tick.Attempts != 1 {
			t.Errorf("%v after %v: %+v", tick.Outcome.Result, got, tick)
		}
		if want := "1 of 3 checks fail: c: " + probe.TimedOut(500*ms).Output; tick.Outcome.Output != want || tick.Outcome.Reason != probe.TimedOut(500*ms).Reason {
			t.Errorf("%q with %q, want %q", tick.Outcome.Output, tick.Outcome.Reason, want)
		}
	})
	bubble(t, "a check that panics or ends its goroutine is unknown, and the others decide", func(t *testing.T) {
		r := newChecksRig(t, map[string]probe.HandlerFunc{
			"panics": func(context.Context, probe.Request) (probe.Outcome, error) { panic("oops") },
			"exits": func(context.Context, probe.Request) (probe.Outcome, error) {
				runtime.Goexit()
				return probe.Outcome{}, nil
			},
			"good": answers(probe.Success, "ok"),
		})
		tick := r.start("any: {a: {plugin: {name: panics}}, b: {plugin: {name: exits}}, c: {plugin: {name: good}}}")
		if want := "1 of 3 checks succeed; a is unknown: the handler panicked: oops; b is unknown: " + probe.ErrGoexit.Error(); tick.Err != nil || tick.Outcome.Output != want {
			t.Errorf("%v, %q, want %q", tick.Err, tick.Outcome.Output, want)
		}
		r.wantCached(probe.Readiness, "c1", results.Success)
	})
	bubble(t, "every check has its own target, description and trace", func(t *testing.T) {
		var targets [2]probe.Target
		see := func(i int) probe.HandlerFunc {
			return func(_ context.Context, req probe.Request) (probe.Outcome, error) {
				targets[i] = req.Target
				req.Trace.Phase("connect", "", time.Now())
				return probe.Outcome{Result: probe.Success, Metrics: []probe.Metric{{Name: "x", Value: float64(i)}}}, nil
			}
		}
		r := newChecksRig(t, map[string]probe.HandlerFunc{"first": see(0), "second": see(1)})
		tick := r.start("all: {a: {plugin: {name: first, target: {port: redis}}}, b: {plugin: {name: second, target: {host: db, port: 5}}}}")
		if targets != [2]probe.Target{{Host: "10.0.0.1", Port: 6379}, {Host: "db", Port: 5}} {
			t.Errorf("targets %+v", targets)
		}
		if got := r.status("uid", "web", probe.Readiness).Target; got != "all of a (first 10.0.0.1:6379), b (second db:5)" {
			t.Errorf("target %q", got)
		}
		var names []string
		for _, e := range tick.Trace.Events {
			names = append(names, e.Name)
		}
		if want := []string{"a", "a: connect", "b", "b: connect"}; !slices.Equal(names, want) {
			t.Errorf("trace %q, want %q", names, want)
		}
		if got := fmt.Sprint(tick.Outcome.Metrics); got != "[{x 0  map[check:a]} {x 1  map[check:b]}]" {
			t.Errorf("metrics %s", got)
		}
	})
	bubble(t, "events after the attempt of a check are dropped", func(t *testing.T) {
		late := func(_ context.Context, req probe.Request) (probe.Outcome, error) {
			go func() {
				for range 100 {
					req.Trace.Phase("late", "", time.Now())
				}
			}()
			return probe.Outcome{Result: probe.Success}, nil
		}
		r := newChecksRig(t, map[string]probe.HandlerFunc{"late": late})
		if tick := r.start("all: {a: {plugin: {name: late}}, b: {plugin: {name: late}}}"); tick.Outcome.Result != probe.Success || len(tick.Trace.Events) > 2*65 {
			t.Errorf("%v, %d events", tick.Outcome.Result, len(tick.Trace.Events))
		}
	})
	bubble(t, "an error of the host goes first", func(t *testing.T) {
		fails := func(err error) probe.HandlerFunc {
			return func(context.Context, probe.Request) (probe.Outcome, error) { return probe.Outcome{}, err }
		}
		r := newChecksRig(t, map[string]probe.HandlerFunc{
			"bug": fails(errors.New("bug")), "host": fails(&probe.Error{Reason: probe.ReasonHostNetwork, Err: errors.New("no network")}),
		})
		if tick := r.start("all: {a: {plugin: {name: bug}}, b: {plugin: {name: host}}}, errorPolicy: failure, failureThreshold: 1"); !probe.IsHostTrouble(tick.Err) {
			t.Errorf("error %v", tick.Err)
		}
		r.wantCached(probe.Readiness, "c1", results.Failure) // the initial one
	})
}

func TestCombinedChecksAreReleasedOnce(t *testing.T) {
	bubble(t, "at a change of one check, at an error, and at the end", func(t *testing.T) {
		r := newChecksRig(t, map[string]probe.HandlerFunc{"x": answers(probe.Success, "ok"), "w": answers(probe.Success, "ok")})
		r.start("all: {a: {plugin: {name: x}}, b: {plugin: {name: w, config: {n: 1}}}}")
		state := func() (all []int32) {
			for _, h := range slices.Concat(r.bound["x"], r.bound["w"]) {
				all = append(all, h.released.Load())
			}
			return all
		}
		same := annotated("web: {readiness: {all: {b: {plugin: {name: w, config: {n: 1}}}, a: {plugin: {name: x}}}, period: 1s, timeout: 500ms}}")
		r.update(same)
		if got := state(); !slices.Equal(got, []int32{0, 0}) {
			t.Errorf("after no change: %v", got)
		}
		r.update(annotated("web: {readiness: {all: {a: {plugin: {name: x}}, b: {plugin: {name: w, config: {n: 2}}}}, period: 1s, timeout: 500ms}}"))
		if got := state(); !slices.Equal(got, []int32{1, 0, 1, 0}) {
			t.Errorf("after a change: %v", got)
		}
		err := r.m.UpdatePod(t.Context(), annotated("web: {readiness: {all: {a: {plugin: {name: x}}, b: {plugin: {name: z}}}, period: 1s}}"))
		if err == nil || !strings.Contains(err.Error(), "readiness.all[b]: no such plugin") {
			t.Errorf("error %v", err)
		}
		if got := state(); !slices.Equal(got, []int32{1, 0, 1, 1, 0}) {
			t.Errorf("after an error: %v", got)
		}
		r.m.RemovePod(same)
		r.wait(time.Second)
		if got := state(); !slices.Equal(got, []int32{1, 1, 1, 1, 1}) {
			t.Errorf("at the end: %v", got)
		}
	})
}

func TestSecretsOfCombinedChecks(t *testing.T) {
	bubble(t, "each check has its secrets, redacted, and a changed one binds again", func(t *testing.T) {
		tokens := map[string]string{"A": "hunter2", "B": "swordfish"}
		var configs []string
		var last worker.Tick
		r := newRig(t, func(cfg *manager.Config) {
			cfg.ResolveSecret = func(_, name string) (string, error) { return tokens[name], nil }
			cfg.Observers = []worker.Observer{observerFunc(func(t *worker.Tick) { last = *t })}
			cfg.Handlers = bind(func(config []byte) (probe.Handler, error) {
				text := string(config)
				configs = append(configs, text)
				return probetest.NewHandler(probetest.Answer(probe.Failure, "sent "+text)), nil
			})
		})
		pod := annotated("web: {readiness: {all: {a: {plugin: {name: x, config: {t: '${env:A}'}}}, b: {plugin: {name: x, config: {t: '${env:B}'}}}}, period: 1s}}")
		r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
		r.add(pod)
		if want := []string{`{"t":"hunter2"}`, `{"t":"swordfish"}`}; !slices.Equal(configs, want) {
			t.Errorf("configs %q", configs)
		}
		if want := `2 of 2 checks fail: a: sent {"t":"[redacted]"}; b: sent {"t":"[redacted]"}`; last.Outcome.Output != want {
			t.Errorf("output %q, want %q", last.Outcome.Output, want)
		}
		tokens["B"] = "opensesame"
		if err := r.m.RefreshSecrets(t.Context()); err != nil || len(configs) != 4 || configs[3] != `{"t":"opensesame"}` {
			t.Errorf("%v: configs %q", err, configs)
		}
		if err := r.m.RefreshSecrets(t.Context()); err != nil || len(configs) != 4 {
			t.Errorf("%v: configs %q", err, configs)
		}
	})
}
