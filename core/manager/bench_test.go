package manager_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// BenchmarkManager measures the memory of a probe between ticks, including its share of the StatusStore,
// and how late ticks begin. It runs in real time, with a handler that does nothing. Every pod has two
// probes. A tick that was due but has not begun at the end of the measurement is lost, and its lateness
// counts as the length of the measurement. One iteration is a complete measurement.
func BenchmarkManager(b *testing.B) {
	for _, load := range []struct {
		probes int
		period int32 // seconds
	}{{1_000, 1}, {10_000, 1}, {100_000, 1}, {100_000, 10}} {
		b.Run(fmt.Sprintf("probes=%d/period=%ds", load.probes, load.period), func(b *testing.B) {
			bytes, goroutines := restingCost(b, load.probes)
			length := max(4, load.period) // seconds
			lags, lost := scheduleLags(b, load.probes, load.period, time.Duration(length)*time.Second)
			b.ReportMetric(bytes, "bytes/probe")
			b.ReportMetric(goroutines, "goroutines/probe")
			b.ReportMetric(float64(len(lags)-lost)/float64(length), "ticks/s")
			b.ReportMetric(float64(lost), "lost-ticks")
			for _, q := range []struct {
				name string
				at   float64
			}{{"p50-lag-ms", 0.5}, {"p99-lag-ms", 0.99}, {"max-lag-ms", 1}} {
				b.ReportMetric(quantile(lags, q.at), q.name)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// tickLog records how late each tick begins.
type tickLog struct {
	count    atomic.Int64
	lags     []time.Duration
	from, to atomic.Int64 // in Unix nanoseconds; ticks due outside this range are not recorded
	// over, until it is closed, blocks ticks that begin after the end. So the measurement ends even on a
	// machine that is too slow for the load. It may be nil.
	over chan struct{}
}

func (l *tickLog) Observe(worker.Info) worker.ProbeObserver { return l }

func (l *tickLog) Tick(t *worker.Tick) {
	if to := l.to.Load(); to > 0 && t.Start.UnixNano() > to {
		<-l.over
	}
	if due := t.Due.UnixNano(); l.over != nil && (due < l.from.Load() || due > l.to.Load()) {
		return
	}
	if i := l.count.Add(1) - 1; int(i) < len(l.lags) {
		l.lags[i] = t.Start.Sub(t.Due)
	}
}

func (l *tickLog) Skipped(worker.SkipReason, int) {}
func (l *tickLog) Close()                         {}

// noop prepares handlers that do nothing.
type noop struct{}

func (noop) Prepare(string, []byte, probe.Target) (probe.Handler, error) { return noop{}, nil }

func (noop) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	return probe.Outcome{Result: probe.Success}, nil
}

// benchPods returns pods with n probes in total.
func benchPods(n int, period int32) []*v1.Pod {
	pods := make([]*v1.Pod, n/2)
	for i := range pods {
		pod := podOf(fmt.Sprint("pod-", i), container("web", probe.Liveness, probe.Readiness))
		pod.Spec.Containers[0].LivenessProbe.PeriodSeconds = period
		pod.Spec.Containers[0].ReadinessProbe.PeriodSeconds = period
		pods[i] = pod
	}
	return pods
}

// up sets the status of the pods to running containers.
func up(store *manager.StatusStore, pods []*v1.Pod) {
	for i, pod := range pods {
		store.SetPodStatus(pod, statusOf(running("web", fmt.Sprintf("containerd://%064d", i))))
	}
}

func benchManager(b *testing.B, store *manager.StatusStore, log *tickLog) *manager.Manager {
	m, err := manager.New(manager.Config{Status: store, Handlers: noop{}, Observers: []worker.Observer{log}})
	if err != nil {
		b.Fatal(err)
	}
	return m
}

func addAll(b *testing.B, m *manager.Manager, pods []*v1.Pod) {
	for _, pod := range pods {
		if err := m.AddPod(b.Context(), pod); err != nil {
			b.Fatal(err)
		}
	}
}

// restingCost returns the memory and goroutines of a probe that has ticked once.
func restingCost(b *testing.B, n int) (bytes, goroutines float64) {
	log, store := new(tickLog), new(manager.StatusStore)
	pods := benchPods(n, 3600)
	before := memory()
	up(store, pods)
	count := runtime.NumGoroutine()
	m := benchManager(b, store, log)
	addAll(b, m, pods)
	for _, p := range m.Probes() {
		if err := m.Trigger(p.Key()); err != nil {
			b.Fatal(err)
		}
	}
	for tick := time.NewTicker(10 * time.Millisecond); log.count.Load() < int64(n); <-tick.C {
	}
	bytes = float64(memory()-before) / float64(n)
	goroutines = float64(runtime.NumGoroutine()-count) / float64(n)
	if err := m.Close(); err != nil {
		b.Fatal(err)
	}
	runtime.KeepAlive(pods)
	return bytes, goroutines
}

// memory returns the size of the live heap and the stacks in bytes.
func memory() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse)
}

// scheduleLags runs n probes with a period in seconds for d, a multiple of the period, after their first
// ticks. It returns how late each tick was, sorted, and the number of lost ticks.
func scheduleLags(b *testing.B, n int, period int32, d time.Duration) (lags []time.Duration, lost int) {
	log, store := &tickLog{lags: make([]time.Duration, 2*n*int(d/time.Second)), over: make(chan struct{})}, new(manager.StatusStore)
	m, pods := benchManager(b, store, log), benchPods(n, period)
	addAll(b, m, pods)
	up(store, pods)
	from := time.Now().Add(1500 * time.Millisecond)
	log.from.Store(from.UnixNano())
	log.to.Store(from.Add(d).UnixNano())
	<-time.After(time.Until(from.Add(d)))
	close(log.over)
	if err := m.Close(); err != nil {
		b.Fatal(err)
	}
	lags = log.lags[:min(int(log.count.Load()), len(log.lags))]
	lost = max(0, n*int(d/time.Second)/int(period)-len(lags))
	for range lost {
		lags = append(lags, d)
	}
	slices.Sort(lags)
	return lags, lost
}

// quantile returns a quantile in milliseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]) / 1e6
}

// BenchmarkUpdatePodStatus measures UpdatePodStatus for a pod with one container whose probes have
// succeeded.
func BenchmarkUpdatePodStatus(b *testing.B) {
	fields := podOf("u", container("web", probe.Liveness, probe.Readiness))
	noted := podOf("u", container("web"))
	noted.Annotations = map[string]string{declared.Annotation: `{"web": {"readiness": {"exec": {"command": ["x"]}}, "liveness": {"exec": {"command": ["x"]}}}}`}
	for name, pod := range map[string]*v1.Pod{"fields": fields, "annotation": noted} {
		b.Run("probes="+name, func(b *testing.B) {
			log, store := new(tickLog), new(manager.StatusStore)
			up(store, []*v1.Pod{pod})
			m := benchManager(b, store, log)
			addAll(b, m, []*v1.Pod{pod})
			for _, p := range m.Probes() {
				if err := m.Trigger(p.Key()); err != nil {
					b.Fatal(err)
				}
			}
			for tick := time.NewTicker(time.Millisecond); log.count.Load() < 2; <-tick.C {
			}
			status, _ := store.PodStatus(pod.UID)
			next := status.DeepCopy()
			b.ReportAllocs()
			for b.Loop() {
				next.ContainerStatuses[0].Started = nil // as reported by a runtime
				m.UpdatePodStatus(pod, next)
			}
			if c := next.ContainerStatuses[0]; !*c.Started || !c.Ready {
				b.Errorf("started %v, ready %v", *c.Started, c.Ready)
			}
			if err := m.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
