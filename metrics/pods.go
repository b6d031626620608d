package metrics

import (
	"iter"
	"sync"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics/internal/family"
	"github.com/prometheus/client_golang/prometheus"
)

// Restarted counts the restart of a container. kind is the cause: a kind of probe,
// or "exit".
func (m *Metrics) Restarted(kind, namespace, pod, container string) {
	m.restarts.WithLabelValues(valid(kind), valid(namespace), valid(pod), valid(container)).Inc()
}

// PodGone removes the restart counts and the readiness of a pod. Other series end with the pod's workers.
func (m *Metrics) PodGone(namespace, pod, uid string) {
	m.ready.remove(podName{valid(namespace), valid(pod)}, uid)
	m.restarts.DeletePartialMatch(prometheus.Labels{"namespace": valid(namespace), "pod": valid(pod)})
}

// PodReady sets whether a pod is ready. A pod has no prober_ready series before the first call. Of pods
// with the same name, the last one counts.
func (m *Metrics) PodReady(namespace, pod, uid string, ready bool) {
	m.ready.set(podState{podName{valid(namespace), valid(pod)}, uid, ready})
}

// RegisterPauses registers the gauge of paused probes. paused is called at each scrape, and must not block.
func RegisterPauses(r prometheus.Registerer, paused func() iter.Seq[worker.Info]) error {
	return r.Register(probesCollector{probePaused, paused})
}

// RegisterMaintained registers the gauge of probes in maintenance windows. maintained is called at each scrape, and
// must not block.
func RegisterMaintained(r prometheus.Registerer, maintained func() iter.Seq[worker.Info]) error {
	return r.Register(probesCollector{probeMaintenance, maintained})
}

// probesCollector collects a gauge that is 1 for some probes.
type probesCollector struct {
	gauge  *family.Described
	probes func() iter.Seq[worker.Info]
}

var _ prometheus.Collector = probesCollector{}

// Describe implements [prometheus.Collector].
func (c probesCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.gauge.Desc }

// Collect implements [prometheus.Collector].
func (c probesCollector) Collect(ch chan<- prometheus.Metric) {
	seen := make(map[[4]string]bool) // pods of the same name have the same labels
	for i := range c.probes() {
		labels := [4]string{valid(i.Namespace), valid(i.Pod), valid(i.Container), i.Kind.String()}
		if !seen[labels] {
			seen[labels] = true
			ch <- c.gauge.With(1, labels[:]...)
		}
	}
}

type podName struct{ namespace, pod string }

// podState is a pod in a [readiness].
type podState struct {
	podName
	uid   string
	ready bool
}

// readiness stores which pods are ready. A pod keeps its slot, so a scrape that reads the slots in chunks
// misses none.
type readiness struct {
	mu    sync.Mutex
	slots []podState // the zero value is a free slot
	free  []int
	at    map[podName]int
}

func (r *readiness) set(p podState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.at[p.podName]
	if !ok {
		if r.at == nil {
			r.at = make(map[podName]int)
		}
		if last := len(r.free) - 1; last >= 0 {
			at, r.free = r.free[last], r.free[:last]
		} else {
			at, r.slots = len(r.slots), append(r.slots, podState{})
		}
		r.at[p.podName] = at
	}
	r.slots[at] = p
}

func (r *readiness) remove(name podName, uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.at[name]
	if !ok || r.slots[at].uid != uid {
		return
	}
	delete(r.at, name)
	r.slots[at] = podState{}
	r.free = append(r.free, at)
}

// allPods yields all pods in no particular order. It holds no lock while it yields, and its memory does not
// depend on the number of pods.
func (r *readiness) allPods() iter.Seq[podState] {
	return func(yield func(podState) bool) {
		var chunk [maxBlock]podState
		for at := 0; ; at += len(chunk) {
			n := r.chunk(at, chunk[:])
			for _, p := range chunk[:n] {
				if p != (podState{}) && !yield(p) {
					return
				}
			}
			if n < len(chunk) {
				return
			}
		}
	}
}

// chunk copies the slots from index at to into, and returns the number copied.
func (r *readiness) chunk(at int, into []podState) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return copy(into, r.slots[min(at, len(r.slots)):])
}
