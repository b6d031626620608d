// Package otelobserver exports the activity of the core's workers as OpenTelemetry metrics, and optionally
// as spans. It is a separate module, and depends on the API of OpenTelemetry alone:
//
//	o, err := otelobserver.New(otelobserver.Config{Meter: otel.Meter("checkout-agent")})
//	g, err := group.New[string](group.Config{Observers: []worker.Observer{o}})
//
// Six metrics describe probes:
//
//   - prober.probe.ticks ({tick}, counter): ticks with an attempt, by prober.result, which is
//     success, warning, failure, unknown or error.
//   - prober.probe.skipped ({tick}, counter): due ticks that were not run, by prober.skip.reason.
//   - prober.probe.result (gauge): the decided result, 0 for Success, 1 for
//     Failure, -1 while a startup probe has none.
//   - prober.probe.gate (gauge): 1 for the prober.gate that keeps a probe from making attempts. It has no
//     value for other probes.
//   - prober.probe.duration and prober.probe.schedule.lag (s, histograms): how long ticks took, and
//     how late they began, by kind, handler and prober.result.
//
// The series of a probe have the attribute prober.probe.kind. They also have k8s.namespace.name,
// k8s.pod.name, k8s.pod.uid and k8s.container.name, unless the field in [worker.Info] is empty. They end
// with the probe. The histograms have no series for each probe, because the API cannot end such series. An
// SDK may limit the number of series of a metric (cardinality limit); an agent with many probes must raise
// this limit.
package otelobserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// Config configures an [Observer].
type Config struct {
	Meter metric.Meter // required
	// Tracer creates a span for each tick with attempts, after its end. Nil disables spans.
	Tracer trace.Tracer
}

// Observer is a [worker.Observer]. It is safe for concurrent use. A tick costs some atomic additions and
// two histogram records; the rest is done when metrics are collected.
type Observer struct {
	tracer        trace.Tracer
	ticks         metric.Int64ObservableCounter
	skipped       metric.Int64ObservableCounter
	result        metric.Int64ObservableGauge
	gate          metric.Int64ObservableGauge
	duration, lag metric.Float64Histogram
	registration  metric.Registration

	mu     sync.Mutex
	probes map[*series]struct{}
	shared map[sharedKey]*options
}

var _ worker.Observer = (*Observer)(nil)

// sharedKey identifies the probes that share series of the histograms.
type sharedKey struct {
	kind    probe.Kind
	handler string
}

// options are the attributes of the histograms' series, by outcome.
type options [outcomes][]metric.RecordOption

// buckets are the limits of the histograms, in seconds.
var buckets = metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30)

// New returns an observer whose metrics are collected until [Observer.Close].
func New(cfg Config) (*Observer, error) {
	if cfg.Meter == nil {
		return nil, errors.New("otelobserver: Config.Meter is nil")
	}
	o := &Observer{tracer: cfg.Tracer, probes: make(map[*series]struct{}), shared: make(map[sharedKey]*options)}
	var errs [7]error
	m, tick := cfg.Meter, metric.WithUnit("{tick}")
	o.ticks, errs[0] = m.Int64ObservableCounter("prober.probe.ticks", tick, metric.WithDescription("Ticks with an attempt."))
	o.skipped, errs[1] = m.Int64ObservableCounter("prober.probe.skipped", tick, metric.WithDescription("Due ticks that were not run."))
	o.result, errs[2] = m.Int64ObservableGauge("prober.probe.result", metric.WithDescription("The decided result: 0 Success, 1 Failure, -1 none."))
	o.gate, errs[3] = m.Int64ObservableGauge("prober.probe.gate", metric.WithDescription("1 for what keeps a probe from making attempts."))
	o.duration, errs[4] = m.Float64Histogram("prober.probe.duration", metric.WithUnit("s"), buckets, metric.WithDescription("The duration of ticks, with all attempts."))
	o.lag, errs[5] = m.Float64Histogram("prober.probe.schedule.lag", metric.WithUnit("s"), buckets, metric.WithDescription("From when a tick was due until it began."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("otelobserver: %w", err)
	}
	o.registration, errs[6] = m.RegisterCallback(o.collect, o.ticks, o.skipped, o.result, o.gate)
	if errs[6] != nil {
		return nil, fmt.Errorf("otelobserver: %w", errs[6])
	}
	return o, nil
}

// Close removes all series of probes from the meter.
func (o *Observer) Close() error { return o.registration.Unregister() }

// Observe implements [worker.Observer].
func (o *Observer) Observe(info worker.Info) worker.ProbeObserver {
	var all []attribute.KeyValue
	for _, a := range [...]attribute.KeyValue{
		attribute.String("k8s.namespace.name", info.Namespace), attribute.String("k8s.pod.name", info.Pod),
		attribute.String("k8s.pod.uid", info.PodUID), attribute.String("k8s.container.name", info.Container),
	} {
		if a.Value.AsString() != "" {
			all = append(all, a)
		}
	}
	all = append(all, attribute.String("prober.probe.kind", info.Kind.String()))
	s := &series{observer: o, kind: info.Kind, attributes: metric.WithAttributeSet(attribute.NewSet(all...)), list: all}
	s.use(info.Handler)
	s.Decided(worker.InitialResult(info.Kind))
	o.mu.Lock()
	defer o.mu.Unlock()
	o.probes[s] = struct{}{}
	return s
}

func (o *Observer) remove(s *series) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.probes, s)
}

// options returns the histograms' attributes for key.
func (o *Observer) options(key sharedKey) *options {
	o.mu.Lock()
	defer o.mu.Unlock()
	if all, ok := o.shared[key]; ok {
		return all
	}
	all := new(options)
	for i := range all {
		all[i] = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(
			attribute.String("prober.probe.kind", key.kind.String()), attribute.String("prober.probe.handler", key.handler), outcome(i).attribute(),
		))}
	}
	o.shared[key] = all
	return all
}

// collect observes the series of all probes. It does not hold the lock while it observes.
func (o *Observer) collect(ctx context.Context, to metric.Observer) error {
	for _, s := range o.all() {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.collect(to)
	}
	return nil
}

func (o *Observer) all() []*series {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.AppendSeq(make([]*series, 0, len(o.probes)), maps.Keys(o.probes))
}
