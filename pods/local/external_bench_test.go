package local_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/pods/local"
	"github.com/daeace23/prober/pods/local/manifest"
	"github.com/daeace23/prober/probe"
)

const benchmarkPod = `
apiVersion: v1
kind: Pod
metadata: {name: shop-%d, labels: {app: shop}}
spec:
  containers:
  - name: web
    ports: [{containerPort: 80}]
    readinessProbe: {httpGet: {path: /healthz, port: 80}, periodSeconds: 1}
---`

// BenchmarkExternalPods reports the memory and goroutines of an idle, ready pod with one external target and one
// probe, including the manager's part and the pod of the manifest. One iteration is the whole measurement.
func BenchmarkExternalPods(b *testing.B) {
	for _, n := range []int{1000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			for b.Loop() {
				restExternal(b, n)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func restExternal(b *testing.B, n int) {
	idle := footprint()
	loaded := loadPods(b, benchmarkPod, n)
	read := footprint()
	_, stop := startPods(b, local.Config{}, loaded)
	time.Sleep(time.Second)
	rest := footprint()
	b.ReportMetric(float64(read.heap-idle.heap)/float64(n), "manifest-B/pod")
	b.ReportMetric(float64(rest.heap-read.heap)/float64(n), "running-B/pod")
	b.ReportMetric(float64(rest.stacks-idle.stacks)/float64(n), "stack-B/pod")
	b.ReportMetric(float64(rest.goroutines-idle.goroutines)/float64(n), "goroutines/pod")
	stop()
	runtime.KeepAlive(loaded)
}

// loadPods returns n pods of a manifest that has a %d for their numbers.
func loadPods(b *testing.B, template string, n int) []*declared.Pod {
	b.Helper()
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, template, i)
	}
	loaded, err := (&manifest.Source{Paths: []string{"-"}, Stdin: strings.NewReader(text.String())}).Load(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return loaded.Pods
}

// startPods starts pods with a manager, and waits until all are ready.
func startPods(b *testing.B, cfg local.Config, all []*declared.Pod) (pods *local.Pods, stop func()) {
	b.Helper()
	pods, err := local.New(cfg, testHost())
	if err != nil {
		b.Fatal(err)
	}
	m, err := manager.New(manager.Config{Status: pods, Handlers: succeed{}, RestartGrace: local.RestartGrace})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	pods.Start(m)
	if err := pods.Apply(ctx, all); err != nil {
		b.Fatal(err)
	}
	awaitReady(ctx, b, pods, len(all))
	return pods, func() {
		defer cancel()
		if err := errors.Join(pods.Stop(ctx), m.Close()); err != nil {
			b.Fatal(err)
		}
	}
}

const startPod = `
apiVersion: v1
kind: Pod
metadata: {name: shop-%d, labels: {app: shop}}
spec:
  containers:
  - name: web
    ports: [{containerPort: 80}]
    startupProbe: {httpGet: {path: /healthz, port: 80}, periodSeconds: 1}
    readinessProbe: {httpGet: {path: /healthz, port: 80}, periodSeconds: 1}
    livenessProbe: {httpGet: {path: /healthz, port: 80}, periodSeconds: 1}
---`

// BenchmarkStartExternalPods starts pods with one external target and its three probes, waits until
// all are ready, and stops them, with and without a state folder.
func BenchmarkStartExternalPods(b *testing.B) {
	const n = 2000
	loaded := loadPods(b, startPod, n)
	for _, state := range []bool{true, false} {
		b.Run(fmt.Sprintf("pods=%d/state=%t", n, state), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var cfg local.Config
				if state {
					cfg.StateDir = b.TempDir()
				}
				_, stop := startPods(b, cfg, loaded)
				stop()
			}
		})
	}
}

// BenchmarkEnvironment measures the lookup of the container of an exec probe.
func BenchmarkEnvironment(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			pods, stop := startPods(b, local.Config{}, loadPods(b, benchmarkPod, n))
			id := pods.Pods()[n/2].Status.ContainerStatuses[0].ContainerID
			for b.Loop() {
				if _, _, err := pods.Environment(id); err != nil {
					b.Fatal(err)
				}
			}
			stop()
		})
	}
}

// awaitReady waits until n pods are ready.
func awaitReady(ctx context.Context, b testing.TB, pods *local.Pods, n int) {
	ready := make(map[string]bool)
	for c := range pods.Watch(ctx) {
		for _, condition := range c.Pod.Status.Conditions {
			if condition.Type == v1.PodReady && condition.Status == v1.ConditionTrue {
				ready[c.Pod.Name] = true
			}
		}
		if len(ready) == n {
			return
		}
	}
	b.Fatalf("%d of %d pods are ready", len(ready), n)
}

// succeed has handlers that succeed at once.
type succeed struct{}

func (succeed) Prepare(string, []byte, probe.Target) (probe.Handler, error) {
	return probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
		return probe.Outcome{Result: probe.Success}, nil
	}), nil
}

// memory is the memory usage of the process.
type memory struct {
	heap, stacks int64 // bytes
	goroutines   int
}

// footprint collects garbage and returns the remaining memory.
func footprint() memory {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return memory{int64(s.HeapAlloc), int64(s.StackInuse), runtime.NumGoroutine()}
}
