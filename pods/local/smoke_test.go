package local_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestPodsRunAndStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(t, `
apiVersion: v1
kind: Pod
metadata:
  name: smoke
  annotations:
    prober.dev/probes: |
      web:
        readiness: {exec: {command: [test, -f, DIR/ready]}, period: 50ms}
        liveness: {exec: {command: [sh, -c, "test ! -f DIR/dead"]}, period: 50ms, timeout: 1m, failureThreshold: 1}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: web
    command: [sh, -c, "rm -f DIR/dead; echo hello $(WHO); exec sleep 100"]
    env: [{name: WHO, value: world}]
`)
	w.awaitOutput(t, "default/smoke/web: hello world\n", 1)
	w.touch(t, "ready")
	w.awaitPod(t, "smoke", "ready", isReady)
	w.touch(t, "dead")
	w.awaitEvent(t, "smoke Killing Container web failed liveness probe, will be restarted")
	w.awaitPod(t, "smoke", "restarted", func(p *v1.Pod) bool { return status(p, "web").RestartCount >= 1 })
	w.awaitPod(t, "smoke", "ready again", isReady)
}
