package local_test

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// scenario is one case of the kubelet's end-to-end tests of probes. Each is run twice:
// for a regular container, and for a sidecar next to one.
type scenario struct {
	name    string
	command string // YAML list
	probes  string // probes of the container in the annotation
	more    string // additional fields of the container
	grace   string // grace period of the pod in seconds; 1 when empty
	run     func(t *testing.T, w *world)
}

const podHead = `
apiVersion: v1
kind: Pod
metadata:
  name: pod
  annotations:
    prober.dev/probes: |
      c: {PROBES}
spec:
  terminationGracePeriodSeconds: GRACE
`

const asContainer = podHead + `
  containers:
  - name: c
    command: COMMAND
    MORE
`

const asSidecar = podHead + `
  initContainers:
  - name: c
    restartPolicy: Always
    command: COMMAND
    MORE
  containers:
  - {name: main, command: [sleep, "1000"]}
`

func (s scenario) manifest(form string) string {
	grace := s.grace
	if grace == "" {
		grace = "1"
	}
	return strings.NewReplacer("PROBES", s.probes, "GRACE", grace, "COMMAND", s.command, "MORE", s.more).Replace(form)
}

// listening is a startup probe that waits for a server.
const listening = `startup: {tcpSocket: {port: PORT}, period: 50ms, timeout: 1m, failureThreshold: 1000}`

// onceUp is the command of a probe that waits for the file of the container, removes it, and then
// runs a shell command.
func onceUp(container, then string) string {
	return `[sh, -c, "until test -f DIR/` + container + `-up; do sleep 0.05; done; rm DIR/` + container + `-up; ` + then + `"]`
}

const forever = `[sleep, "1000"]`

// restarts waits for n restarts of the container.
func restarts(n int32) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		w.awaitPod(t, "pod", "restarted", func(p *v1.Pod) bool { return status(p, "c").RestartCount >= n })
		last := int32(0)
		w.history("pod", func(p *v1.Pod) {
			if n := status(p, "c").RestartCount; n < last {
				t.Errorf("restart count fell from %d to %d", last, n)
			} else {
				last = n
			}
		})
	}
}

// staysUp waits for ticks of a probe, and fails the test after a restart.
func staysUp(kind string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		w.awaitTicks(t, "pod/c/"+kind, 8)
		w.history("pod", func(p *v1.Pod) {
			if n := status(p, "c").RestartCount; n > 0 {
				t.Errorf("%d restarts", n)
			}
		})
		w.never(t, "no restart", "Killing")
	}
}

// staysUnready is staysUp for a container that must never be ready.
func staysUnready(t *testing.T, w *world) {
	staysUp("readiness")(t, w)
	w.history("pod", func(p *v1.Pod) {
		if status(p, "c").Ready || isReady(p) {
			t.Errorf("ready: %s", p.Status.String())
		}
	})
}

// turnsBad waits for a success, and then makes the container unhealthy.
func turnsBad(t *testing.T, w *world) {
	w.awaitTicks(t, "pod/c/liveness", 2)
	w.never(t, "healthy at first", "Killing")
	w.touch(t, "bad")
	restarts(1)(t, w)
}

// restartsStubborn waits for the restart of a container that ignores SIGTERM.
func restartsStubborn(t *testing.T, w *world) {
	restarts(1)(t, w)
	w.awaitOutput(t, "ignored SIGTERM", 1)
	w.await(t, "pod killed", func() bool {
		return slices.ContainsFunc(w.past["pod"], func(p *v1.Pod) bool {
			last := status(p, "c").LastTerminationState.Terminated
			return last != nil && last.Signal == int32(syscall.SIGKILL) && last.ExitCode == 137
		})
	})
	w.awaitPod(t, "pod", "running again", func(p *v1.Pod) bool { return running(p, "c") })
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // the pod's own grace period is 500 s
	if err := w.pods.Stop(ctx); err != nil {
		t.Error(err)
	}
}

var scenarios = []scenario{
	{
		name: "#175 #236 not ready before the initial delay, no restart", command: forever,
		probes: `readiness: {exec: {command: ["true"]}, period: 50ms, initialDelay: 600ms}`,
		run: func(t *testing.T, w *world) {
			w.awaitPod(t, "pod", "ready", isReady)
			w.history("pod", func(p *v1.Pod) {
				s := status(p, "c")
				if s.Ready && time.Since(s.State.Running.StartedAt.Time) < 600*time.Millisecond {
					t.Errorf("ready %s after its start", time.Since(s.State.Running.StartedAt.Time))
				}
				if s.RestartCount > 0 {
					t.Error("restarted")
				}
			})
		},
	},
	{
		name: "#176 #237 a readiness probe that fails: never ready, no restart", command: forever,
		probes: `readiness: {tcpSocket: {port: PORT}, period: 30ms}`, run: staysUnready,
	},
	{
		name: "#177 #238 exec cat of a file that goes: restarted", command: `[sh, -c, "touch DIR/health; sleep 0.3; rm DIR/health; sleep 600"]`,
		probes: `liveness: {exec: {command: [cat, DIR/health]}, initialDelay: 100ms, period: 50ms, failureThreshold: 1}`, run: restarts(1),
	},
	{
		name: "#178 #239 exec cat of a file that stays: not restarted", command: `[sh, -c, "touch DIR/health; sleep 600"]`,
		probes: `startup: {exec: {command: [cat, DIR/health]}, period: 50ms, failureThreshold: 1000}, liveness: {exec: {command: [cat, DIR/health]}, period: 50ms, timeout: 1m, failureThreshold: 1}`, run: staysUp("liveness"),
	},
	{
		name: "#179 #240 http that turns 500: restarted", command: `[SELF, http, "127.0.0.1:PORT", DIR]`,
		probes: listening + `, liveness: {httpGet: {path: /healthz, port: PORT}, period: 50ms, timeout: 1m, failureThreshold: 1}`, run: turnsBad,
	},
	{
		name: "#180 #241 tcp, with an http server in trouble: not restarted", command: `[SELF, http, "127.0.0.1:PORT", DIR]`,
		probes: listening + `, liveness: {tcpSocket: {port: PORT}, period: 50ms, timeout: 1m, failureThreshold: 1}`,
		run: func(t *testing.T, w *world) {
			w.touch(t, "bad")
			staysUp("liveness")(t, w)
		},
	},
	{
		name: "#181 #242 the restart count only grows", command: forever,
		probes: `liveness: {exec: {command: ["false"]}, period: 20ms, failureThreshold: 1}`, run: restarts(5),
	},
	{
		name: "#182 #243 http that answers 200: not restarted", command: `[SELF, http, "127.0.0.1:PORT", DIR]`,
		probes: listening + `, liveness: {httpGet: {path: /, port: PORT}, period: 50ms, timeout: 1m, failureThreshold: 1}`, run: staysUp("liveness"),
	},
	{
		name: "#183 #244 exec that exceeds its timeout: restarted", command: forever,
		probes: `liveness: {exec: {command: [sleep, "10"]}, period: 50ms, timeout: 100ms, failureThreshold: 1}`, run: restarts(1),
	},
	{
		name: "#184 #245 readiness exec that exceeds its timeout: not ready", command: forever,
		probes: `readiness: {exec: {command: [sleep, "10"]}, period: 50ms, timeout: 50ms}`, run: staysUnready,
	},
	{
		name: "#185 #246 failing exec that leaves something behind: restarted", command: forever,
		probes: `liveness: {exec: {command: [sh, -c, "sleep 10 & exit 1"]}, period: 50ms, timeout: 1s, failureThreshold: 1}`, run: restarts(1),
	},
	{
		name: "#186 #247 local redirect to what fails: restarted", command: `[SELF, http, "127.0.0.1:PORT", DIR]`,
		probes: listening + `, liveness: {httpGet: {path: "/redirect?loc=/healthz", port: PORT}, period: 50ms, timeout: 1m, failureThreshold: 1}`, run: turnsBad,
	},
	{
		name: "#187 #248 redirect to another host: not restarted, and a warning", command: `[SELF, http, "127.0.0.1:PORT", DIR]`,
		probes: listening + `, liveness: {httpGet: {path: "/redirect?loc=http://0.0.0.0/", port: PORT}, period: 50ms, timeout: 1m, failureThreshold: 1}`,
		run: func(t *testing.T, w *world) {
			w.awaitEvent(t, `pod ProbeWarning Liveness probe warning: Probe terminated redirects, Response body: <a href="http://0.0.0.0/">Found</a>.`)
			staysUp("liveness")(t, w)
		},
	},
	{
		name: "#188 #249 startup fails: restarted", command: forever,
		probes: `startup: {exec: {command: ["false"]}, period: 30ms}, liveness: {exec: {command: ["true"]}, period: 30ms, failureThreshold: 1}`,
		run: func(t *testing.T, w *world) {
			restarts(1)(t, w)
			w.awaitEvent(t, "Killing", "failed startup probe")
			w.never(t, "liveness was not probed", "failed liveness probe")
		},
	},
	{
		name: "#189 #250 startup that goes on delays liveness: not restarted", command: forever,
		probes: `startup: {exec: {command: ["false"]}, period: 30ms, failureThreshold: 600}, liveness: {exec: {command: ["false"]}, period: 30ms, failureThreshold: 1}`,
		run:    staysUp("startup"),
	},
	{
		name: "#190 #251 liveness after startup: restarted", command: `[sh, -c, "sleep 0.3; touch DIR/up; sleep 600"]`,
		probes: `startup: {exec: {command: [cat, DIR/up]}, period: 50ms, failureThreshold: 600}, liveness: {exec: {command: ["false"]}, period: 30ms, failureThreshold: 1}`,
		run: func(t *testing.T, w *world) {
			restarts(1)(t, w)
			w.awaitEvent(t, "Killing", "failed liveness probe")
			w.never(t, "only liveness kills", "failed startup probe")
		},
	},
	{
		name: "#192 #253 the liveness probe's grace period wins", command: `[SELF, stubborn, DIR/c-up]`, grace: "500",
		probes: `liveness: {exec: {command: ` + onceUp("c", "false") + `}, period: 50ms, timeout: 1m, failureThreshold: 1, terminationGracePeriodSeconds: 1}`, run: restartsStubborn,
	},
	{
		name: "#193 #254 the startup probe's grace period wins", command: `[SELF, stubborn, DIR/c-up]`, grace: "500",
		probes: `startup: {exec: {command: ` + onceUp("c", "false") + `}, period: 50ms, timeout: 1m, failureThreshold: 1, terminationGracePeriodSeconds: 1}`, run: restartsStubborn,
	},
	{
		name: "#194 #255 grpc: not restarted", command: `[SELF, grpc, "127.0.0.1:PORT"]`,
		probes: listening + `, liveness: {grpc: {port: PORT}, period: 50ms, timeout: 1m, failureThreshold: 1}`, run: staysUp("liveness"),
	},
	{
		name: "#195 #256 grpc at another port: restarted", command: forever,
		probes: `liveness: {grpc: {port: PORT}, period: 50ms, timeout: 100ms, failureThreshold: 1}`, run: restarts(1),
	},
	{
		name: "#196 #257 not ready while terminating", grace: "60",
		command: `[sh, -c, "trap 'rm DIR/ready; while test ! -f DIR/end; do sleep 0.05; done; exit 0' TERM; touch DIR/ready; while true; do sleep 0.05; done"]`,
		probes:  `readiness: {exec: {command: [cat, DIR/ready]}, period: 50ms, failureThreshold: 1}`,
		run:     unreadyWhileTerminating,
	},
	{
		name: "#197 #258 not ready while terminating, and liveness is not probed", grace: "60",
		command: `[sh, -c, "trap 'rm DIR/ready DIR/live; while test ! -f DIR/end; do sleep 0.05; done; exit 0' TERM; touch DIR/ready DIR/live; while true; do sleep 0.05; done"]`,
		probes: `readiness: {exec: {command: [cat, DIR/ready]}, period: 50ms, failureThreshold: 1},
        startup: {exec: {command: [cat, DIR/live]}, period: 50ms, failureThreshold: 1000},
        liveness: {exec: {command: [cat, DIR/live]}, period: 50ms, timeout: 1m, failureThreshold: 1}`,
		run: func(t *testing.T, w *world) {
			w.awaitTicks(t, "pod/c/liveness", 2)
			unreadyWhileTerminating(t, w)
			w.never(t, "liveness was stopped", "failed liveness probe")
			w.never(t, "liveness was stopped", "Liveness probe failed")
		},
	},
}

// unreadyWhileTerminating deletes a ready pod whose container ends when DIR/end exists.
func unreadyWhileTerminating(t *testing.T, w *world) {
	w.awaitPod(t, "pod", "ready", isReady)
	w.apply(t, "")
	w.awaitPod(t, "pod", "unready while it terminates", func(p *v1.Pod) bool {
		return p.DeletionTimestamp != nil && !isReady(p) && status(p, "c").State.Running != nil && !status(p, "c").Ready
	})
	w.awaitTicks(t, "pod/c/readiness", 3)
	w.touch(t, "end")
	w.awaitPod(t, "pod", "gone", func(*v1.Pod) bool { return w.removed["pod"] })
}

func TestProbingContainer(t *testing.T) { runScenarios(t, asContainer) }

func TestProbingSidecar(t *testing.T) { runScenarios(t, asSidecar) }

func runScenarios(t *testing.T, form string) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.apply(t, s.manifest(form), "PORT", freePort(t))
			s.run(t, w)
		})
	}
}

func TestReadyImmediatelyAfterStartup(t *testing.T) {
	for name, form := range map[string]string{"container": asContainer, "sidecar": asSidecar} {
		t.Run("#191 #252 ready at once when startup succeeds: "+name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := scenario{command: forever, probes: `startup: {exec: {command: [cat, DIR/up]}, period: 50ms, failureThreshold: 1000},
        readiness: {exec: {command: ["true"]}, period: PERIOD}`}
			w.apply(t, s.manifest(form), "PERIOD", "50ms")
			w.awaitTicks(t, "pod/c/startup", 3)
			// With this period, the next periodic tick comes after an hour.
			w.apply(t, s.manifest(form), "PERIOD", "1h")
			w.awaitTicks(t, "pod/c/startup", 2)
			w.touch(t, "up")
			w.awaitPod(t, "pod", "ready", isReady)
		})
	}
}
