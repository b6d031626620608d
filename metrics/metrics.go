// Package metrics exposes the activity of the core's workers as Prometheus metrics.
//
// [Metrics] is a [worker.Observer]. It counts each tick in atomic integers, and converts them to metrics at
// each scrape. The kubelet's two metrics keep their names, labels and meanings. The others are prober's
// own, and their labels are bounded.
//
// families.go declares all metrics: read it first. series.go counts the ticks of one probe, and index.go
// keeps the series sorted. handler.go and stream.go serve scrapes, and collect.go collects the metrics for
// a registry.
package metrics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/prometheus/client_golang/prometheus"
)

// Config configures [New].
type Config struct {
	Version  string // of the program, for prober_build_info; "" is shown as "unknown"
	Revision string // of its source; "" is shown as "unknown"
	Buckets  Buckets
}

// Buckets selects the buckets of prober_probe_duration_seconds, the only histogram with series for each
// probe.
type Buckets string

const (
	// ClassicBuckets are the kubelet's buckets: 12 series for each probe. They are the default.
	ClassicBuckets Buckets = "classic"
	// NativeBuckets selects a native histogram, which only a scrape in protobuf contains. In the text
	// formats the histogram has only its sum and count.
	NativeBuckets Buckets = "native"
	// ClassicAndNativeBuckets selects both.
	ClassicAndNativeBuckets Buckets = "both"
	// NoBuckets exposes only the sum and the count, as a summary.
	NoBuckets Buckets = "none"
)

// native reports whether there are native buckets.
func (b Buckets) native() bool { return b == NativeBuckets || b == ClassicAndNativeBuckets }

// Metrics observes workers and collects their counts. It is safe for concurrent use.
type Metrics struct {
	buckets     Buckets
	workers     atomic.Int64
	gated       gateCounts
	inflight    atomic.Int64
	skipped     [len(skipReasons)]atomic.Uint64
	transitions [len(probe.Kinds)][decidedResults][decidedResults]atomic.Uint64 // by kind, from, to

	build         prometheus.Gauge
	calls         *prometheus.HistogramVec
	restarts      *prometheus.CounterVec
	actions       *prometheus.CounterVec
	sourceStale   *prometheus.GaugeVec
	reloadOK      prometheus.Gauge
	reloadSuccess prometheus.Gauge

	series index
	ready  readiness

	targets atomic.Pointer[func() Targets] // nil without targets

	mu       sync.RWMutex
	handlers map[string]*outcomes // by handler name
	sources  []string             // names of the plugins in sourceStale
}

var _ worker.Observer = (*Metrics)(nil)

// New returns metrics whose counts are zero. [Metrics.Register] adds them to a registry.
func New(cfg Config) *Metrics {
	m := &Metrics{
		buckets: cmp.Or(cfg.Buckets, ClassicBuckets), handlers: make(map[string]*outcomes), gated: newGateCounts(),
		build: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: buildInfo.Name, Help: buildInfo.Help,
			ConstLabels: prometheus.Labels{
				"version": cmp.Or(cfg.Version, "unknown"), "revision": cmp.Or(cfg.Revision, "unknown"),
				"goversion": runtime.Version(),
			},
		}),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: pluginCalls.Name, Help: pluginCalls.Help, Buckets: callBuckets,
		}, pluginCalls.LabelNames()),
		restarts:      restarts.CounterVec(),
		actions:       newActions(),
		sourceStale:   sourceStale.GaugeVec(),
		reloadOK:      reloadOK.Gauge(),
		reloadSuccess: reloadSuccess.Gauge(),
	}
	m.build.Set(1)
	return m
}

// Register registers all metrics of m. With many probes a scrape costs much less with
// [Metrics.RegisterShared] and [Metrics.Handler].
func (m *Metrics) Register(r prometheus.Registerer) error {
	return errors.Join(m.RegisterShared(r), register(r, probeCollector{m}, pluginCollector{m}))
}

// RegisterShared registers all metrics of m except those with series for each probe. [Metrics.Handler] adds
// these.
func (m *Metrics) RegisterShared(r prometheus.Registerer) error {
	return register(r, sharedCollector{m}, m.build, m.calls, m.restarts, m.actions, m.sourceStale, m.reloadOK, m.reloadSuccess)
}

func register(r prometheus.Registerer, all ...prometheus.Collector) error {
	var errs []error
	for _, c := range all {
		if err := r.Register(c); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

// Observe implements [worker.Observer]. Successive workers of the same probe share one series, so the end
// of the first worker does not remove counts of the next.
func (m *Metrics) Observe(info worker.Info) worker.ProbeObserver {
	m.workers.Add(1)
	handler := m.outcomes(info.Handler)
	is := subject{&place{valid(info.Container), valid(info.Namespace)}, valid(info.Pod), valid(info.PodUID)}
	m.series.mu.Lock()
	defer m.series.mu.Unlock()
	p, found := m.series.seekLocked(&is, info.Kind)
	if found {
		s := m.series.atLocked(p)
		s.ensureRest().successors++
		return &successor{series: s, first: states.First(&info)}
	}
	m.series.made++
	s := &series{subject: m.series.keepLocked(p, &is)}
	s.init(&info, m.series.made)
	s.handler.Store(handler)
	m.series.insertLocked(p, s)
	return s
}

// valid returns value as a valid label value: invalid UTF-8 is replaced.
func valid(value string) string { return strings.ToValidUTF8(value, "\ufffd") }

// release removes one worker from s: the first one, or a successor. When the last worker ends, release
// removes s and moves its durations and failures to another series with the same labels, if there is one.
func (m *Metrics) release(s *series, first bool) {
	m.workers.Add(-1)
	m.series.mu.Lock()
	defer m.series.mu.Unlock()
	if first {
		s.set(endedField, 1)
	} else {
		s.ensureRest().successors--
	}
	if r := s.rest.Load(); !s.ended() || r != nil && r.successors > 0 {
		if first && !r.begun.Load() {
			s.set(ruleField, 0) // the next worker has decided nothing yet
		}
		return
	}
	p, _ := m.series.seekLocked(s.subject, s.kind())
	m.series.deleteLocked(p)
	if heirs := m.series.twinsLocked(s); len(heirs) > 0 {
		heirs[0].absorb(s)
	}
}

// outcomes returns the counts of one handler, and creates them if necessary.
func (m *Metrics) outcomes(handler string) *outcomes {
	handler = valid(handler)
	m.mu.RLock()
	o := m.handlers[handler]
	m.mu.RUnlock()
	if o != nil {
		return o
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if o = m.handlers[handler]; o == nil {
		o = &outcomes{metrics: m, handler: handler}
		m.handlers[handler] = o
	}
	return o
}

// CountInFlight returns h with its attempts in progress counted in prober_inflight.
func (m *Metrics) CountInFlight(h probe.Handler) probe.Handler {
	return &counted{h, &m.inflight}
}

// counted is a handler whose attempts in progress are counted.
type counted struct {
	inside   probe.Handler
	inflight *atomic.Int64
}

var _ probe.Wrapper = (*counted)(nil)

// Unwrap implements [probe.Wrapper].
func (c *counted) Unwrap() probe.Handler { return c.inside }

// Probe implements [probe.Handler].
func (c *counted) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	c.inflight.Add(1)
	defer c.inflight.Add(-1)
	return c.inside.Probe(ctx, req)
}

// PluginSources sets the plugins of registries by name. The value is whether the last good version of the
// plugin is in use because the registry's version is not usable. A concurrent scrape shows every plugin
// that stays.
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
		m.sourceStale.WithLabelValues(name).Set(oneIf(is))
	}
}

// RegisterReload registers a gauge of the duration of the reload in progress. underWay returns that
// duration, 0 without a reload.
func (m *Metrics) RegisterReload(r prometheus.Registerer, underWay func() time.Duration) error {
	return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: reloadProgress.Name, Help: reloadProgress.Help,
	}, func() float64 { return underWay().Seconds() }))
}

// Reloaded records a reload at now. ok reports whether all files were usable.
func (m *Metrics) Reloaded(ok bool, now time.Time) {
	if !ok {
		m.reloadOK.Set(0)
		return
	}
	m.reloadOK.Set(1)
	m.reloadSuccess.Set(float64(now.UnixNano()) / 1e9)
}
