package liveness_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/liveness"
	"github.com/daeace23/prober/probe"
)

// after advances the fake time by d, and waits until all goroutines block.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestRestart(t *testing.T) {
	for _, c := range []struct {
		name   string
		pod    func(*v1.Pod)
		change func(*liveness.Failure)
		grace  time.Duration
		event  string
	}{
		{"liveness", nil, nil, 30 * time.Second, "u spec.containers{app} Normal Killing: Container app failed liveness probe, will be restarted"},
		{"startup", nil, func(f *liveness.Failure) { f.Kind = probe.Startup }, 30 * time.Second,
			"u spec.containers{app} Normal Killing: Container app failed startup probe, will be restarted"},
		{"grace of the probe", nil, func(f *liveness.Failure) { f.Grace = new(int64(7)) }, 7 * time.Second,
			"u spec.containers{app} Normal Killing: Container app failed liveness probe, will be restarted"},
		{"grace below 2 s", nil, func(f *liveness.Failure) { f.Grace = new(int64(1)) }, 2 * time.Second,
			"u spec.containers{app} Normal Killing: Container app failed liveness probe, will be restarted"},
		{"sidecar", func(p *v1.Pod) {
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil
			p.Spec.InitContainers[0].RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		}, nil, 30 * time.Second, "u spec.initContainers{app} Normal Killing: Init container app failed liveness probe"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode()
				n.add("u", "")
				if c.pod != nil {
					n.change("u", c.pod)
				}
				a := n.actor(t, nil)
				begun := time.Now()
				if c.change == nil {
					n.fail(a, "u")
				} else {
					n.fail(a, "u", c.change)
				}
				after(time.Minute)
				stops := n.stopped()
				if len(stops) != 1 || stops[0].id != "x://u-0" || stops[0].grace != c.grace {
					t.Fatalf("stopped %v", stops)
				}
				if d := stops[0].at.Sub(begun); d < time.Second || d > 1500*time.Millisecond {
					t.Errorf("stopped after %v, want 1 to 1.5 s", d)
				}
				if !slices.Equal(n.events, []string{c.event}) {
					t.Errorf("events %q, want %q", n.events, c.event)
				}
				counted(t, a, "done restart 1")
			})
		})
	}
}

// A failure that waits for a guard follows changes of the pod's annotation, and waits while the probe is paused.
func TestRestartFollowsAnnotationAndPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mode, paused := liveness.Restart, false
		n := newNode()
		n.add("u", "")
		n.setLag(time.Minute)
		a := n.actor(t, func(c *liveness.Config) {
			c.Asked = func(types.UID, string, probe.Kind) (liveness.Mode, bool) {
				n.mu.Lock()
				defer n.mu.Unlock()
				return mode, paused
			}
		})
		ask := func(m liveness.Mode, p bool) {
			n.mu.Lock()
			defer n.mu.Unlock()
			mode, paused = m, p
		}
		n.fail(a, "u")
		after(time.Minute)
		ask(liveness.Observe, false)
		n.setLag(0)
		after(5 * time.Minute)
		if stops := n.stopped(); len(stops) != 0 {
			t.Errorf("the pod asks for %s: stopped %v", mode, stops)
		}
		ask(liveness.Restart, true)
		after(time.Minute)
		if stops := n.stopped(); len(stops) != 0 {
			t.Errorf("paused: stopped %v", stops)
		}
		ask(liveness.Restart, false)
		after(time.Minute)
		if stops := n.stopped(); len(stops) != 1 {
			t.Errorf("stopped %v, want once", stops)
		}
	})
}

// An action waits until other probes of the same period have had an attempt.
func TestRestartWaitsForPeriod(t *testing.T) {
	for period, want := range map[time.Duration]time.Duration{
		200 * time.Millisecond: time.Second, 5 * time.Second: 5 * time.Second, time.Hour: 10 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode()
			n.add("u", "")
			a := n.actor(t, nil)
			begun := time.Now()
			n.fail(a, "u", func(f *liveness.Failure) { f.Period = period })
			after(time.Minute)
			stops := n.stopped()
			if len(stops) != 1 {
				t.Fatalf("stopped %v", stops)
			}
			if d := stops[0].at.Sub(begun); d < want || d > want+500*time.Millisecond {
				t.Errorf("period %v: stopped after %v, want %v to 0.5 s more", period, d, want)
			}
		})
	}
}

func TestObserveAndSidecarDoNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.add("u", "")
		a := n.actor(t, nil)
		for _, m := range []liveness.Mode{liveness.Observe, liveness.Sidecar, ""} {
			n.fail(a, "u", func(f *liveness.Failure) { f.Mode = m })
		}
		a.Failed(liveness.Failure{Mode: liveness.Restart})
		after(time.Hour)
		if len(n.stops)+len(n.events)+len(n.asked) != 0 {
			t.Errorf("stopped %v, events %q", n.stops, n.events)
		}
	})
}

func TestRecoveredFailureIsDropped(t *testing.T) {
	for name, end := range map[string]func(*node){
		"recovered":        func(n *node) { n.setSick("u", false) },
		"container is new": func(n *node) { n.mu.Lock(); defer n.mu.Unlock(); n.restartLocked("u"); n.sick["u"] = true },
		"pod is removed":   func(n *node) { n.remove("u") },
		"pod is another":   func(n *node) { n.change("u", func(p *v1.Pod) { p.UID = "v" }) },
		"container has end": func(n *node) {
			n.change("u", func(p *v1.Pod) { p.Status.ContainerStatuses[0].State = v1.ContainerState{} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode()
				n.add("u", "")
				a := n.actor(t, nil)
				n.fail(a, "u")
				after(500 * time.Millisecond)
				end(n)
				after(time.Minute)
				asked := n.asked["u"]
				after(time.Hour)
				if len(n.stops) != 0 || len(n.events) != 0 {
					t.Errorf("stopped %v, events %q", n.stops, n.events)
				}
				if n.asked["u"] != asked {
					t.Errorf("the failure is not forgotten: asked for its pod %d times in an hour", n.asked["u"]-asked)
				}
			})
		})
	}
}

func TestOnFailureAndNever(t *testing.T) {
	for _, c := range []struct {
		policy v1.RestartPolicy
		kill   liveness.OnFailurePolicy
		stops  int
		grace  time.Duration
		event  string
		counts string
	}{
		{v1.RestartPolicyOnFailure, "", 0, 0, "Warning ProbeRestartRefused: The liveness probe of container app fails, and container app is not restarted: " +
			"its restart policy does not start it again after each exit code, and it may exit with any after SIGTERM; onFailure: kill of the agent kills it instead", "withheld on-failure 1"},
		{v1.RestartPolicyOnFailure, liveness.Kill, 1, 0, "Normal Killing: Container app failed liveness probe, will be restarted", "done restart 1"},
		{v1.RestartPolicyNever, liveness.Refuse, 0, 0, "Warning ProbeRestartRefused: The liveness probe of container app fails, and container app is not restarted: " +
			"its restart policy does not start it again", "withheld on-failure 1"},
		{v1.RestartPolicyNever, liveness.Kill, 1, 25 * time.Second, "Normal Killing: Container app failed liveness probe", "done restart 1"},
	} {
		t.Run(fmt.Sprint(c.policy, " ", c.kill), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode()
				n.add("u", "", func(p *v1.Pod) {
					p.Spec.RestartPolicy = c.policy
					p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 5}}}
				})
				a := n.actor(t, func(cfg *liveness.Config) { cfg.OnFailure = c.kill })
				n.fail(a, "u")
				after(time.Hour)
				if len(n.stops) != c.stops || c.stops > 0 && n.stops[0].grace != c.grace {
					t.Errorf("stopped %v", n.stops)
				}
				if !slices.Equal(n.events, []string{"u spec.containers{app} " + c.event}) {
					t.Errorf("events %q", n.events)
				}
				counted(t, a, c.counts)
			})
		})
	}
}

func TestNoRuntimeAndNoEvictionAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.add("u", "")
		n.add("v", "")
		a := n.actor(t, func(cfg *liveness.Config) { cfg.Stop, cfg.Evict = nil, nil })
		n.fail(a, "u")
		n.fail(a, "v", evict)
		after(time.Minute)
		if e := n.told("ProbeRestartRefused"); len(e) != 1 || !strings.HasSuffix(e[0], "container app is not restarted: the agent has no access to the container runtime") {
			t.Errorf("events %q", n.events)
		}
		if e := n.told("ProbeEvictRefused"); len(e) != 1 || !strings.HasSuffix(e[0], "the pod is not evicted: the agent cannot evict pods") {
			t.Errorf("events %q", n.events)
		}
		counted(t, a, "withheld unavailable 2")
	})
}

// A forged pod status may have the ID of another pod's container.
func TestContainerOfAnotherPodIsNotStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.add("u", "")
		owner := types.UID("v")
		a := n.actor(t, func(cfg *liveness.Config) {
			cfg.Owner = func(id string) (types.UID, bool) {
				n.mu.Lock()
				defer n.mu.Unlock()
				return owner, id == "x://u-0"
			}
		})
		n.fail(a, "u")
		after(time.Hour)
		if len(n.stopped()) != 0 {
			t.Errorf("stopped %v", n.stopped())
		}
		if e := n.told("ProbeRestartWithheld"); len(e) != 1 || !strings.Contains(e[0], "the container runtime does not have it as a container of this pod; it is tried again at ") {
			t.Errorf("events %q", n.events)
		}
		n.mu.Lock()
		owner = "u"
		n.mu.Unlock()
		after(10 * time.Second)
		if len(n.stopped()) != 1 {
			t.Errorf("stopped %v", n.stopped())
		}
		counted(t, a, "done restart 1, withheld unavailable 1")
	})
}

func TestFailedStopIsRetriedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.add("u", "")
		n.onStop = func(string, time.Duration) error {
			if len(n.stopped()) < 4 {
				return errors.New("the shim is stuck")
			}
			return nil
		}
		a := n.actor(t, nil)
		n.fail(a, "u")
		after(time.Hour)
		stops := n.stopped()
		if len(stops) != 4 {
			t.Fatalf("stopped %v", stops)
		}
		for i, want := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
			if got := stops[i+1].at.Sub(stops[i].at); got != want {
				t.Errorf("attempt %d after %v, want %v", i+2, got, want)
			}
		}
		if e := n.told("ProbeRestartFailed"); len(e) != 1 || !strings.HasSuffix(e[0], "the shim is stuck") {
			t.Errorf("events %q", n.events)
		}
		counted(t, a, "done restart 1, failed restart 3")
	})
}

// The actor may see the restart of a container before Stop returns.
func TestContainerIsRestartedBeforeStopReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.add("u", "")
		n.onStop = func(string, time.Duration) error {
			n.mu.Lock()
			n.restartLocked("u")
			n.mu.Unlock()
			time.Sleep(30 * time.Second)
			return nil
		}
		a := n.actor(t, nil)
		n.fail(a, "u")
		after(time.Hour)
		if len(n.stopped()) != 1 {
			t.Errorf("stopped %v", n.stopped())
		}
		counted(t, a, "done restart 1")
	})
}

// If a container still runs after Stop, Stop is called again.
func TestStopWithoutEffectIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.add("u", "")
		n.dead = true
		n.fail(n.actor(t, nil), "u")
		after(35 * time.Second)
		if len(n.stops) != 3 {
			t.Errorf("stopped %v", n.stops)
		}
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.add("u", "")
		a := n.actor(t, nil)
		for i := range 8 { // each failure comes after the back-off of the previous one
			n.fail(a, "u")
			after(6 * time.Minute)
			if got := len(n.stopped()); got != i+1 {
				t.Fatalf("%d stops, want %d", got, i+1)
			}
		}
		n.fail(a, "u")
		after(time.Second * 2)
		n.fail(a, "u") // the next container fails at once
		after(5*time.Minute - 10*time.Second)
		if got := len(n.stopped()); got != 9 {
			t.Errorf("%d stops within the back-off, want 9", got)
		}
		if e := n.told("ProbeRestartWithheld"); len(e) != 1 || !strings.Contains(e[0], "the back-off of this container; it is tried again at 2000-01-01T") {
			t.Errorf("events %q", e)
		}
		after(20 * time.Second)
		if got := len(n.stopped()); got != 10 {
			t.Errorf("%d stops after the back-off, want 10", got)
		}
		after(10 * time.Minute) // resets the back-off
		n.fail(a, "u")
		after(2 * time.Second)
		n.fail(a, "u")
		after(12 * time.Second)
		if got := len(n.stopped()); got != 12 {
			t.Errorf("%d stops, want 12: the back-off begins anew", got)
		}
	})
}

func TestBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		a := n.actor(t, func(cfg *liveness.Config) {
			cfg.Workload, cfg.Node = liveness.Bucket{Burst: 2, Every: time.Minute}, liveness.Bucket{Burst: 3, Every: 10 * time.Second}
		})
		for i, workload := range []types.UID{"w", "w", "w", "v", "v"} {
			uid := types.UID(fmt.Sprint(i))
			n.add(uid, workload)
			n.fail(a, uid)
			after(2 * time.Second)
		}
		// 0, 1 and 3 use up the budget of the node. 2 exceeds the budget of its workload, and 4 the node's.
		after(time.Second)
		if got := ids(n.stopped()); got != "0 1 3" {
			t.Errorf("stopped %s", got)
		}
		for uid, why := range map[string]string{"2": "the budget of its workload is used up", "4": "the budget of the node is used up"} {
			if e := n.told("ProbeRestartWithheld"); !slices.ContainsFunc(e, func(e string) bool {
				return strings.HasPrefix(e, uid+" ") && strings.Contains(e, why+"; it is tried again at 2000-01-01T00:0")
			}) {
				t.Errorf("no event of pod %s that says %q: %q", uid, why, e)
			}
		}
		after(20 * time.Second)
		if got := ids(n.stopped()); got != "0 1 3 4" {
			t.Errorf("stopped %s", got)
		}
		after(time.Minute)
		if got := ids(n.stopped()); got != "0 1 3 4 2" {
			t.Errorf("stopped %s", got)
		}
		if e := n.told("ProbeRestartWithheld"); len(e) != 2 {
			t.Errorf("events %q", e)
		}
		counted(t, a, "done restart 5, withheld budget 2")
	})
}

// ids returns the UIDs of the pods whose containers were stopped.
func ids(stops []stop) string {
	var all []string
	for _, s := range stops {
		uid, _, _ := strings.Cut(strings.TrimPrefix(s.id, "x://"), "-")
		all = append(all, uid)
	}
	return strings.Join(all, " ")
}

func TestEvict(t *testing.T) {
	t.Run("done", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode()
			n.add("u", "")
			var got api.Pod
			n.onEvict = func(p api.Pod) error { got = p; return nil }
			a := n.actor(t, nil)
			n.fail(a, "u", evict)
			after(time.Hour)
			if want := (api.Pod{Namespace: "default", Name: "p-u", UID: "u"}); got != want || len(n.evicts) != 1 || len(n.stops) != 0 {
				t.Errorf("evicted %v, %d times", got, len(n.evicts))
			}
			if want := "u spec.containers{app} Normal ProbeEvicted: Container app failed liveness probe, the pod is evicted"; !slices.Equal(n.events, []string{want}) {
				t.Errorf("events %q", n.events)
			}
			counted(t, a, "done evict 1")
		})
	})
	t.Run("blocked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode()
			n.add("u", "")
			n.onEvict = func(api.Pod) error { return fmt.Errorf("evict: %w", api.ErrBlocked) }
			a := n.actor(t, func(cfg *liveness.Config) { cfg.Node = liveness.Bucket{Burst: 1, Every: 100 * time.Hour} })
			n.fail(a, "u", evict)
			after(time.Hour)
			for i, at := range n.evicts[1:] {
				least := min(10*time.Second<<min(i, 10), 5*time.Minute)
				if got := at.Sub(n.evicts[i]); got < least || got > least*3/2+time.Second {
					t.Errorf("attempt %d after %v, want %v to %v", i+2, got, least, least*3/2)
				}
			}
			if len(n.evicts) < 10 {
				t.Errorf("%d attempts in an hour", len(n.evicts))
			}
			if len(n.events) != 1 || !strings.HasSuffix(n.events[0], "Warning ProbeEvictWithheld: The liveness probe of container app fails, and the pod is not evicted: evict: blocked by a PodDisruptionBudget; it is tried again while the probe fails") {
				t.Errorf("events %q", n.events)
			}
			counted(t, a, "withheld blocked 1")
			n.setSick("u", false)
			after(10 * time.Minute)
			tried := len(n.evicts)
			after(time.Hour)
			if len(n.evicts) != tried {
				t.Error("it is tried while the probe does not fail")
			}
		})
	})
	for err, counts := range map[error]string{api.ErrGone: "withheld gone 1", api.ErrDenied: "failed evict 1"} {
		t.Run(err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode()
				n.add("u", "")
				n.onEvict = func(api.Pod) error { return err }
				a := n.actor(t, nil)
				n.fail(a, "u", evict)
				after(time.Hour)
				if len(n.evicts) != 1 {
					t.Errorf("%d attempts", len(n.evicts))
				}
				if denied := errors.Is(err, api.ErrDenied); len(n.told("ProbeEvictFailed")) != len(n.events) || (len(n.events) == 1) != denied {
					t.Errorf("events %q", n.events)
				}
				counted(t, a, counts)
			})
		})
	}
}

func TestDryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.add("u", "")
		n.add("v", "")
		a := n.actor(t, func(cfg *liveness.Config) { cfg.DryRun = true })
		n.fail(a, "u")
		n.fail(a, "v", evict)
		after(time.Hour)
		if len(n.stops)+len(n.evicts) != 0 || len(n.events) != 2 {
			t.Errorf("stopped %v, evicted %v, events %q", n.stops, n.evicts, n.events)
		}
		if e := n.told("ProbeWouldRestart"); len(e) != 1 || !strings.HasSuffix(e[0], "Container app failed liveness probe, will be restarted (dry run: nothing is done)") {
			t.Errorf("events %q", n.events)
		}
		if e := n.told("ProbeWouldEvict"); len(e) != 1 || !strings.HasSuffix(e[0], "Container app failed liveness probe, the pod is evicted (dry run: nothing is done)") {
			t.Errorf("events %q", n.events)
		}
		counted(t, a, "withheld dry-run 2")
	})
}

func TestConcurrentActionsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.heals = false // both containers of u0 fail
		release := make(chan struct{})
		n.onStop = func(string, time.Duration) error { <-release; return nil }
		a := n.actor(t, nil)
		two := func(p *v1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "b"})
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
				Name: "b", ContainerID: "x://b", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}})
		}
		n.add("u0", "", two)
		for i := range 7 {
			uid := types.UID(fmt.Sprint("u", i))
			if i > 0 {
				n.add(uid, "", func(p *v1.Pod) { p.Namespace = fmt.Sprint("ns", i%2) })
			}
			n.fail(a, uid)
		}
		n.fail(a, "u0", func(f *liveness.Failure) { f.Container, f.ContainerID = "b", "x://b" })
		after(20 * time.Second)
		if got := len(n.stopped()); got != 4 {
			t.Errorf("%d actions at once, want 4", got)
		}
		// Actions longer than a minute do not count for the limit.
		after(time.Minute)
		if got := ids(n.stopped()); strings.Contains(got, "b") == strings.Contains(got, "u0") || len(strings.Fields(got)) != 7 {
			t.Errorf("after a minute: stopped %s; want all but one container of u0", got)
		}
		close(release)
		after(5 * time.Second)
		if got := ids(n.stopped()); len(strings.Fields(got)) != 8 {
			t.Errorf("stopped %s, want all", got)
		}
	})
}

func TestRunEndsActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.add("u", "", func(p *v1.Pod) {
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 20}}}
		})
		a := liveness.New(liveness.Config{
			Current: n.Current, Party: n.Party, Failing: n.Failing, Logger: slog.New(slog.DiscardHandler), PressureDir: t.TempDir(),
			Stop: n.Stop,
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		n.fail(a, "u")
		a.Run(ctx)
		if len(n.stops) != 0 {
			t.Error("the action went on")
		}
		for range 1000 { // Run has ended, and does not read the inbox
			n.fail(a, "u")
			flip(a, "u", states.Success, states.Failure)
		}
	})
}

// An action whose claim is refused is tried again later. If an action does nothing, its claim is released.
func TestClaim(t *testing.T) {
	for _, mode := range []func(*liveness.Failure){evict, func(*liveness.Failure) {}} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode()
			n.add("u", "")
			n.heals = false
			var mu sync.Mutex // guards the next variables
			var refusal, answer error
			var ended []bool
			heals := false
			set := func(f func()) { mu.Lock(); defer mu.Unlock(); f() }
			n.onEvict = func(api.Pod) error { mu.Lock(); defer mu.Unlock(); return answer }
			n.onStop = func(string, time.Duration) error { mu.Lock(); defer mu.Unlock(); return answer }
			a := n.actor(t, func(cfg *liveness.Config) {
				cfg.Claim = func(_ context.Context, pod *v1.Pod) (func(bool), error) {
					mu.Lock()
					defer mu.Unlock()
					if pod.UID != "u" {
						t.Errorf("claim for %s", pod.UID)
					}
					if heals {
						n.setSick("u", false)
					}
					return func(acted bool) { set(func() { ended = append(ended, acted) }) }, refusal
				}
			})
			done := func() int { n.mu.Lock(); defer n.mu.Unlock(); return len(n.evicts) + len(n.stops) }
			set(func() { refusal = errors.New("the pod x of its workload is not ready") })
			n.fail(a, "u", mode)
			after(time.Hour)
			if done() != 0 || a.Counts().Withheld[liveness.WithheldDisruption] != 1 {
				t.Errorf("%d actions, counts %v", done(), a.Counts())
			}
			told := append(n.told("ProbeEvictWithheld"), n.told("ProbeRestartWithheld")...)
			if len(told) != 1 || !strings.HasSuffix(told[0], ": the pod x of its workload is not ready; it is tried again while the probe fails") {
				t.Errorf("events %q", told)
			}
			set(func() { refusal, heals = nil, true })
			after(10 * time.Minute)
			if done() != 0 || !slices.Equal(ended, []bool{false}) {
				t.Errorf("after the probe has recovered: %d actions, claims ended %v", done(), ended)
			}
			set(func() { heals, answer = false, api.ErrDenied })
			n.fail(a, "u", mode)
			after(5 * time.Second)
			if !slices.Equal(ended, []bool{false, false}) {
				t.Errorf("after an action that is not allowed: claims ended %v", ended)
			}
			set(func() { answer = nil })
			n.fail(a, "u", mode)
			after(10 * time.Minute)
			if done() < 1 || !ended[len(ended)-1] {
				t.Errorf("%d actions, claims ended %v", done(), ended)
			}
		})
	}
}

// The token of an action whose claim is refused is available to others at once.
func TestRefusedClaimReturnsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.add("u", "", func(p *v1.Pod) { p.Namespace = "other" })
		n.add("v", "")
		a := n.actor(t, func(cfg *liveness.Config) {
			cfg.Node = liveness.Bucket{Burst: 1, Every: 100 * time.Hour}
			cfg.Claim = func(_ context.Context, pod *v1.Pod) (func(bool), error) {
				if pod.UID == "v" {
					return func(bool) {}, nil
				}
				time.Sleep(4 * time.Second)
				return nil, errors.New("the pod x of its workload is not ready")
			}
		})
		begun := time.Now()
		n.fail(a, "u")
		after(time.Second)
		n.fail(a, "v")
		after(time.Minute)
		if took, ok := n.stoppedAfter("v", begun); !ok || took > 6*time.Second {
			t.Errorf("stopped %t, after %v, want at the end of the claim", ok, took)
		}
	})
}

// A namespace whose containers take long to stop, or fail repeatedly, leaves slots and tokens to others.
func TestActionsAreSharedByNamespaces(t *testing.T) {
	noisy := func(p *v1.Pod) { p.Namespace = "noisy" }
	t.Run("slots", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode()
			n.onStop = func(id string, _ time.Duration) error {
				if strings.Contains(id, "noisy") {
					time.Sleep(30 * time.Second)
				}
				return nil
			}
			a := n.actor(t, nil)
			for i := range 40 {
				uid := types.UID(fmt.Sprint("noisy", i))
				n.add(uid, "", noisy)
				n.fail(a, uid)
			}
			after(10 * time.Second)
			n.add("victim", "")
			begun := time.Now()
			n.fail(a, "victim")
			after(time.Minute)
			if took, ok := n.stoppedAfter("victim", begun); !ok || took > 5*time.Second {
				t.Errorf("the pod of another namespace: %v, %t", took, ok)
			}
		})
	})
	t.Run("tokens", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode()
			n.heals = false
			n.onStop = func(id string, _ time.Duration) error { // the next container fails too
				uid, _, _ := strings.Cut(strings.TrimPrefix(id, "x://"), "-")
				if uid != "victim" {
					time.AfterFunc(5*time.Second, func() { n.fail(n.running, types.UID(uid)) })
				}
				return nil
			}
			a := n.actor(t, func(cfg *liveness.Config) { cfg.Workload, cfg.Node = liveness.Bucket{}, liveness.Bucket{} })
			n.running = a
			for i := range 60 {
				uid := types.UID(fmt.Sprint("noisy", i))
				n.add(uid, "", noisy)
				n.fail(a, uid)
			}
			after(30 * time.Minute)
			if got := len(n.stopped()); got < 30 {
				t.Fatalf("the noisy namespace had %d restarts, which is no loop", got)
			}
			n.add("victim", "")
			begun := time.Now()
			n.fail(a, "victim")
			after(10 * time.Minute)
			if took, ok := n.stoppedAfter("victim", begun); !ok || took > time.Minute+5*time.Second {
				t.Errorf("the pod of another namespace: %v, %t; a token comes each minute", took, ok)
			}
		})
	})
}
