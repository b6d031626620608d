package local_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/local"
)

func pod(spec string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: pod}\nspec:\n  terminationGracePeriodSeconds: 60\n" + spec
}

func TestCrashBackOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *local.Config, h *pods.Host) { c.RestartBackoff = 200 * time.Millisecond })
	w.apply(t, pod(`
  containers:
  - {name: c, command: [sh, -c, "echo run; exit 3"]}
`))
	backsOff := func(p *v1.Pod) bool {
		s := status(p, "c")
		waiting, last := s.State.Waiting, s.LastTerminationState.Terminated
		return waiting != nil && waiting.Reason == "CrashLoopBackOff" && last != nil && last.ExitCode == 3 && last.Reason == "Error" &&
			strings.HasPrefix(waiting.Message, "back-off ") && strings.Contains(waiting.Message, "s restarting failed container=c pod=pod_default(")
	}
	w.await(t, "pod in back-off", func() bool { return slices.ContainsFunc(w.past["pod"], backsOff) })
	w.awaitEvent(t, "pod BackOff Back-off restarting failed container c in pod pod_default(")
	w.awaitOutput(t, "run", 4)
	w.mu.Lock()
	defer w.mu.Unlock()
	var restarts []time.Time
	for _, r := range w.restarts {
		if r.Cause != "exit" {
			t.Errorf("cause %q", r.Cause)
		}
	}
	seen := map[string]bool{}
	for _, p := range w.past["pod"] {
		if last := status(p, "c").LastTerminationState.Terminated; last != nil && !seen[last.ContainerID] {
			seen[last.ContainerID] = true
			restarts = append(restarts, last.FinishedAt.Time)
		}
	}
	// The first restart does not wait, and the pauses of the others double.
	for i, least := range []time.Duration{0, 200 * time.Millisecond, 400 * time.Millisecond} {
		if i+1 < len(restarts) && restarts[i+1].Sub(restarts[i]) < least {
			t.Errorf("restart %d after %s, want at least %s", i+1, restarts[i+1].Sub(restarts[i]), least)
		}
	}
}

func TestRestartPolicies(t *testing.T) {
	for _, c := range []struct {
		name, spec string
		phase      v1.PodPhase
		restarts   int32
	}{
		{"Never, failed", "restartPolicy: Never\n  containers: [{name: c, command: [sh, -c, exit 1]}]", v1.PodFailed, 0},
		{"Never, done", "restartPolicy: Never\n  containers: [{name: c, command: ['true']}]", v1.PodSucceeded, 0},
		{"OnFailure, then done", "restartPolicy: OnFailure\n  containers: [{name: c, command: [sh, -c, 'test -f DIR/x || { touch DIR/x; exit 1; }']}]", v1.PodSucceeded, 1},
		{"the container's own policy", "containers: [{name: c, restartPolicy: Never, command: [sh, -c, exit 1]}]", v1.PodFailed, 0},
		{"a rule", "restartPolicy: Never\n  containers: [{name: c, command: [sh, -c, 'test -f DIR/x || { touch DIR/x; exit 42; }'], restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]}]", v1.PodSucceeded, 1},
		{"init container failed for good", "restartPolicy: Never\n  initContainers: [{name: c, command: [sh, -c, exit 1]}]\n  containers: [{name: d, command: ['true']}]", v1.PodFailed, 0},
		{"a sidecar ends with the others", "restartPolicy: Never\n  initContainers: [{name: c, restartPolicy: Always, command: [sleep, '1000']}]\n  containers: [{name: d, command: ['true']}]", v1.PodSucceeded, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.apply(t, pod("  "+c.spec))
			w.awaitPod(t, "pod", string(c.phase), func(p *v1.Pod) bool { return p.Status.Phase == c.phase && status(p, "c").RestartCount == c.restarts })
		})
	}
}

func TestStartError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(t, pod("  restartPolicy: Never\n  containers: [{name: c, command: [no-such-program]}]"))
	w.awaitPod(t, "pod", "failed", func(p *v1.Pod) bool {
		s := status(p, "c").State.Terminated
		return s != nil && s.ExitCode == 128 && s.Reason == "StartError" && s.Message == `"no-such-program": executable file not found in $PATH`
	})
	w.awaitEvent(t, `pod Failed Error: "no-such-program": executable file not found in $PATH`)
}

func TestAllContainersRestartTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(t, pod(`
  restartPolicy: Never
  initContainers:
  - {name: i, command: [sh, -c, "echo i >> DIR/log"]}
  containers:
  - {name: a, command: [sh, -c, "while test ! -f DIR/go; do sleep 0.05; done; rm DIR/go; exit 42"], restartPolicy: Never,
     restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]}
  - {name: b, command: `+graceful("b")+`}
`))
	w.awaitStory(t, "i", "b")
	w.touch(t, "go")
	w.awaitStory(t, "i", "b", "b-end", "i", "b")
	w.awaitPod(t, "pod", "restarted", func(p *v1.Pod) bool {
		return running(p, "a") && running(p, "b") && status(p, "a").RestartCount == 1 && status(p, "b").RestartCount == 1 && status(p, "i").RestartCount == 1
	})
}

func TestHooks(t *testing.T) {
	t.Parallel()
	requests := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		requests <- req.Host + " " + req.URL.String() + " " + req.UserAgent() + " " + req.Header.Get("X")
	}))
	defer server.Close()
	port := server.URL[strings.LastIndexByte(server.URL, ':')+1:]
	w := newWorld(t)
	w.apply(t, pod(`
  containers:
  - name: a
    command: `+graceful("a")+`
    ports: [{name: web, containerPort: PORT}]
    lifecycle:
      postStart: {exec: {command: [sh, -c, "while test ! -f DIR/go; do sleep 0.05; done"]}}
      preStop: {httpGet: {path: "/stop?x=1", port: web, httpHeaders: [{name: Host, value: me}, {name: X, value: y}]}}
  - name: b
    command: `+graceful("b")+`
    lifecycle: {preStop: {sleep: {seconds: 2}}}
`), "PORT", port)
	w.awaitStory(t, "a")
	w.awaitStory(t, "b")
	w.awaitPod(t, "pod", "waiting for a", func(p *v1.Pod) bool { return status(p, "a").State.Waiting != nil && running(p, "b") })
	w.history("pod", func(p *v1.Pod) {
		if running(p, "a") {
			t.Errorf("running before its postStart hook is over: %s", p.Status.String())
		}
	})
	w.touch(t, "go")
	w.awaitPod(t, "pod", "running", func(p *v1.Pod) bool { return running(p, "a") })
	began := time.Now()
	w.delete(t, "pod")
	w.awaitStory(t, "a-end", "b-end")
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("ended within %s, though a hook sleeps for 2s", took)
	}
	if got, want := <-requests, "me /stop?x=1 kube-lifecycle/1.36 y"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProbesWaitForPostStartHook(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"liveness", "startup"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := scenario{
				command: forever,
				probes:  kind + `: {exec: {command: ["true"]}, period: 20ms, timeout: 1m, failureThreshold: 1}`,
				more:    `lifecycle: {postStart: {exec: {command: [sleep, "0.5"]}}}`,
			}
			w.apply(t, s.manifest(asContainer))
			w.awaitPod(t, "pod", "running", func(p *v1.Pod) bool { return running(p, "c") || status(p, "c").RestartCount > 0 })
			w.never(t, "a container in its postStart hook", "Killing")
		})
	}
}

func TestFailedHooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(t, pod(`
  containers:
  - {name: a, command: [sleep, "1000"], lifecycle: {postStart: {exec: {command: ["false"]}}}}
  - {name: b, command: [sleep, "1000"], lifecycle: {preStop: {exec: {command: ["false"]}}}}
`))
	w.awaitEvent(t, "pod FailedPostStartHook PostStartHook failed")
	w.awaitEvent(t, "pod Killing FailedPostStartHook")
	w.awaitPod(t, "pod", "restarted", func(p *v1.Pod) bool { return status(p, "a").RestartCount > 0 && running(p, "b") })
	w.delete(t, "pod")
	w.awaitEvent(t, "pod FailedPreStopHook PreStopHook failed")
}

func TestProcessEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_THE_AGENT", "s3cret")
	w := newWorld(t)
	w.apply(t, pod(`
  restartPolicy: Never
  containers:
  - name: c
    workingDir: DIR
    command: [sh, -c, 'pwd; echo "$0 $1 $B|$SECRET_OF_THE_AGENT|$HOSTNAME"; kill -9 $$$$']
    args: ["$(A)", "$$(A) $(NONE)"]
    env: [{name: A, value: a}, {name: B, value: "b$(A)"}]
`))
	w.awaitOutput(t, "default/pod/c: "+w.dir+"\n", 1)
	w.awaitOutput(t, "default/pod/c: a $(A) $(NONE) ba||pod\n", 1)
	w.awaitPod(t, "pod", "killed", func(p *v1.Pod) bool {
		end := status(p, "c").State.Terminated
		return end != nil && end.ExitCode == 137 && end.Signal == 9
	})
}

func TestOutputOfFloodingContainerIsDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(t, pod("  containers: [{name: c, command: [SELF, flood]}]"))
	w.awaitOutput(t, " lines dropped]", 2)
	w.mu.Lock()
	defer w.mu.Unlock()
	// A message counts the dropped lines of each second.
	seconds := strings.Count(w.output.String(), " lines dropped]") + 1
	if n := w.output.Len(); n > seconds*300<<10 {
		t.Errorf("%d bytes written in %d seconds", n, seconds)
	}
}
