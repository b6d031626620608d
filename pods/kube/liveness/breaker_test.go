package liveness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/pods/kube/liveness"
	"github.com/daeace23/prober/probe"
)

// breakerNode returns a node with pods whose probes succeed, and an actor.
func breakerNode(t *testing.T, pods int, change func(*liveness.Config)) (*node, *liveness.Actor) {
	n := newNode()
	a := n.actor(t, func(cfg *liveness.Config) {
		cfg.Breaker = liveness.Breaker{}
		if change != nil {
			change(cfg)
		}
	})
	for i := range pods {
		uid := types.UID(fmt.Sprint(i))
		n.add(uid, "")
		flip(a, uid, states.Unknown, states.Success)
	}
	synctest.Wait()
	return n, a
}

func TestBreakerShareOfProbes(t *testing.T) {
	for _, c := range []struct {
		name         string
		pods, failed int
		apart        time.Duration // between two failures
		open         string
	}{
		{"half of them beside one", 11, 6, time.Second, "6 of 11 probes of the namespace default began to fail within 30s"},
		{"fewer than half beside one", 12, 6, time.Second, ""},
		{"fewer than 5 beside one", 5, 5, time.Second, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, a := breakerNode(t, c.pods, nil)
				open := ""
				for i := range c.failed {
					if i > 0 {
						after(c.apart)
					}
					flip(a, types.UID(fmt.Sprint(i)), states.Success, states.Failure)
					synctest.Wait()
					if open == "" {
						open = openFor(a)
					}
				}
				if open != c.open {
					t.Errorf("open: %q, want %q", open, c.open)
				}
				if open == "" {
					return
				}
				flip(a, "0", states.Failure, states.Success)
				after(24 * time.Second) // the first failure was 5 s ago: there are six within 30 s for 25 s more
				if blindFor(a) == "" {
					t.Error("probes are trusted while so many began to fail within the window")
				}
				after(2 * time.Second)
				if blindFor(a) != "" {
					t.Errorf("probes are not trusted after the window: %q", blindFor(a))
				}
				after(27 * time.Second)
				if openFor(a) == "" {
					t.Error("it closed before the window was over without trouble")
				}
				after(3 * time.Second)
				if openFor(a) != "" {
					t.Errorf("still open: %q", openFor(a))
				}
				for _, line := range []string{"the breaker is open: no restarts and evictions", "the breaker is closed again"} {
					if got := strings.Count(n.logged(), line); got != 1 {
						t.Errorf("%q was logged %d times", line, got)
					}
				}
			})
		})
	}
}

// While half of the probes fail, nothing is restarted, however slowly they began to fail and however long they
// fail. Conditions are still written.
func TestBreakerIsOpenWhileHalfFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := breakerNode(t, 10, nil)
		for i := range 6 {
			flip(a, types.UID(fmt.Sprint(i)), states.Success, states.Failure)
			after(time.Minute)
		}
		after(time.Hour)
		if want := "6 of 10 liveness and startup probes of the namespace default fail"; openFor(a) != want || blindFor(a) != "" {
			t.Errorf("open: %q, want %q; blind: %q", openFor(a), want, blindFor(a))
		}
		flip(a, "0", states.Failure, states.Success)
		after(32 * time.Second)
		if openFor(a) != "" {
			t.Errorf("still open: %q", openFor(a))
		}
	})
}

// If only liveness probes fail, restarts are withheld, and conditions are still written.
func TestBreakerLivenessAlone(t *testing.T) {
	for _, c := range []struct {
		name   string
		kind   probe.Kind // kind of the failing probes
		failed int
		open   string
	}{
		{"liveness", probe.Liveness, 6, "6 of 10 liveness and startup probes of the namespace default fail"},
		{"fewer", probe.Liveness, 5, ""},
		{"startup", probe.Startup, 12, "12 of 22 liveness and startup probes of the namespace default fail"},
		{"readiness", probe.Readiness, 10, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, a := breakerNode(t, 10, nil) // liveness
				for i := 10; i < 30; i++ {
					n.add(types.UID(fmt.Sprint(i)), "")
				}
				change := func(uid int, kind probe.Kind, from, to states.State) {
					info := worker.Info{Subject: results.Subject{PodUID: fmt.Sprint(uid), Container: "app"}, Kind: kind}
					a.Changed(&states.Change{Info: info, From: from, To: to, Time: time.Now()})
				}
				for i := range 30 {
					change(i, probe.Readiness, states.Unknown, states.Success)
					change(i, probe.Startup, states.Unknown, states.Success)
				}
				for i := range c.failed {
					change(i, c.kind, states.Success, states.Failure)
				}
				synctest.Wait()
				if openFor(a) != c.open || blindFor(a) != "" {
					t.Errorf("open: %q, want %q; blind: %q", openFor(a), c.open, blindFor(a))
				}
			})
		})
	}
}

// Liveness probes of new pods count although they have never succeeded: a rollout may bring a bad probe.
func TestBreakerLivenessOfNewPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a := breakerNode(t, 6, nil)
		for i := range 7 {
			uid := types.UID(fmt.Sprint("new", i))
			n.add(uid, "")
			flip(a, uid, states.Unknown, states.Failure)
		}
		synctest.Wait()
		if want := "7 of 13 probes of the namespace default began to fail within 30s"; openFor(a) != want {
			t.Errorf("open: %q, want %q", openFor(a), want)
		}
		flip(a, "new0", states.Failure, states.Success)
		after(61 * time.Second)
		if openFor(a) != "" {
			t.Errorf("still open: %q", openFor(a))
		}
	})
}

// These changes do not open the breaker.
func TestBreakerOtherChangesDoNotCount(t *testing.T) {
	for name, change := range map[string]func(a *liveness.Actor, i int){
		"failures of one probe": func(a *liveness.Actor, _ int) {
			flip(a, "0", states.Success, states.Failure)
			flip(a, "0", states.Failure, states.Success)
		},
		"ends of containers": func(a *liveness.Actor, i int) {
			info := worker.Info{Subject: results.Subject{PodUID: fmt.Sprint(i), Container: "app"}, Kind: probe.Liveness}
			a.Changed(&states.Change{Info: info, From: states.Success, To: states.Failure, Time: time.Now(), Cause: states.Cause{Reason: string(results.NotRunning)}})
		},
		"no verdicts": func(a *liveness.Actor, i int) { flip(a, types.UID(fmt.Sprint(i)), states.Success, states.Unknown) },
		"readiness of new pods": func(a *liveness.Actor, i int) {
			for _, uid := range []string{"a", "b"} {
				info := worker.Info{Subject: results.Subject{PodUID: fmt.Sprint(uid, i), Container: "app"}, Kind: probe.Readiness}
				a.Changed(&states.Change{Info: info, From: states.Unknown, To: states.Failure, Time: time.Now()})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, a := breakerNode(t, 10, nil)
				for i := range 10 {
					change(a, i)
				}
				after(2 * time.Second)
				if openFor(a) != "" {
					t.Errorf("open: %s", openFor(a))
				}
			})
		})
	}
}

// The state of a probe is a failure from the end of its container until it succeeds for the next one. A failure of the
// next container is no change of the state, but counts.
func TestBreakerFailureOfNextContainerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a := breakerNode(t, 10, nil)
		for i := range 6 {
			info := worker.Info{Subject: results.Subject{PodUID: fmt.Sprint(i), Container: "app"}, Kind: probe.Liveness}
			a.Changed(&states.Change{Info: info, From: states.Success, To: states.Failure, Time: time.Now(), Cause: states.Cause{Reason: string(results.NotRunning)}})
		}
		after(time.Minute)
		if openFor(a) != "" {
			t.Errorf("containers have ended: %q", openFor(a))
		}
		for i := range 6 {
			n.fail(a, types.UID(fmt.Sprint(i)))
		}
		after(10 * time.Minute)
		if want := "6 of 10 liveness and startup probes of the namespace default fail"; openFor(a) != want {
			t.Errorf("open: %q, want %q", openFor(a), want)
		}
		if stops := n.stopped(); len(stops) != 0 {
			t.Errorf("stopped %v", stops)
		}
	})
}

func TestBreakerFailureAfterUnknownCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := breakerNode(t, 10, nil)
		for i := range 6 {
			flip(a, types.UID(fmt.Sprint(i)), states.Success, states.Unknown)
			flip(a, types.UID(fmt.Sprint(i)), states.Unknown, states.Failure)
		}
		synctest.Wait()
		if openFor(a) == "" {
			t.Error("it is closed")
		}
	})
}

func TestBreakerRemovedProbesDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := breakerNode(t, 10, nil)
		for i := range 10 {
			if i < 5 {
				flip(a, types.UID(fmt.Sprint(i)), states.Success, states.Failure)
			}
			a.Changed(&states.Change{Info: worker.Info{Subject: results.Subject{PodUID: fmt.Sprint(i), Container: "app"}, Kind: probe.Liveness}, From: states.Failure, Removed: true})
			synctest.Wait()
			if openFor(a) != "" && i < 4 {
				t.Errorf("open: %s", openFor(a))
			}
		}
	})
}

func TestBreakerHoldsRestartsUntilItCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a := breakerNode(t, 6, nil)
		for i := range 6 {
			uid := types.UID(fmt.Sprint(i))
			flip(a, uid, states.Success, states.Failure)
			n.fail(a, uid)
			after(100 * time.Millisecond) // the fifth failure comes before the action on the first
		}
		after(40 * time.Second)
		if len(n.stopped()) != 0 {
			t.Errorf("stopped %v", n.stopped())
		}
		counted(t, a, "withheld breaker 6")
		want := "container app is not restarted: the breaker is open (6 of 6 probes of the namespace default began to fail within 30s); it is tried again when the breaker closes"
		if e := n.told("ProbeRestartWithheld"); len(e) != 6 || !strings.HasSuffix(e[5], want) {
			t.Errorf("events %q", e)
		}
		for _, uid := range []types.UID{"3", "4"} { // then fewer than five remain without any one pod
			n.setSick(uid, false)
			flip(a, uid, states.Failure, states.Success)
		}
		after(32 * time.Second)
		if got := ids(n.stopped()); len(strings.Fields(got)) != 4 || strings.Contains(got, "3") || strings.Contains(got, "4") {
			t.Errorf("stopped %s, want all but 3 and 4", got)
		}
	})
}

func TestBreakerLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a := breakerNode(t, 1, nil)
		n.setLag(2 * time.Second)
		after(2 * time.Second)
		if openFor(a) != "" {
			t.Errorf("open at the limit: %s", openFor(a))
		}
		n.setLag(3*time.Second + 1)
		n.fail(a, "0")
		after(2 * time.Second)
		if want := "probes are 3s late, more than 2s"; openFor(a) != want {
			t.Errorf("open %q, want %q", openFor(a), want)
		}
		n.setLag(0)
		after(28 * time.Second)
		if len(n.stopped()) != 0 {
			t.Errorf("stopped %v", n.stopped())
		}
		after(3 * time.Second)
		if openFor(a) != "" || len(n.stopped()) != 1 {
			t.Errorf("open %q, stopped %v", openFor(a), n.stopped())
		}
	})
}

func TestBreakerPressure(t *testing.T) {
	write := func(t *testing.T, dir, name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	line := func(avg10 string) string {
		return "some avg10=" + avg10 + " avg60=99.00 avg300=99.00 total=1\nfull avg10=99.00 avg60=0.00 avg300=0.00 total=1\n"
	}
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "cpu", line("99.00")) // no limit by default
		write(t, dir, "memory", line("40.00"))
		write(t, dir, "io", "nonsense")
		n, a := breakerNode(t, 1, func(cfg *liveness.Config) { cfg.PressureDir = dir })
		after(2 * time.Second)
		if openFor(a) != "" {
			t.Errorf("open at the limit: %s", openFor(a))
		}
		write(t, dir, "memory", line("41.20"))
		write(t, dir, "io", line("99.00")) // ignored after a failed read
		after(2 * time.Second)
		if want := "memory: tasks waited for it 41 % of the last 10 s, more than 40 %"; openFor(a) != want {
			t.Errorf("open %q, want %q", openFor(a), want)
		}
		if blindFor(a) != "" { // pressure does not freeze conditions
			t.Errorf("the results of probes are not trusted: %s", blindFor(a))
		}
		write(t, dir, "memory", line("1.00"))
		after(32 * time.Second)
		if openFor(a) != "" {
			t.Errorf("still open: %s", openFor(a))
		}
		if got := strings.Count(n.logged(), "the pressure of a resource cannot be read"); got != 1 || !strings.Contains(n.logged(), "no avg10 of some") {
			t.Errorf("%d lines say that io cannot be read:\n%s", got, n.logged())
		}
	})
	t.Run("absent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n, a := breakerNode(t, 1, nil)
			after(time.Minute)
			if got := strings.Count(n.logged(), "the pressure of a resource cannot be read"); got != 2 || openFor(a) != "" {
				t.Errorf("%d lines, want one for each of 2 resources; open %q", got, openFor(a))
			}
		})
	})
	t.Run("not checked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n, _ := breakerNode(t, 1, func(cfg *liveness.Config) { cfg.Breaker.Pressure = map[string]float64{} })
			after(time.Minute)
			if n.logged() != "" {
				t.Error(n.logged())
			}
		})
	})
}

// A preStop hook that has run is not run again after the breaker has closed.
func TestBreakerOpensDuringHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a := breakerNode(t, 1, nil)
		n.change("0", func(p *v1.Pod) {
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 10}}}
		})
		n.fail(a, "0")
		after(5 * time.Second)
		n.setLag(time.Minute)
		after(30 * time.Second)
		if len(n.stopped()) != 0 {
			t.Fatalf("stopped %v", n.stopped())
		}
		n.setLag(0)
		begun := time.Now()
		after(time.Minute)
		if s := n.stopped(); len(s) != 1 || s[0].at.Sub(begun) > 32*time.Second {
			t.Errorf("stopped %v", s)
		}
		if e := n.told("Killing"); len(e) != 1 {
			t.Errorf("events %q", e)
		}
	})
}

// Failures of one party never freeze the conditions of others, or prevent their restarts. In each case, all but three of
// the other pods of the node, in the namespace default, succeed.
func TestBreakerIgnoresOnePartyAlone(t *testing.T) {
	spread := func(namespaces int) func(i int) string {
		return func(i int) string { return fmt.Sprint("evil", i%namespaces) }
	}
	for _, c := range []struct {
		name      string
		pods      int // pods of the party
		probes    int // probes of each of its pods
		namespace func(i int) string
		workload  types.UID
		observed  bool
		own       bool // the party itself is doubted
	}{
		{"one pod with many probes", 1, 200, spread(1), "", false, false},
		{"one pod of the same namespace", 1, 200, func(int) string { return "default" }, "", false, false},
		{"one workload of the same namespace", 50, 4, func(int) string { return "default" }, "w", false, false},
		{"one workload", 50, 4, spread(1), "w", false, true},
		{"one namespace", 50, 4, spread(1), "", false, true},
		{"two namespaces that are observed", 50, 4, spread(2), "", true, false},
		{"two of three namespaces", 50, 4, spread(2), "", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, a := breakerNode(t, 20, nil)
				flap := func(to states.State) {
					for i := range c.pods {
						for j := range c.probes {
							kind := []probe.Kind{probe.Liveness, probe.Readiness}[j%2]
							info := worker.Info{Subject: results.Subject{PodUID: fmt.Sprint("evil", i), Container: fmt.Sprint(j)}, Kind: kind}
							a.Changed(&states.Change{Info: info, From: states.Success + states.Failure - to, To: to, Time: time.Now()})
						}
					}
				}
				for i := range c.pods {
					namespace := c.namespace(i)
					n.observed[namespace] = c.observed
					n.add(types.UID(fmt.Sprint("evil", i)), c.workload, func(p *v1.Pod) { p.Namespace = namespace })
				}
				flap(states.Success)
				for range 10 {
					flap(states.Failure)
					after(4 * time.Second)
					if d := about(a, "default"); d != (liveness.Doubt{}) {
						t.Fatalf("others: %+v", d)
					}
					flap(states.Success)
					after(4 * time.Second)
				}
				flap(states.Failure)
				for i := range 3 {
					uid := types.UID(fmt.Sprint(i))
					flip(a, uid, states.Success, states.Failure)
					n.fail(a, uid)
				}
				after(time.Minute)
				if d := about(a, "default"); d != (liveness.Doubt{}) {
					t.Errorf("others: %+v", d)
				}
				if got := len(n.stopped()); got != 3 {
					t.Errorf("%d of 3 pods were restarted", got)
				}
				if d := about(a, "evil0"); (d.Open != "" || a.Doubts()[liveness.Scope{Namespace: "evil0", Workload: "w"}].Open != "") != c.own {
					t.Errorf("the party itself is doubted: %t, want %t", !c.own, c.own)
				}
			})
		})
	}
}

// Namespaces have equal weight for the breaker of the node, whatever the number of their pods.
func TestBreakerNamespacesHaveEqualWeight(t *testing.T) {
	for _, c := range []struct {
		name   string
		failed []string
		blind  bool
	}{
		{"all", []string{"a", "b", "c"}, true},
		{"two of three", []string{"b", "c"}, true},
		{"one of three, with most pods", []string{"a"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, a := breakerNode(t, 0, nil)
				for name, pods := range map[string]int{"a": 100, "b": 6, "c": 6} {
					for i := range pods {
						uid := types.UID(fmt.Sprint(name, i))
						n.add(uid, types.UID(name), func(p *v1.Pod) { p.Namespace = name })
						flip(a, uid, states.Unknown, states.Success)
						if slices.Contains(c.failed, name) {
							flip(a, uid, states.Success, states.Failure)
						}
					}
				}
				synctest.Wait()
				if got := a.Doubts()[liveness.Scope{}].Blind; (got != "") != c.blind {
					t.Errorf("blind: %q, want %t", got, c.blind)
				}
				after(31 * time.Second)
				if got := a.Doubts()[liveness.Scope{}].Blind; got != "" {
					t.Errorf("still blind after the window: %q", got)
				}
			})
		})
	}
}
