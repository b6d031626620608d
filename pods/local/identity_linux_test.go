package local_test

import (
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

const asOthers = `apiVersion: v1
kind: Pod
metadata:
  name: pod
  annotations: {prober.dev/umask: "027", prober.dev/umask.own: "0077"}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {runAsUser: 54321, runAsGroup: 54322, supplementalGroups: [54323], runAsNonRoot: true}
  containers:
  - name: pods
    command: [sh, -c, 'echo "$(id -u) $(id -G) $(umask) $HOME" >/dev/stdout; setsid sleep 1000 & sleep 1000']
    env: [{name: M, value: MARK}]
    lifecycle: {preStop: {exec: {command: [sh, -c, 'echo "$(id -u) $(id -G)" >DIR/hook']}}}
    livenessProbe: {exec: {command: [sh, -c, 'test "$(id -u) $(id -G)" = "54321 54322 54323"']}, periodSeconds: 1, failureThreshold: 1}
  - name: own
    securityContext: {runAsUser: 65534}
    command: [sh, -c, 'echo "$(id -u) $(umask)"; kill -9 $PPID; echo alive; sleep 1000']
    env: [{name: M, value: MARK}]
    readinessProbe: {exec: {command: [sh, -c, 'test "$(id -u) $(id -g)" = "65534 65534" || id']}, periodSeconds: 1}
`

// Processes of another user are also ended, including those that have left their session, and when the agent
// ends. Only root can start them.
func TestContainersRunAsTheirUsers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("manifest's TestIdentityNeedsRoot is for other users")
	}
	w := newWorld(t)
	mark := "user-" + strings.TrimPrefix(w.dir, os.TempDir()+"/")
	for dir := w.dir; dir != os.TempDir() && dir != "/"; dir = dir[:strings.LastIndexByte(dir, '/')] {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.NewReplacer("MARK", mark).Replace(asOthers)
	// The container has the pod's group, unless it sets its own.
	text = strings.Replace(text, "{runAsUser: 65534}", "{runAsUser: 65534, runAsGroup: 65534}", 1)
	w.apply(t, text)
	w.awaitOutput(t, "pod/pods: 54321 54322 54323 0027 /\n", 1)
	w.awaitOutput(t, "pod/own: 65534 0077\n", 1)
	w.awaitOutput(t, "pod/own: alive\n", 1) // the container cannot kill its shim
	w.awaitTicks(t, "pod/pods/liveness", 3)
	w.awaitPod(t, "pod", "readiness", func(p *v1.Pod) bool { return status(p, "own").Ready })
	pids := marked(t, mark)
	if len(pids) < 4 {
		t.Errorf("processes %v, want two shells, two sleeps and one of another session", pids)
	}

	// A changed umask restarts only its container.
	w.apply(t, strings.Replace(text, "0077", "0007", 1))
	w.awaitOutput(t, "pod/own: 65534 0007\n", 1)
	if n := w.countEvents("pod Killing", "pods"); n != 0 {
		t.Error("the other container was restarted too")
	}

	w.apply(t, "")
	w.await(t, "the pod to be removed", func() bool { return w.removed["pod"] })
	for _, pid := range append(pids, marked(t, mark)...) {
		awaitEnd(t, pid)
	}
	if got, err := os.ReadFile(w.dir + "/hook"); err != nil || string(got) != "54321 54322 54323\n" {
		t.Errorf("the hook ran as %q, %v", got, err)
	}
}
