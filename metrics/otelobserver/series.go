package otelobserver

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// outcome is the result of a tick, or failed for an error.
type outcome int

const (
	failed   = outcome(probe.Failure) + 1
	outcomes = int(failed) + 1
)

func outcomeOf(t *worker.Tick) outcome {
	if t.Err != nil || t.Outcome.Result > probe.Failure {
		return failed
	}
	return outcome(t.Outcome.Result)
}

func (o outcome) String() string {
	if o == failed {
		return "error"
	}
	return probe.Result(o).String()
}

func (o outcome) attribute() attribute.KeyValue { return attribute.String("prober.result", o.String()) }

// skipReasons are the reasons of skipped ticks.
var skipReasons = [...]worker.SkipReason{worker.SkipBusy, worker.SkipNoSlot, worker.SkipQuarantine, worker.SkipPanic}

// series counts the ticks of one probe.
type series struct {
	observer   *Observer
	kind       probe.Kind
	attributes metric.ObserveOption
	list       []attribute.KeyValue // attributes as a list, for spans

	// Owned by the tick.
	handler string
	options *options

	// Written by the tick, read when metrics are collected.
	ticks   [outcomes]atomic.Int64
	skipped [len(skipReasons)]atomic.Int64
	decided atomic.Int64
	gate    atomic.Uint32
	begun   atomic.Bool // something was observed; a probe that could not be added exports nothing
}

var (
	_ worker.GateObserver     = (*series)(nil)
	_ worker.DecisionObserver = (*series)(nil)
)

// use sets the options for handler, which may have changed.
func (s *series) use(handler string) {
	if s.options == nil || s.handler != handler {
		s.handler, s.options = handler, s.observer.options(sharedKey{s.kind, handler})
	}
}

// Tick implements [worker.ProbeObserver].
func (s *series) Tick(t *worker.Tick) {
	s.use(t.Handler)
	o := outcomeOf(t)
	s.ticks[o].Add(1)
	s.Decided(t.After)
	s.begun.Store(true)
	s.observer.duration.Record(context.Background(), t.Duration().Seconds(), s.options[o]...)
	s.observer.lag.Record(context.Background(), t.Start.Sub(t.Due).Seconds(), s.options[o]...)
	if s.observer.tracer != nil {
		s.span(t, o)
	}
}

// span creates the span of a tick that has ended.
func (s *series) span(t *worker.Tick, o outcome) {
	_, span := s.observer.tracer.Start(context.Background(), "probe "+s.kind.String(), trace.WithNewRoot(), trace.WithTimestamp(t.Start), trace.WithAttributes(s.list...))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("prober.probe.handler", t.Handler), attribute.String("container.id", t.ContainerID), attribute.Int("prober.attempts", t.Attempts), o.attribute())
		if t.Err != nil {
			span.SetAttributes(attribute.String("error.type", string(probe.ReasonOf(t.Err))))
			span.SetStatus(codes.Error, t.Err.Error())
		}
	}
	span.End(trace.WithTimestamp(t.End))
}

// Skipped implements [worker.ProbeObserver].
func (s *series) Skipped(reason worker.SkipReason, ticks int) {
	for i, r := range skipReasons {
		if r == reason {
			s.skipped[i].Add(int64(ticks))
			s.begun.Store(true)
		}
	}
}

// Gated implements [worker.GateObserver].
func (s *series) Gated(gate worker.Gate) {
	s.gate.Store(uint32(gate))
	s.begun.Store(true)
}

// Decided implements [worker.DecisionObserver].
func (s *series) Decided(result results.Result) { s.decided.Store(int64(result.ToPrometheusType())) }

// Close implements [worker.ProbeObserver].
func (s *series) Close() { s.observer.remove(s) }

// collect observes the series of the probe. Counters that are 0 are left out.
func (s *series) collect(to metric.Observer) {
	if !s.begun.Load() {
		return
	}
	o := s.observer
	for i := range s.ticks {
		if n := s.ticks[i].Load(); n > 0 {
			to.ObserveInt64(o.ticks, n, s.attributes, metric.WithAttributes(outcome(i).attribute()))
		}
	}
	for i := range s.skipped {
		if n := s.skipped[i].Load(); n > 0 {
			to.ObserveInt64(o.skipped, n, s.attributes, metric.WithAttributes(attribute.String("prober.skip.reason", string(skipReasons[i]))))
		}
	}
	to.ObserveInt64(o.result, s.decided.Load(), s.attributes)
	if gate := worker.Gate(s.gate.Load()); gate != worker.Open {
		to.ObserveInt64(o.gate, 1, s.attributes, metric.WithAttributes(attribute.String("prober.gate", gate.String())))
	}
}
