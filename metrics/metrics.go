// Package metrics is the Prometheus view of what the core's workers do.
//
// [Metrics] is a [worker.Observer] that counts each tick into plain atomic numbers,
// and turns them into metrics when someone scrapes. The kubelet's two metrics keep
// their names, labels and meanings; the others are prober's own, and their labels are
// bounded. families.go declares all metrics: read it first. series.go counts for one probe,
// and collect.go collects the counts.
package metrics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// Config describes the program for prober_build_info.
type Config struct {
	Version  string // "" is shown as "unknown"
	Revision string // of the source; "" is shown as "unknown"
}

// Metrics observes workers and collects what it has seen. It is safe for concurrent
// use.
type Metrics struct {
	seed        maphash.Seed
	workers     atomic.Int64
	inflight    atomic.Int64
	lag         histogram
	skipped     [len(skipReasons)]atomic.Uint64
	transitions [len(probe.Kinds)][decidedResults][decidedResults]atomic.Uint64 // by kind, from, to

	build         prometheus.Gauge
	calls         *prometheus.HistogramVec
	restarts      *prometheus.CounterVec
	actions       *prometheus.CounterVec
	sourceStale   *prometheus.GaugeVec
	reloadOK      prometheus.Gauge
	reloadSuccess prometheus.Gauge

	mu       sync.RWMutex
	series   map[uint64]*series   // by hash of pod name, container and kind; the others of a hash hang on next
	handlers map[string]*outcomes // by name of handler
	sources  []string             // the plugins of sourceStale
}

var _ worker.Observer = (*Metrics)(nil)

// New returns metrics without counts. [Metrics.Register] adds them to a registry.
func New(cfg Config) *Metrics {
	m := &Metrics{
		seed: maphash.MakeSeed(), series: make(map[uint64]*series), handlers: make(map[string]*outcomes),
		lag: histogram{bounds: lagBounds, counts: make([]atomic.Uint32, len(lagBounds)+1)},
		build: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: buildInfo.Name, Help: buildInfo.Help,
			ConstLabels: prometheus.Labels{
				"version": cmp.Or(cfg.Version, "unknown"), "revision": cmp.Or(cfg.Revision, "unknown"),
				"goversion": runtime.Version(),
			},
		}),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: pluginCalls.Name, Help: pluginCalls.Help, Buckets: callBuckets,
		}, pluginCalls.labelNames()),
		restarts:      restarts.counterVec(),
		actions:       newActions(),
		sourceStale:   sourceStale.gaugeVec(),
		reloadOK:      reloadOK.gauge(),
		reloadSuccess: reloadSuccess.gauge(),
	}
	m.build.Set(1)
	return m
}

// Register registers all metrics of m.
func (m *Metrics) Register(r prometheus.Registerer) error {
	var errs []error
	for _, c := range []prometheus.Collector{
		workerCollector{m}, pluginCollector{m}, m.build, m.calls, m.restarts, m.actions, m.sourceStale, m.reloadOK, m.reloadSuccess,
	} {
		if err := r.Register(c); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

// Observe implements [worker.Observer]. Workers that succeed one another as the same
// probe share their series, so the end of the first does not remove counts of the next.
func (m *Metrics) Observe(info worker.Info) worker.ProbeObserver {
	m.workers.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	hash := m.hash(info)
	near := m.series[hash]
	for ; near != nil && !near.sameProbe(info); near = near.next {
	}
	for s := near; s != nil; s = s.next {
		if s.sameProbe(info) && s.podUID == info.PodUID {
			s.workers++
			return s
		}
	}
	s := &series{
		metrics: m, namespace: info.Namespace, pod: info.Pod, podUID: info.PodUID,
		container: info.Container, kind: info.Kind, workers: 1,
	}
	s.handler.Store(m.outcomesLocked(info.Handler))
	if near != nil { // keep the series of one probe together
		s.next, near.next = near.next, s
	} else {
		s.next, m.series[hash] = m.series[hash], s
	}
	return s
}

// hash leaves the pod's UID out, as the labels of the duration do.
func (m *Metrics) hash(info worker.Info) uint64 {
	return maphash.Comparable(m.seed, [4]string{info.Namespace, info.Pod, info.Container, info.Kind.String()})
}

// release removes one worker from s. The durations of the last one move to another series of
// the same probe, if there is one, because both have the same labels.
func (m *Metrics) release(s *series) {
	m.workers.Add(-1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.workers--; s.workers > 0 {
		return
	}
	hash := m.hash(s.info())
	first := m.series[hash]
	switch {
	case first != s:
		first.unlink(s)
	case s.next != nil:
		m.series[hash] = s.next
	default:
		delete(m.series, hash)
	}
	for heir := m.series[hash]; heir != nil; heir = heir.next {
		if heir.sameProbe(s.info()) {
			heir.absorb(s)
			return
		}
	}
}

// outcomes returns the numbers of one handler.
func (m *Metrics) outcomes(handler string) *outcomes {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.outcomesLocked(handler)
}

func (m *Metrics) outcomesLocked(handler string) *outcomes {
	o := m.handlers[handler]
	if o == nil {
		o = &outcomes{handler: handler}
		m.handlers[handler] = o
	}
	return o
}

// CountInFlight returns h with its attempts in progress counted.
func (m *Metrics) CountInFlight(h probe.Handler) probe.Handler {
	return probe.HandlerFunc(func(ctx context.Context, req probe.Request) (probe.Outcome, error) {
		m.inflight.Add(1)
		defer m.inflight.Add(-1)
		return h.Probe(ctx, req)
	})
}

// Restarted counts the restart of a container. kind is the cause: a kind of probe,
// or "exit".
func (m *Metrics) Restarted(kind, namespace, pod, container string) {
	m.restarts.WithLabelValues(kind, namespace, pod, container).Inc()
}

// PluginSources sets the plugins of registries, and whether the last good version of each stands
// in for what the registry has. A concurrent scrape shows every plugin that stays.
func (m *Metrics) PluginSources(stale map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range m.sources {
		if _, ok := stale[name]; !ok {
			m.sourceStale.DeleteLabelValues(name)
		}
	}
	m.sources = slices.Collect(maps.Keys(stale))
	for name, is := range stale {
		value := 0.0
		if is {
			value = 1
		}
		m.sourceStale.WithLabelValues(name).Set(value)
	}
}

// PodGone removes the counts of a pod that outlive its workers.
func (m *Metrics) PodGone(namespace, pod string) {
	m.restarts.DeletePartialMatch(prometheus.Labels{"namespace": namespace, "pod": pod})
}

// RegisterReload registers the duration of the reload in progress, which underWay returns: 0
// without one.
func (m *Metrics) RegisterReload(r prometheus.Registerer, underWay func() time.Duration) error {
	return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: reloadProgress.Name, Help: reloadProgress.Help,
	}, func() float64 { return underWay().Seconds() }))
}

// Reloaded records a reload at now, and whether all files could be used.
func (m *Metrics) Reloaded(ok bool, now time.Time) {
	if !ok {
		m.reloadOK.Set(0)
		return
	}
	m.reloadOK.Set(1)
	m.reloadSuccess.Set(float64(now.UnixNano()) / 1e9)
}
