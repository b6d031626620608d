package kube_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/conditions"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

const startup = `{web: {startup: {httpGet: {path: /s, port: http}, period: 1s, failureThreshold: 9}, liveness: {httpGet: {path: /l, port: http}, period: 1s}}}`

// The first attempt of a probe runs at its first tick, since the status is set before.
func TestSourceFirstTickAttempts(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.script("/r", success)
		w.cluster.set(podNamed("web", `{web: {readiness: {httpGet: {path: /r, port: http}, period: 1h}}}`))
		w.start()
		w.wait(100 * time.Millisecond)
		if n := h.Count(); n == 0 || n > 2 { // the first tick of the schedule may come in that time too
			t.Errorf("%d attempts", n)
		}
	})
}

func TestSourceStartedRequiresBothStartupProbes(t *testing.T) {
	bubble(t, func(w *world) {
		ours, live := w.script("/s", failure), w.script("/l", success)
		pod := podNamed("web", startup)
		pod.Spec.Containers[0].StartupProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
		pod.Status.ContainerStatuses[0].Started = new(false)
		w.cluster.set(pod)
		w.start()
		w.wait(3 * time.Second)
		if started, ready := w.ready(pod); started || ready || live.Count() > 0 {
			t.Errorf("nobody says that it has started: started %t, ready %t, %d liveness attempts", started, ready, live.Count())
		}
		ours.Then(success)
		w.wait(3 * time.Second)
		if started, _ := w.ready(pod); started || live.Count() > 0 {
			t.Errorf("the kubelet's startup probe has not succeeded: started %t, %d liveness attempts", started, live.Count())
		}
		pod.Status.ContainerStatuses[0].Started = new(true)
		w.cluster.set(pod)
		w.wait(3 * time.Second)
		if started, ready := w.ready(pod); !started || !ready || live.Count() == 0 {
			t.Errorf("both have: started %t, ready %t, %d liveness attempts", started, ready, live.Count())
		}
		// A new container, whose kubelet probe succeeds first: only prober's startup probe is pending.
		ours.Then(failure)
		before := live.Count()
		run(pod, "c2", time.Now())
		w.cluster.set(pod)
		w.wait(3 * time.Second)
		if started, _ := w.ready(pod); started || live.Count() > before+1 {
			t.Errorf("ours has not succeeded: started %t, %d liveness attempts", started, live.Count()-before)
		}
	})
}

func TestSourceOverlayPrecedesKubelet(t *testing.T) {
	bubble(t, func(w *world) {
		pod := podNamed("web", readiness)
		w.cluster.set(pod)
		w.start()
		w.wait(time.Second)
		w.mu.Lock()
		w.overlay = func(_ *v1.Pod, status *v1.PodStatus) {
			status.ContainerStatuses[0].State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 1}}
		}
		changed := w.changed
		w.mu.Unlock()
		changed(pod.UID)
		changed("of a pod without probes")
		w.wait(1500 * time.Millisecond)
		w.wantConditions("web", "readiness.web=failure!")
		w.wantEvents() // the kubelet records the end of a container
		if _, ready := w.ready(pod); ready {
			t.Error("ready after the end of the container")
		}
	}, withRuntime)
}

// A probe of a pod without an address would connect to the node.
func TestSourceWaitsForAddress(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.script("/r", success)
		pod := podNamed("web", readiness)
		status := pod.Status
		pod.Status = v1.PodStatus{Phase: v1.PodPending}
		w.overlay = func(_ *v1.Pod, now *v1.PodStatus) { now.ContainerStatuses = slices.Clone(status.ContainerStatuses) }
		w.cluster.set(pod)
		w.start()
		w.wait(time.Minute)
		if n := h.Count(); n != 0 {
			t.Errorf("%d attempts without an address", n)
		}
		pod.Status = status
		w.cluster.set(pod)
		w.wait(3 * time.Second)
		w.wantConditions("web", "readiness.web=success")
	}, withRuntime)
}

// A status may skip the end of a container. The new one is not ready before its probe has succeeded.
func TestSourceRestartedContainerIsNotReady(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.script("/r", success)
		pod := podNamed("web", readiness)
		w.cluster.set(pod)
		w.start()
		w.wait(3 * time.Second)
		w.wantConditions("web", "readiness.web=success")
		h.Then(success.After(900 * time.Millisecond)) // less than the timeout, if an attempt begins now
		run(pod, "c2", time.Now())
		w.cluster.set(pod)
		w.wait(500 * time.Millisecond)
		w.wantConditions("web", "readiness.web=failure!")
		w.wantEvents()
		h.Then(success)
		w.wait(3 * time.Second)
		w.wantConditions("web", "readiness.web=success")
		w.wantEvents()
	})
}

// A restarted container with only a startup probe has not started.
func TestSourceRestartedContainerHasNotStarted(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.script("/s", success)
		pod := podNamed("web", `{web: {startup: {httpGet: {path: /s, port: http}, period: 1s, failureThreshold: 9}}}`)
		w.cluster.set(pod)
		w.start()
		w.wait(3 * time.Second)
		w.wantConditions("web", "startup.web=success")
		h.Then(probetest.Hang())
		run(pod, "c2", time.Now())
		w.cluster.set(pod)
		w.wait(500 * time.Millisecond)
		w.wantConditions("web", "startup.web=failure!")
		h.Then(success)
		w.wait(3 * time.Second)
		w.wantConditions("web", "startup.web=success")
		w.wantEvents()
	})
}

func TestSourceSeedsAfterRestart(t *testing.T) {
	const hour = time.Hour
	for _, c := range []struct {
		name             string
		probes           string
		edit             func(pod *v1.Pod, now time.Time)
		ready, decided   bool // before the first result
		livenessAttempts bool
	}{
		{"true since the container started", readiness, func(p *v1.Pod, now time.Time) {
			publish(p, conditions.Ready, v1.ConditionTrue, now.Add(-hour))
		}, true, false, false},
		{"false", readiness, func(p *v1.Pod, now time.Time) {
			publish(p, conditions.Ready, v1.ConditionFalse, now.Add(-hour))
		}, false, false, false},
		{"no condition", readiness, func(*v1.Pod, time.Time) {}, false, false, false},
		{"true for an older container", readiness, func(p *v1.Pod, now time.Time) {
			publish(p, conditions.Ready, v1.ConditionTrue, now.Add(-3*hour))
		}, false, true, false},
		{"the kubelet's readiness says nothing", readiness, func(p *v1.Pod, now time.Time) {
			publish(p, v1.PodReady, v1.ConditionTrue, now.Add(-hour))
		}, false, false, false},
		{"started by readiness", startup, func(p *v1.Pod, now time.Time) {
			publish(p, conditions.Ready, v1.ConditionTrue, now.Add(-hour))
		}, true, true, true},
		{"started by liveness", startup, func(p *v1.Pod, now time.Time) {
			publish(p, conditions.Live, v1.ConditionTrue, now.Add(-hour))
		}, true, true, true},
		{"started by its own condition", startup, func(p *v1.Pod, now time.Time) {
			publish(p, "prober.dev/startup.web", v1.ConditionTrue, now.Add(-hour))
		}, true, true, true},
		{"not known to have started", startup, func(*v1.Pod, time.Time) {}, false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				h, live := w.script("/r", probetest.Hang()), w.script("/l", success)
				w.script("/s", probetest.Hang())
				pod := podNamed("web", c.probes)
				now := time.Now()
				run(pod, "c1", now.Add(-2*hour))
				c.edit(pod, now)
				w.cluster.set(pod)
				w.start()
				w.wait(10 * time.Millisecond)
				if _, ready := w.ready(pod); ready != c.ready {
					t.Errorf("ready %t, want %t", ready, c.ready)
				}
				if p := w.setOf("web").Probes; len(p) == 0 || p[len(p)-1].Decided != c.decided {
					t.Errorf("without an attempt: %+v, decided: want %t", p, c.decided)
				}
				if attempts := live.Count() > 0; attempts != c.livenessAttempts {
					t.Errorf("liveness attempts %t, want %t", attempts, c.livenessAttempts)
				}
				h.Then(failure)
				w.wait(5 * time.Second)
				if _, ready := w.ready(pod); ready && strings.Contains(c.probes, "readiness") {
					t.Error("ready after the failure was decided")
				}
			})
		})
	}
}

// A startup probe that failed for an earlier agent must succeed before a condition is true again. One that
// has succeeded makes no more attempts, and does not hold back other probes.
func TestSourceStartupProbeAfterAgentRestart(t *testing.T) {
	const probes = `{web: {startup: {httpGet: {path: /s, port: http}, period: 1s, failureThreshold: 9}, readiness: {httpGet: {path: /r, port: http}, period: 1s}}}`
	for _, c := range []struct {
		name string
		live v1.ConditionStatus
		want []v1.ConditionStatus // of the written conditions
	}{
		{"it failed", v1.ConditionFalse, nil},
		{"it succeeded", v1.ConditionTrue, []v1.ConditionStatus{v1.ConditionTrue}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.script("/r", success)
				w.script("/s", failure)
				pod := podNamed("web", probes)
				run(pod, "c1", time.Now().Add(-2*time.Hour))
				publish(pod, conditions.Ready, v1.ConditionFalse, time.Now().Add(-time.Hour))
				publish(pod, conditions.Live, c.live, time.Now().Add(-time.Hour))
				w.cluster.set(pod)
				w.start()
				w.wait(3 * time.Second)
				of := w.setOf("web")
				var got []v1.ConditionStatus
				for _, change := range conditions.Decide(&of) {
					got = append(got, change.Status)
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("written: %v, want %v", got, c.want)
				}
			})
		})
	}
}

// A gate that was true for the previous container, as after a reboot of the node, does not count for the
// new container.
func TestSourceGateOfEarlierContainerTurnsFalse(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.script("/r", probetest.Hang())
		pod := podNamed("web", readiness)
		now := time.Now()
		run(pod, "c2", now.Add(-time.Minute))
		publish(pod, conditions.Ready, v1.ConditionTrue, now.Add(-time.Hour))
		w.cluster.set(pod)
		w.start()
		w.wait(10 * time.Millisecond)
		w.wantConditions("web", "readiness.web=failure!")
		h.Then(success)
		w.wait(3 * time.Second)
		w.wantConditions("web", "readiness.web=success")
		w.wantEvents()
	})
}

// A state for which an earlier agent has recorded an event gets no second event.
func TestSourceEventsAreNotRepeatedAfterAgentRestart(t *testing.T) {
	for _, c := range []struct {
		name           string
		of             v1.PodConditionType
		status         v1.ConditionStatus
		reason, text   string
		first          probetest.Step
		want, wantThen []string
	}{
		{"it failed", conditions.Ready, v1.ConditionFalse, "ProbeFailed", "db readiness: no; web readiness: bad", failure, nil, []string{"Normal Healthy"}},
		{"it failed, as its own condition says", "prober.dev/readiness.web", v1.ConditionFalse, "ProbeFailed", "web readiness", failure, nil, []string{"Normal Healthy"}},
		{"it warned", conditions.Ready, v1.ConditionTrue, "ProbeWarning", "web readiness: slow", warning, nil, []string{"Normal Healthy"}},
		{"it warned and fails", conditions.Ready, v1.ConditionTrue, "ProbeWarning", "web readiness: slow", failure, []string{"Warning Unhealthy"}, []string{"Normal Healthy"}},
		{"it has recovered", conditions.Ready, v1.ConditionFalse, "ProbeFailed", "web readiness: bad", success, []string{"Normal Healthy"}, nil},
		{"another one failed", conditions.Ready, v1.ConditionFalse, "ProbeFailed", "db readiness: web readiness", failure, []string{"Warning Unhealthy"}, []string{"Normal Healthy"}},
		{"all was well", conditions.Ready, v1.ConditionTrue, "ProbeSucceeded", "", success, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				h := w.script("/r", c.first)
				pod := podNamed("web", readiness)
				run(pod, "c1", time.Now().Add(-2*time.Hour))
				publish(pod, c.of, c.status, time.Now().Add(-time.Hour))
				last := &pod.Status.Conditions[0]
				last.Reason, last.Message = c.reason, c.text
				w.cluster.set(pod)
				w.start()
				w.wait(5 * time.Second)
				w.wantEvents(c.want...)
				h.Then(success)
				w.wait(5 * time.Second)
				w.wantEvents(c.wantThen...)
			})
		})
	}
}

// A probe that is removed and added again does not start with the state of the earlier agent.
func TestSourceFailureOfAddedProbeHasEvent(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.script("/r", success)
		w.script("/l", success)
		pod := podNamed("web", readiness)
		run(pod, "c1", time.Now().Add(-2*time.Hour))
		publish(pod, conditions.Ready, v1.ConditionFalse, time.Now().Add(-time.Hour))
		pod.Status.Conditions[0].Reason, pod.Status.Conditions[0].Message = "ProbeFailed", "web readiness: bad"
		w.cluster.set(pod)
		w.start()
		w.wait(5 * time.Second)
		w.wantEvents("Normal Healthy")
		pod.Annotations[declared.Annotation] = `{web: {liveness: {httpGet: {path: /l, port: http}}}}`
		w.cluster.set(pod)
		w.wait(5 * time.Second)
		h.Then(failure)
		pod.Annotations[declared.Annotation] = readiness
		w.cluster.set(pod)
		w.wait(5 * time.Second)
		w.wantEvents("Warning Unhealthy")
	})
}

func TestSourceNewContainerIsNotSeeded(t *testing.T) {
	bubble(t, func(w *world) {
		w.script("/r", probetest.Hang())
		pod := podNamed("web", readiness)
		w.start()
		publish(pod, conditions.Ready, v1.ConditionTrue, time.Now())
		run(pod, "c1", time.Now())
		w.cluster.set(pod)
		w.wait(10 * time.Millisecond)
		if _, ready := w.ready(pod); ready {
			t.Error("a container that started after the agent is ready without a result")
		}
	})
}

func TestSourceContinuesWithoutAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.script("/r", success)
		refused := &url.Error{Op: "Get", URL: "https://10.0.0.1/api/v1/pods?watch=true", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		w.cluster.fail(refused)
		w.start()
		w.wait(10 * time.Minute)
		if n := w.logged("waiting for the API server to list the pods of this node"); n < 9 || n > 11 {
			t.Errorf("the log says %d times in 10 min what it waits for", n)
		}
		if len(w.attempts()) > 0 {
			t.Error("pods were applied before they were known")
		}
		if err := w.source.Reload(t.Context(), pods.Reload{}); err == nil || !strings.Contains(err.Error(), "has not listed the pods") {
			t.Errorf("Reload returned %v", err)
		}
		w.cluster.set(podNamed("web", readiness))
		w.cluster.fail(nil)
		w.wait(time.Minute)
		w.wantConditions("web", "readiness.web=success")
		if len(w.source.Troubles()) > 0 || w.logged("pods are watched again") != 1 {
			t.Errorf("troubles: %v", w.source.Troubles())
		}
		w.cluster.fail(refused)
		count := h.Count()
		w.wait(5 * time.Minute)
		if made := h.Count() - count; made < 299 {
			t.Errorf("%d attempts in 5 min without the API server", made)
		}
		if got := w.source.Troubles(); len(got) != 1 || got[0].Name != "api server" || !strings.HasSuffix(got[0].Text, "Z: connect: connection refused") {
			t.Errorf("troubles: %v", got)
		}
		if n := w.logged("pods cannot be listed or watched"); n != 2 {
			t.Errorf("the outage was logged %d times", n)
		}
		h.Then(failure)
		w.wait(3 * time.Second)
		w.wantConditions("web", "readiness.web=failure!")
		before := len(locked(w, &w.retries))
		w.cluster.fail(nil)
		w.wait(7 * time.Second) // the longest retry interval, however long the outage was
		w.cluster.set(podNamed("new", readiness))
		w.wait(time.Second)
		w.wantConditions("web", "readiness.web=failure!")
		if len(w.setOf("new").Probes) != 1 {
			t.Error("pods are not watched again 7 s after the outage")
		}
		if got := locked(w, &w.retries)[before:]; !slices.Equal(got, []string{"conditions", "events"}) {
			t.Errorf("after the outage %q are tried again", got)
		}
		w.end()
	})
}

// Stop does not wait for the next request.
func TestSourceStopWithoutAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.cluster.fail(os.NewSyscallError("connect", syscall.ECONNREFUSED))
		w.start()
		w.wait(10 * time.Minute)
		begun := time.Now()
		w.end()
		if took := time.Since(begun); took > time.Second {
			t.Errorf("Stop took %v", took)
		}
	})
}

func TestSourceExec(t *testing.T) {
	pod := podNamed("web", readiness)
	const id = "containerd://web-c1"
	exec := func(w *world) (string, error) {
		out, err := w.source.RunInContainer(w.t.Context(), id, []string{"true"}, time.Second)
		return string(out), err
	}
	t.Run("runtime", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.cluster.set(pod)
			w.start()
			w.wait(time.Second)
			if _, err := exec(w); err == nil || err.Error() != `container "containerd://web-c1" is not known to the runtime yet, or any more` {
				t.Errorf("unknown to the runtime: %v", err)
			}
			w.owners[id] = "uid-other"
			if _, err := exec(w); err == nil || err.Error() != `container "containerd://web-c1" does not belong to pod shop/web in the container runtime` {
				t.Errorf("of another pod: %v", err)
			}
			w.owners[id] = pod.UID
			if out, err := exec(w); out != id+": true" || err != nil {
				t.Errorf("got %q, %v", out, err)
			}
			if _, err := w.source.RunInContainer(w.t.Context(), "containerd://host", nil, 0); err == nil || err.Error() != `container "containerd://host" does not belong to a pod of this node` {
				t.Error(err)
			}
		}, withRuntime)
	})
	// The status of another pod has the same container ID. Its command must not run in that container.
	forged := podNamed("thief", readiness)
	forged.Status.ContainerStatuses = pod.Status.ContainerStatuses
	t.Run("forged status", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.cluster.set(pod)
			w.cluster.set(forged)
			w.start()
			w.wait(time.Second)
			w.owners[id] = pod.UID
			for range 20 {
				if out, err := exec(w); err == nil || err.Error() != `container "containerd://web-c1" is in the status of more than one pod` {
					t.Errorf("got %q, %v", out, err)
				}
			}
		}, withRuntime)
	})
	t.Run("status that is known as forged", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.owners[id] = pod.UID
			w.cluster.set(forged)
			w.start()
			w.wait(time.Second)
			w.cluster.set(pod)
			w.wait(time.Second)
			if out, err := exec(w); out != id+": true" || err != nil {
				t.Errorf("of the pod itself: got %q, %v", out, err)
			}
			if status, _ := w.source.PodStatus(forged.UID); len(status.ContainerStatuses) > 0 {
				t.Errorf("the other pod has %+v", status.ContainerStatuses)
			}
		}, withRuntime)
	})
	t.Run("API server", func(t *testing.T) {
		code, failed := 0, error(nil)
		bubble(t, func(w *world) {
			w.cluster.set(pod)
			w.start()
			w.wait(time.Second)
			if out, err := exec(w); out != "shop/web/web true" || err != nil {
				t.Errorf("got %q, %v", out, err)
			}
			code = 3
			_, err := exec(w)
			if exit, ok := errors.AsType[interface {
				error
				ExitStatus() int
			}](err); !ok || exit.ExitStatus() != 3 || err.Error() != "command terminated with exit code 3" {
				t.Errorf("got %v", err)
			}
			failed = errors.New("no such pod")
			if _, err := exec(w); !errors.Is(err, failed) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			failed = context.DeadlineExceeded
			if _, err := exec(w); !errors.Is(err, context.DeadlineExceeded) || err.Error() != `command timed out: "true" timed out after 1s` {
				t.Errorf("got %v", err)
			}
			refused := os.NewSyscallError("connect", syscall.ECONNREFUSED)
			w.cluster.fail(refused)
			w.wait(time.Minute)
			if _, err := exec(w); !errors.Is(err, refused) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a verdict without an API server: %v", err)
			}
		}, func(w *world) {
			w.cfg.Policy.APIExec = true
			w.cfg.Exec = func(ctx context.Context, p api.Pod, container string, cmd []string) ([]byte, int, error) {
				if errors.Is(failed, context.DeadlineExceeded) {
					<-ctx.Done()
					return nil, 0, ctx.Err()
				}
				return []byte(p.Namespace + "/" + p.Name + "/" + container + " " + strings.Join(cmd, " ")), code, failed
			}
		})
	})
	t.Run("not allowed", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.cluster.set(pod)
			w.start()
			w.wait(time.Second)
			if _, err := exec(w); err == nil || err.Error() != "the agent can run no commands in containers: it needs --cri-socket, or kubernetes.apiExec" {
				t.Errorf("got %v", err)
			}
		})
	})
}

func TestSourceLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world
		renewed, dropped, failed := 0, 0, error(nil)
		w = newWorld(t, func(w *world) {
			w.cfg.DropLease = func(context.Context) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				dropped++
				return failed
			}
			w.cfg.RenewLease = func(context.Context) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				renewed++
				return failed
			}
		})
		w.cluster.set(podNamed("other", readiness))
		w.start()
		w.wait(35 * time.Second)
		if locked(w, &renewed) != 0 || locked(w, &dropped) != 1 {
			t.Errorf("renewed %d times, dropped %d times, while no pod asks for it", renewed, dropped)
		}
		w.cluster.set(podNamed("asks", readiness, "prober.dev/on-agent-loss", "unready"))
		w.wait(40 * time.Second)
		if locked(w, &renewed) != 4 || dropped != 1 {
			t.Errorf("renewed %d times in 40 s, dropped %d times", renewed, dropped)
		}
		w.mu.Lock()
		failed = errors.New("forbidden")
		w.mu.Unlock()
		w.wait(30 * time.Second)
		if got := w.source.Troubles(); len(got) != 1 || got[0] != (pods.Trouble{Name: "lease", Text: "it cannot be renewed: forbidden"}) {
			t.Errorf("troubles: %v", got)
		}
		if n := w.logged("the lease of this agent cannot be renewed"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		w.mu.Lock()
		failed = nil
		w.mu.Unlock()
		w.wait(30 * time.Second)
		if len(w.source.Troubles()) > 0 || w.logged("renewed again") != 1 {
			t.Error("the trouble does not end")
		}
		w.cluster.set(podNamed("asks", readiness))
		w.mu.Lock()
		failed, renewed = errors.New("forbidden"), 0
		w.mu.Unlock()
		w.wait(15 * time.Second)
		w.mu.Lock()
		failed = nil
		w.mu.Unlock()
		w.wait(time.Minute)
		if locked(w, &renewed) > 1 || dropped < 3 || dropped > 4 {
			t.Errorf("renewed %d times, dropped %d times, after the pod does not ask for it any more", renewed, dropped)
		}
		w.end()
	})
}

func TestSourceNetwork(t *testing.T) {
	const inPod = `{web: {readiness: {httpGet: {path: /r, port: http, host: 127.0.0.1}, period: 1s}}}`
	newPod := func() *v1.Pod { return podNamed("web", inPod, "prober.dev/network", "pod") }
	allow := func(w *world) { w.cfg.Policy.PodNetwork = true }
	for _, c := range []struct {
		name string
		edit []func(*world)
		pod  func(*v1.Pod)
		want string
	}{
		{"not allowed", []func(*world){withRuntime}, nil, "kubernetes.podNetwork of the agent does not allow probes in the network of a pod"},
		{"no runtime", []func(*world){allow}, nil, "the agent has no --cri-socket, and does not know the network of the pod"},
		{"in the network of its node", []func(*world){allow, withRuntime}, func(p *v1.Pod) { p.Spec.HostNetwork = true }, "the pod is in the network of its node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				h, pod := w.script("/r", success), newPod()
				if c.pod != nil {
					c.pod(pod)
				}
				w.cluster.set(pod)
				w.start()
				w.wait(5 * time.Second)
				w.wantEvents("Warning ProbeInvalid metadata.annotations[prober.dev/network]: Forbidden: " + c.want)
				w.wantConditions("web", "readiness.web=unknown?")
				if _, ok := w.source.NetworkOf("uid-web"); ok || h.Count() > 0 {
					t.Errorf("%d attempts", h.Count())
				}
			}, c.edit...)
		})
	}
	t.Run("allowed", func(t *testing.T) {
		bubble(t, func(w *world) {
			h, pod := w.script("/r", success), newPod()
			w.cluster.set(pod)
			w.cluster.set(podNamed("other", `{web: {readiness: {tcpSocket: {port: 1}}}}`))
			w.start()
			w.wait(5 * time.Second)
			if h.Count() > 0 {
				t.Error("a probe runs before the network is known")
			}
			w.mu.Lock()
			w.network[pod.UID] = "/proc/17/ns/net"
			w.mu.Unlock()
			w.wait(11 * time.Second)
			if path, ok := w.source.NetworkOf("uid-web"); !ok || path != "/proc/17/ns/net" {
				t.Errorf("got %q, %t", path, ok)
			}
			if _, ok := w.source.NetworkOf("uid-other"); ok || h.Count() == 0 {
				t.Error("the other pod is in its own network too")
			}
			w.mu.Lock()
			w.network[pod.UID] = "/proc/18/ns/net"
			changed := w.changed
			w.mu.Unlock()
			changed(pod.UID)
			w.wait(time.Second)
			if path, _ := w.source.NetworkOf("uid-web"); path != "/proc/18/ns/net" {
				t.Errorf("after the sandbox has changed: %q", path)
			}
			w.wantEvents()
		}, allow, withRuntime)
	})
}

// dialer is a handler that asks for the network in which it must dial, as the built-in handlers do.
type dialer struct {
	w    *world
	host bool // an attempt was made in the network of the node
	in   map[string]int
}

func (d *dialer) Probe(_ context.Context, req probe.Request) (probe.Outcome, error) {
	path, ok := d.w.source.NetworkOf(req.Pod.UID)
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.host = d.host || !ok
	d.in[path]++
	return probe.Outcome{Result: probe.Success}, nil
}

// No attempt of a pod in its own network runs in the node's network, not even the first and the last.
func TestSourceNetworkOfEveryAttempt(t *testing.T) {
	bubble(t, func(w *world) {
		d := &dialer{w: w, in: make(map[string]int)}
		w.custom = d
		pod := podNamed("web", `{web: {readiness: {httpGet: {path: /r, port: http, host: 127.0.0.1}, period: 10ms}}}`, "prober.dev/network", "pod")
		w.network[pod.UID] = "/proc/17/ns/net"
		w.cluster.set(pod)
		w.start()
		w.wait(time.Second)
		w.cluster.remove("web")
		w.wait(time.Second)
		if locked(w, &d.host) || locked(w, &d.in)["/proc/17/ns/net"] < 50 || locked(w, &d.in)[""] > 0 {
			t.Errorf("attempts by network: %v", d.in)
		}
		if path, ok := w.source.NetworkOf("uid-web"); !ok || path != "" { // as a late attempt would ask
			t.Errorf("removed pod: network %q, %t", path, ok)
		}
		// The pod changes to the network of the node.
		delete(pod.Annotations, "prober.dev/network")
		w.cluster.set(pod)
		w.wait(time.Second)
		w.wantEvents("Warning ProbeInvalid") // loopback
		if locked(w, &d.host) {
			t.Error("the node was probed")
		}
	}, withRuntime, func(w *world) { w.cfg.Policy.PodNetwork, w.cfg.Policy.MinPeriod = true, 10*time.Millisecond })
}

func TestSourceRuntimeTrouble(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		w.mu.Lock()
		w.trouble = errors.New("no such socket")
		w.mu.Unlock()
		if got := w.source.Troubles(); len(got) != 1 || got[0] != (pods.Trouble{Name: "runtime", Text: "no such socket"}) {
			t.Errorf("got %v", got)
		}
	}, withRuntime)
}

func TestSourceWatch(t *testing.T) {
	bubble(t, func(w *world) {
		ctx, stop := context.WithCancel(w.t.Context())
		defer stop()
		seen := make(map[types.UID]string)
		go func() {
			for c := range w.source.Watch(ctx) {
				w.mu.Lock()
				seen[c.Pod.UID] = c.Pod.Status.PodIP
				if c.Removed {
					seen[c.Pod.UID] = "removed"
				}
				w.mu.Unlock()
			}
		}()
		pod := podNamed("web", readiness)
		w.cluster.set(pod)
		w.start()
		pod.Status.PodIP, pod.Status.PodIPs = "10.1.0.9", []v1.PodIP{{IP: "10.1.0.9"}}
		w.cluster.set(pod)
		w.wait(time.Second)
		if got := locked(w, &seen)[pod.UID]; got != "10.1.0.9" {
			t.Errorf("got %q", got)
		}
		if status, _ := w.source.PodStatus(pod.UID); status.PodIP != "10.1.0.9" || len(status.PodIPs) != 1 {
			t.Errorf("got %+v", status)
		}
		w.cluster.remove("web")
		w.wait(time.Second)
		if got := locked(w, &seen)[pod.UID]; got != "removed" {
			t.Errorf("got %q", got)
		}
		stop()
		synctest.Wait()
	})
}

// In the mode observe, a failure restarts nothing, and the probe continues.
func TestSourceLivenessGoesOnAfterFailure(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.script("/l", failure)
		pod := podNamed("web", `{web: {liveness: {httpGet: {path: /l, port: http}, period: 1s}}}`)
		pod.CreationTimestamp = metav1.Now()
		w.cluster.set(pod)
		w.start()
		w.wait(10 * time.Second)
		if h.Count() < 9 {
			t.Errorf("%d attempts", h.Count())
		}
		w.wantConditions("web", "liveness.web=failure!")
		h.Then(success)
		w.wait(2 * time.Second)
		w.wantConditions("web", "liveness.web=success")
		if w.source.Restarts(nil, nil) || w.actor.Failing(pod.UID, "web", probe.Liveness) {
			t.Error("it still fails")
		}
	})
}
