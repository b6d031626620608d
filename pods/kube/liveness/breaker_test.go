package liveness_test

import (
	"fmt"
	"os"
	"path/filepath"
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

// breakerNode returns a node with pods whose probes succeed.
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
		{"half of them", 10, 5, time.Second, "5 of 10 probes of the node began to fail within 30s"},
		{"fewer than half", 11, 5, time.Second, ""},
		{"fewer than 5", 4, 4, time.Second, ""},
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
						open = a.Open()
					}
				}
				if open != c.open {
					t.Errorf("open: %q, want %q", open, c.open)
				}
				if open == "" {
					return
				}
				flip(a, "0", states.Failure, states.Success)
				after(53 * time.Second) // the first failure was 4 s ago: there are five within 30 s for 25 s more
				if a.Open() == "" {
					t.Error("it closed before the window was over without trouble")
				}
				after(3 * time.Second)
				if a.Open() != "" {
					t.Errorf("still open: %q", a.Open())
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

// However slowly half of them began to fail, and however long they do: conditions follow, and nothing is
// restarted.
func TestBreakerIsOpenWhileHalfFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := breakerNode(t, 10, nil)
		for i := range 5 {
			flip(a, types.UID(fmt.Sprint(i)), states.Success, states.Failure)
			after(time.Minute)
		}
		after(time.Hour)
		if want := "5 of 10 liveness and startup probes of the node fail"; a.Open() != want || a.Blind() != "" {
			t.Errorf("open: %q, want %q; blind: %q", a.Open(), want, a.Blind())
		}
		flip(a, "0", states.Failure, states.Success)
		after(32 * time.Second)
		if a.Open() != "" {
			t.Errorf("still open: %q", a.Open())
		}
	})
}

// Probes of other kinds succeed: restarts are withheld, and conditions tell what is.
func TestBreakerLivenessAlone(t *testing.T) {
	for _, c := range []struct {
		name   string
		kind   probe.Kind // of those that fail
		failed int
		open   string
	}{
		{"liveness", probe.Liveness, 5, "5 of 10 liveness and startup probes of the node fail"},
		{"fewer", probe.Liveness, 4, ""},
		{"startup", probe.Startup, 10, "10 of 20 liveness and startup probes of the node fail"},
		{"readiness", probe.Readiness, 10, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, a := breakerNode(t, 10, nil) // liveness
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
				if a.Open() != c.open || a.Blind() != "" {
					t.Errorf("open: %q, want %q; blind: %q", a.Open(), c.open, a.Blind())
				}
			})
		})
	}
}

// A bad probe may come with new pods.
func TestBreakerLivenessOfNewPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := breakerNode(t, 5, nil)
		for i := range 5 {
			flip(a, types.UID(fmt.Sprint("new", i)), states.Unknown, states.Failure)
		}
		synctest.Wait()
		if want := "5 of 10 probes of the node began to fail within 30s"; a.Open() != want {
			t.Errorf("open: %q, want %q", a.Open(), want)
		}
		flip(a, "new0", states.Failure, states.Success)
		after(61 * time.Second)
		if a.Open() != "" {
			t.Errorf("still open: %q", a.Open())
		}
	})
}

// None of these is a sign of trouble with the node.
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
				if a.Open() != "" {
					t.Errorf("open: %s", a.Open())
				}
			})
		})
	}
}

// The state of a probe is a failure from the end of its container until the next one succeeds. That the next one
// fails is no change of it, and counts.
func TestBreakerFailureOfNextContainerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a := breakerNode(t, 10, nil)
		for i := range 6 {
			info := worker.Info{Subject: results.Subject{PodUID: fmt.Sprint(i), Container: "app"}, Kind: probe.Liveness}
			a.Changed(&states.Change{Info: info, From: states.Success, To: states.Failure, Time: time.Now(), Cause: states.Cause{Reason: string(results.NotRunning)}})
		}
		after(time.Minute)
		if a.Open() != "" {
			t.Errorf("containers have ended: %q", a.Open())
		}
		for i := range 6 {
			n.fail(a, types.UID(fmt.Sprint(i)))
		}
		after(10 * time.Minute)
		if want := "6 of 10 liveness and startup probes of the node fail"; a.Open() != want {
			t.Errorf("open: %q, want %q", a.Open(), want)
		}
		if stops := n.stopped(); len(stops) != 0 {
			t.Errorf("stopped %v", stops)
		}
	})
}

func TestBreakerFailureByWayOfUnknownCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := breakerNode(t, 10, nil)
		for i := range 5 {
			flip(a, types.UID(fmt.Sprint(i)), states.Success, states.Unknown)
			flip(a, types.UID(fmt.Sprint(i)), states.Unknown, states.Failure)
		}
		synctest.Wait()
		if a.Open() == "" {
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
			if a.Open() != "" && i < 4 {
				t.Errorf("open: %s", a.Open())
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
			after(100 * time.Millisecond) // the first one is not acted on before the fifth
		}
		after(40 * time.Second)
		if len(n.stopped()) != 0 {
			t.Errorf("stopped %v", n.stopped())
		}
		counted(t, a, "withheld breaker 6")
		want := "container app is not restarted: the breaker is open (6 of 6 probes of the node began to fail within 30s); it is tried again when the breaker closes"
		if e := n.told("ProbeRestartWithheld"); len(e) != 6 || !strings.HasSuffix(e[5], want) {
			t.Errorf("events %q", e)
		}
		for _, uid := range []types.UID{"3", "4"} { // now there are fewer than five
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
		if a.Open() != "" {
			t.Errorf("open at the limit: %s", a.Open())
		}
		n.setLag(3*time.Second + 1)
		n.fail(a, "0")
		after(2 * time.Second)
		if want := "probes are 3s late, more than 2s"; a.Open() != want {
			t.Errorf("open %q, want %q", a.Open(), want)
		}
		n.setLag(0)
		after(28 * time.Second)
		if len(n.stopped()) != 0 {
			t.Errorf("stopped %v", n.stopped())
		}
		after(3 * time.Second)
		if a.Open() != "" || len(n.stopped()) != 1 {
			t.Errorf("open %q, stopped %v", a.Open(), n.stopped())
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
		write(t, dir, "cpu", line("99.00")) // has no limit
		write(t, dir, "memory", line("40.00"))
		write(t, dir, "io", "nonsense")
		n, a := breakerNode(t, 1, func(cfg *liveness.Config) { cfg.PressureDir = dir })
		after(2 * time.Second)
		if a.Open() != "" {
			t.Errorf("open at the limit: %s", a.Open())
		}
		write(t, dir, "memory", line("41.20"))
		write(t, dir, "io", line("99.00")) // too late
		after(2 * time.Second)
		if want := "memory: tasks waited for it 41 % of the last 10 s, more than 40 %"; a.Open() != want {
			t.Errorf("open %q, want %q", a.Open(), want)
		}
		if a.Blind() != "" { // conditions follow the probes
			t.Errorf("the results of probes are not trusted: %s", a.Blind())
		}
		write(t, dir, "memory", line("1.00"))
		after(32 * time.Second)
		if a.Open() != "" {
			t.Errorf("still open: %s", a.Open())
		}
		if got := strings.Count(n.logged(), "the pressure of a resource cannot be read"); got != 1 || !strings.Contains(n.logged(), "no avg10 of some") {
			t.Errorf("%d lines say that io cannot be read:\n%s", got, n.logged())
		}
	})
	t.Run("absent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n, a := breakerNode(t, 1, nil)
			after(time.Minute)
			if got := strings.Count(n.logged(), "the pressure of a resource cannot be read"); got != 2 || a.Open() != "" {
				t.Errorf("%d lines, want one for each of 2 resources; open %q", got, a.Open())
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

// The hook is not run again when the breaker has closed.
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
