package local_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// graceful is a command that writes its name at its start and its end, and creates a file when it
// handles SIGTERM.
func graceful(name string) string {
	return fmt.Sprintf(`[sh, -c, "trap 'echo %[1]s-end >> DIR/log; exit 0' TERM; echo %[1]s >> DIR/log; touch DIR/%[1]s-up; while true; do sleep 0.05; done"]`, name)
}

const gone = "gone"

func (w *world) delete(t *testing.T, name string) {
	t.Helper()
	w.apply(t, "")
	w.awaitPod(t, name, gone, func(*v1.Pod) bool { return w.removed[name] })
}

func running(p *v1.Pod, container string) bool { return status(p, container).State.Running != nil }

func TestInitContainersRunInOrder(t *testing.T) {
	t.Run("#203 init containers one after another, then a container with a startup probe", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.apply(t, `
apiVersion: v1
kind: Pod
metadata:
  name: pod
  annotations: {prober.dev/probes: "c: {startup: {exec: {command: ['true']}, period: 50ms}}"}
spec:
  terminationGracePeriodSeconds: 1
  initContainers:
  - {name: i, command: [sh, -c, "echo i >> DIR/log; sleep 0.1; echo i-end >> DIR/log"]}
  - {name: j, command: [sh, -c, "echo j >> DIR/log; sleep 0.1; echo j-end >> DIR/log"]}
  containers:
  - {name: c, command: [sh, -c, "echo c >> DIR/log; exec sleep 1000"]}
`)
		w.awaitPod(t, "pod", "ready", isReady)
		w.awaitStory(t, "i", "i-end", "j", "j-end", "c")
		w.history("pod", func(p *v1.Pod) {
			if !running(p, "c") && p.Status.Phase != v1.PodPending {
				t.Errorf("phase %s before the container runs", p.Status.Phase)
			}
			if initialized := condition(p, v1.PodInitialized); running(p, "i") && initialized == v1.ConditionTrue {
				t.Error("initialized while an init container runs")
			}
		})
		w.mu.Lock()
		defer w.mu.Unlock()
		if p := w.latest["pod"]; p.Status.Phase != v1.PodRunning || condition(p, v1.PodInitialized) != v1.ConditionTrue {
			t.Errorf("got %s", p.Status.String())
		}
	})
}

func condition(p *v1.Pod, kind v1.PodConditionType) v1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

func TestPreStopHookRunsAfterFailedProbe(t *testing.T) {
	for _, c := range []struct{ name, kind string }{
		{"#204 startup probe", "startup"},
		{"#205 liveness probe", "liveness"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := scenario{
				command: graceful("c"), grace: "60",
				probes: c.kind + `: {exec: {command: ` + onceUp("c", "false") + `}, period: 50ms, timeout: 1m, failureThreshold: 1}`,
				more:   `lifecycle: {preStop: {exec: {command: [sh, -c, "echo prestop >> DIR/log"]}}}`,
			}
			w.apply(t, s.manifest(asContainer))
			restarts(1)(t, w)
			w.awaitEvent(t, "pod Killing Container c failed "+c.kind+" probe, will be restarted")
			w.awaitStory(t, "c", "prestop", "c-end", "c")
			w.delete(t, "pod")
			w.awaitStory(t, "c", "prestop", "c-end", "c", "prestop", "c-end")
		})
	}
}

// The pod is deleted while a container runs the preStop hook of a restart.
func TestPreStopHookRunsAgainAtEndOfPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := scenario{
		command: graceful("c"), grace: "60",
		probes: `liveness: {exec: {command: ` + onceUp("c", "false") + `}, period: 50ms, timeout: 1m, failureThreshold: 1}`,
		more:   `lifecycle: {preStop: {exec: {command: [sh, -c, "echo prestop >> DIR/log; while test ! -f DIR/go; do sleep 0.05; done; echo prestop-end >> DIR/log"]}}}`,
	}
	w.apply(t, s.manifest(asContainer))
	w.awaitEvent(t, "pod Killing Container c failed liveness probe, will be restarted")
	w.awaitStory(t, "c", "prestop")
	w.apply(t, "")
	w.awaitEvent(t, "pod Killing Stopping container c")
	w.awaitStory(t, "c", "prestop", "prestop")
	w.touch(t, "go")
	w.awaitPod(t, "pod", gone, func(*v1.Pod) bool { return w.removed["pod"] })
	w.awaitStory(t, "c", "prestop", "prestop", "prestop-end", "c-end")
}

func TestPreStopKeepsReadinessNotLiveness(t *testing.T) {
	for name, form := range map[string]string{"#206 container": asContainer, "#207 sidecar, which is not restarted either": asSidecar} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := scenario{
				command: graceful("c"), grace: "60",
				probes: `readiness: {exec: {command: ["true"]}, period: 30ms}, liveness: {exec: {command: [test, "!", -f, DIR/dead]}, period: 30ms, timeout: 1m, failureThreshold: 1}`,
				more:   `lifecycle: {preStop: {exec: {command: [sh, -c, "echo prestop >> DIR/log; touch DIR/dead; while test ! -f DIR/go; do sleep 0.05; done"]}}}`,
			}
			w.apply(t, s.manifest(form))
			w.awaitPod(t, "pod", "ready", isReady)
			w.awaitTicks(t, "pod/c/liveness", 2)
			w.awaitStory(t, "c")
			w.apply(t, "")
			w.awaitEvent(t, "pod Killing Stopping container c")
			w.awaitTicks(t, "pod/c/readiness", 2) // meanwhile, the last tick of liveness is counted
			before := w.tickCount("pod/c/liveness")
			w.awaitTicks(t, "pod/c/readiness", 8)
			if n := w.tickCount("pod/c/liveness"); n > before {
				t.Errorf("%d liveness ticks in preStop", n-before)
			}
			w.touch(t, "go")
			w.awaitPod(t, "pod", gone, func(*v1.Pod) bool { return w.removed["pod"] })
			w.awaitStory(t, "c", "prestop", "c-end")
			w.never(t, "not killed by a probe", "failed liveness")
			w.history("pod", func(p *v1.Pod) {
				if status(p, "c").RestartCount > 0 {
					t.Error("restarted")
				}
			})
		})
	}
}

func TestSidecarsStartInOrder(t *testing.T) {
	t.Run("#208 the next starts only after startup Success", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.apply(t, sidecars, "STARTUP", "exec: {command: [test, -f, DIR/s-well]}, period: 30ms, failureThreshold: 1000", "MORE", "")
		w.awaitTicks(t, "pod/s/startup", 8)
		if w.told("t") || w.told("c") {
			t.Error("others were started before the first sidecar has")
		}
		w.touch(t, "s-well")
		w.awaitPod(t, "pod", "ready", isReady)
		w.awaitStory(t, "s", "t")
		w.awaitStory(t, "s", "c")
		w.delete(t, "pod")
		// Regular containers end first, then sidecars in reverse order.
		w.awaitStory(t, "c-end", "t-end", "s-end")
	})
}

// sidecars is a pod with the sidecars s and t and the container c.
var sidecars = `
apiVersion: v1
kind: Pod
metadata:
  name: pod
  annotations:
    prober.dev/probes: |
      s: {startup: {STARTUP}}
spec:
  terminationGracePeriodSeconds: 60
  initContainers:
  - {name: s, restartPolicy: Always, command: ` + graceful("s") + `, MORE}
  - {name: t, restartPolicy: Always, command: ` + graceful("t") + `}
  containers:
  - {name: c, command: ` + graceful("c") + `}
`

const preStopS = `lifecycle: {preStop: {exec: {command: [sh, -c, "echo s-prestop >> DIR/log"]}}}`

func TestSidecarRestartsAfterFailedProbe(t *testing.T) {
	t.Run("#210 startup: preStop hook, and the next is not launched", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.apply(t, sidecars, "STARTUP", `exec: {command: `+onceUp("s", "false")+`}, period: 30ms, timeout: 1m, failureThreshold: 1`, "MORE", preStopS)
		w.awaitPod(t, "pod", "restarted", func(p *v1.Pod) bool { return status(p, "s").RestartCount >= 1 })
		w.awaitStory(t, "s", "s-prestop", "s-end")
		if w.told("t") {
			t.Error("the next sidecar was launched")
		}
		w.awaitEvent(t, "pod Killing Init container s failed startup probe")
		w.never(t, "no suffix", "Init container s failed startup probe,")
	})
	t.Run("#211 liveness: preStop hook, and the next starts", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		text := strings.Replace(sidecars, "{startup: {STARTUP}}", `{liveness: {exec: {command: `+onceUp("s", "false")+`}, period: 30ms, timeout: 1m, failureThreshold: 1}}`, 1)
		w.apply(t, text, "MORE", preStopS)
		w.awaitPod(t, "pod", "restarted", func(p *v1.Pod) bool { return status(p, "s").RestartCount >= 1 && running(p, "c") })
		w.awaitStory(t, "s", "s-prestop", "s-end", "s")
		w.awaitStory(t, "s", "t")
		w.awaitStory(t, "s", "c")
		w.awaitEvent(t, "pod Killing Init container s failed liveness probe")
	})
	t.Run("#213 a started sidecar ends gracefully beside one that has not", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		text := strings.Replace(sidecars, "s: {startup: {STARTUP}}", `t: {startup: {exec: {command: ["false"]}, period: 30ms, failureThreshold: 1000}}`, 1)
		w.apply(t, text, "MORE", "")
		w.awaitStory(t, "s", "t")
		w.awaitTicks(t, "pod/t/startup", 2)
		w.delete(t, "pod")
		w.awaitStory(t, "s", "t", "t-end", "s-end")
		if w.told("c") {
			t.Error("the container was launched")
		}
	})
	t.Run("#214 probing goes on, and the container starts when the sidecar has recovered", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.apply(t, sidecars, "STARTUP", `exec: {command: `+onceUp("s", "test -f DIR/s-well || { touch DIR/s-up; false; }")+`}, period: 30ms, timeout: 1m, failureThreshold: 3`, "MORE", "")
		w.awaitPod(t, "pod", "restarted", func(p *v1.Pod) bool { return status(p, "s").RestartCount >= 1 })
		w.touch(t, "s-well")
		w.awaitPod(t, "pod", "ready", isReady)
		w.awaitStory(t, "s", "s-end", "s", "t")
		w.awaitStory(t, "s", "s-end", "s", "c")
	})
}

func TestSidecarChangedAfterFailedProbe(t *testing.T) {
	for _, c := range []struct{ item, probe string }{
		{"#209 startup", "startup"},
		{"#212 liveness", "liveness"},
	} {
		for _, policy := range []string{"Never", "OnFailure", "Always"} {
			t.Run(c.item+" failed, then changed: the new definition runs, policy "+policy, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				text := strings.Replace(sidecars, "spec:\n", "spec:\n  restartPolicy: "+policy+"\n", 1)
				text = strings.Replace(text, "{startup: {STARTUP}}", "{"+c.probe+": {exec: {command: [test, -f, DIR/new]}, period: 30ms, initialDelay: 300ms, failureThreshold: 1}}", 1)
				w.apply(t, text, "MORE", "")
				w.awaitPod(t, "pod", "restarted", func(p *v1.Pod) bool { return status(p, "s").RestartCount >= 1 })
				w.apply(t, text, "MORE", "", "echo s >>", "touch DIR/new; echo s-new >>")
				w.awaitStory(t, "s", "s-new")
				w.awaitPod(t, "pod", "running", func(p *v1.Pod) bool { return running(p, "s") && running(p, "c") })
			})
		}
	}
}

// A grace period beyond the range of time.Duration becomes the maximum, and does not overflow.
func TestGracePeriodOverflowIsMaximum(t *testing.T) {
	for _, grace := range []string{"9223372037", "18446744074", "9223372036854775807"} {
		t.Run(grace, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  terminationGracePeriodSeconds: GRACE
  containers:
  - name: c
    command: [sh, -c, "trap 'sleep 4; echo clean >> DIR/log; exit 0' TERM; echo up >> DIR/log; while true; do sleep 0.05; done"]
`, "GRACE", grace)
			w.awaitStory(t, "up")
			w.delete(t, "pod")
			w.awaitStory(t, "up", "clean")
		})
	}
}
