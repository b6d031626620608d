//go:build soak

package soak

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// settled is the part of a soak, one in settled, that is the warm-up.
const settled = 5

// TestSoak runs an agent with some hundred probes on a machine that is busy half of the
// time, while manifests and plugins change, targets fail and readers are slow.
func TestSoak(t *testing.T) {
	need(t)
	var table figures
	defer table.print("soak")
	all := startTargets(t)
	w := newWorld(t, all)
	stdout, stderr := slowReader(t, nil), slowReader(t, logTo(t))
	a := start(t, stdout, stderr, "-f", w.manifests, "--plugins", w.plugins, "--state-dir", t.TempDir())
	watch := newWatch(a)
	watch.awaitHealthy(t)
	load(t)

	ctx, cancel := context.WithTimeout(t.Context(), *soakTime)
	defer cancel()
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){
		func(ctx context.Context) { w.churn(ctx, t, a) },
		func(ctx context.Context) { w.churnPlugin(ctx, t, a) },
		func(ctx context.Context) {
			every(ctx, 3*time.Second, func(int) { _ = a.cmd.Process.Signal(syscall.SIGHUP) })
		},
		func(ctx context.Context) { watch.results(ctx, t) },
		func(ctx context.Context) { watch.sizes(ctx, t) },
	} {
		loops.Go(func() { loop(ctx) })
	}
	for i := range 4 {
		loops.Go(func() { readStreamSlowly(ctx, t, a, i == 0) })
	}
	ended := false
	select {
	case <-a.ended:
		ended = true
		t.Error("the agent has ended: ", a.cmd.ProcessState)
		cancel()
	case <-ctx.Done():
	}
	loops.Wait()

	table.add("time", "%v, %d healthy probes, %d faulty, targets at nice %d", *soakTime, watch.healthy, watch.faulty, all.Nice)
	w.applied.report(t, &table, "manifest changes", limit)
	w.goodPlugin.report(t, &table, "good plugins", limit)
	w.badPlugin.report(t, &table, "bad plugins refused", limit)
	watch.report(t, &table)
	if !ended {
		table.add("end after SIGTERM", "%v", a.end(t).Round(time.Millisecond))
	}
	if left := marked(t, w.mark); len(left) > 0 {
		t.Errorf("%d processes outlive the agent", len(left))
	}
	if !t.Failed() {
		table.add("verdict", "passed")
	} else {
		table.add("verdict", "FAILED")
	}
}

// limit is how long the API may take to show a change.
const limit = 5 * time.Second

// world is the files of an agent.
type world struct {
	manifests, plugins string
	mark               string // in the command line of containers
	http               int    // port of the healthy HTTP server
	goodVersions       [2][]byte

	applied, goodPlugin, badPlugin latencies
}

const pod = `apiVersion: v1
kind: Pod
metadata:
  name: %s
  annotations:
    prober.dev/address: 127.0.0.1
    prober.dev/probes: |%s
spec:
  terminationGracePeriodSeconds: 5
  containers:%s
`

// newWorld writes the manifests that do not change.
func newWorld(t *testing.T, all targets) *world {
	t.Helper()
	w := &world{
		manifests: t.TempDir(), plugins: pluginFolder(t, "redis", "httpjson", "grpc-health"), http: all.HTTP,
		mark: fmt.Sprintf("soak-%d-%d", os.Getpid(), time.Now().UnixNano()),
	}
	w.makeVersions(t)
	const perPod = 12 // healthy probes
	for i := range max(1, *probes/perPod) {
		w.write(t, fmt.Sprintf("healthy-%03d", i), all.healthyPod(w.mark, i))
	}
	for i := range max(1, *probes/60) {
		w.write(t, fmt.Sprintf("faulty-%03d", i), all.faultyPod(i))
	}
	for i := range slots {
		w.change(t, i, 1)
	}
	return w
}

func (w *world) write(t *testing.T, name, text string) {
	t.Helper()
	writeFile(t, filepath.Join(w.manifests, name+".yaml"), text)
}

// healthyPod has a container for each handler. Every tenth pod has a local process too. The targets
// have priority, so their timeout is 1 s; that of other processes is 5 s.
func (all targets) healthyPod(mark string, i int) string {
	plugin := fmt.Sprintf(`
      redis: {readiness: {plugin: {name: redis, target: {port: %d}}, period: 1s, timeout: 5s, failureThreshold: 1}, liveness: {plugin: {name: redis, target: {port: %[1]d}}, period: 2s, timeout: 5s}}
      json: {readiness: {plugin: {name: httpjson, target: {port: %d}, config: {path: /json, field: status, fail: {equals: ok}}}, period: 2s, timeout: 5s, failureThreshold: 1}}
      health: {readiness: {plugin: {name: grpc-health, target: {port: %d}}, period: 2s, timeout: 5s, failureThreshold: 1}}
      process: {readiness: {plugin: {name: tester, config: {mode: ok}}, period: 2s, timeout: 5s, failureThreshold: 1}}`, all.Redis, all.HTTP, all.GRPC)
	containers := fmt.Sprintf(`
  - name: http
    readinessProbe: {httpGet: {path: /ok, port: %d}, periodSeconds: 1, failureThreshold: 1}
    livenessProbe: {httpGet: {path: /ok, port: %[1]d}, periodSeconds: 1}
  - name: tcp
    readinessProbe: {tcpSocket: {port: %d}, periodSeconds: 1, failureThreshold: 1}
    livenessProbe: {tcpSocket: {port: %[2]d}, periodSeconds: 1}
  - name: grpc
    readinessProbe: {grpc: {port: %d}, periodSeconds: 1, failureThreshold: 1}
    livenessProbe: {grpc: {port: %[3]d}, periodSeconds: 1}
  - name: exec
    readinessProbe: {exec: {command: ["true"]}, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 1}
  - name: redis
  - name: json
  - name: health
  - name: process`, all.HTTP, all.TCP, all.GRPC)
	if i%10 == 0 {
		containers += fmt.Sprintf(`
  - name: local
    command: [sh, -c, "trap 'exit 0' TERM; while :; do echo here; sleep 1 & wait $!; done", %s]
    livenessProbe: {exec: {command: ["true"]}, periodSeconds: 2, timeoutSeconds: 5}
    readinessProbe: {httpGet: {path: /ok, port: %d}, periodSeconds: 1, failureThreshold: 1}`, mark, all.HTTP)
	}
	return fmt.Sprintf(pod, fmt.Sprintf("healthy-%03d", i), plugin, containers)
}

// faultyPod has a container for each kind of failure.
func (all targets) faultyPod(i int) string {
	plugin := fmt.Sprintf(`
      hanging: {readiness: {plugin: {name: redis, target: {port: %d}}, period: 1s, timeout: 1s}}
      wrong: {readiness: {plugin: {name: tester, config: {mode: error}}, period: 1s, timeout: 1s}}`, all.Hang)
	containers := fmt.Sprintf(`
  - name: hanging
    livenessProbe: {httpGet: {path: /, port: %d}, periodSeconds: 1}
  - name: wrong
    livenessProbe: {exec: {command: [sh, -c, "sleep 100 & sleep 100"]}, periodSeconds: 5}
  - name: reset
    livenessProbe: {httpGet: {path: /, port: %d}, periodSeconds: 1}
    readinessProbe: {grpc: {port: %[2]d}, periodSeconds: 1}
  - name: refuse
    readinessProbe: {tcpSocket: {port: %d}, periodSeconds: 1}
  - name: slow
    readinessProbe: {httpGet: {path: /slow, port: %d}, periodSeconds: 1}
  - name: cut
    readinessProbe: {httpGet: {path: /cut, port: %[4]d}, periodSeconds: 1}
  - name: bad
    readinessProbe: {httpGet: {path: /bad, port: %[4]d}, periodSeconds: 1}`, all.Hang, all.Reset, all.Refuse, all.HTTP)
	return fmt.Sprintf(pod, fmt.Sprintf("faulty-%03d", i), plugin, containers)
}

// every calls do now and once each period, until ctx ends.
func every(ctx context.Context, period time.Duration, do func(i int)) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		do(i)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}
