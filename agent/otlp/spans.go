package otlp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/probe"
)

const (
	maxText   = 1 << 10 // bytes of an attribute
	maxSend   = time.Minute
	scopeName = "github.com/daeace23/prober"
)

// Observe implements [worker.Observer].
func (e *Exporter) Observe(info worker.Info) worker.ProbeObserver {
	var attributes []*commonpb.KeyValue
	for _, a := range [...][2]string{
		{"k8s.namespace.name", info.Namespace}, {"k8s.pod.name", info.Pod}, {"k8s.pod.uid", info.PodUID}, {"k8s.container.name", info.Container},
		{"prober.probe.kind", info.Kind.String()},
	} {
		if a[1] != "" {
			attributes = append(attributes, text(a[0], valid(a[1])))
		}
	}
	return &observed{exporter: e, attributes: attributes, name: "probe " + info.Kind.String()}
}

// observed creates the spans of one probe. The probe's ticks own it.
type observed struct {
	exporter   *Exporter
	attributes []*commonpb.KeyValue // read-only
	name       string
}

// Tick implements [worker.ProbeObserver].
func (o *observed) Tick(t *worker.Tick) {
	c := o.exporter.current.Load()
	if c == nil || c.spec.Traces == config.NoTraces {
		return
	}
	if c.spec.Traces == config.FailureTraces && t.Err == nil && t.Outcome.Result == probe.Success && !t.Changed() {
		return
	}
	o.exporter.spans.add(o.spans(t)...)
}

// Skipped implements [worker.ProbeObserver].
func (*observed) Skipped(worker.SkipReason, int) {}

// Close implements [worker.ProbeObserver].
func (*observed) Close() {}

// spans returns the span of a tick, and a child span for each attempt if there were several. Events of an
// attempt become events of its span. Their times are sums of durations, as handlers do not report when they
// began.
func (o *observed) spans(t *worker.Tick) []*tracepb.Span {
	tick := &tracepb.Span{
		TraceId: random(16), SpanId: random(8), Name: o.name, Kind: tracepb.Span_SPAN_KIND_CLIENT,
		StartTimeUnixNano: nanos(t.Start), EndTimeUnixNano: nanos(t.End), Attributes: o.describe(t),
	}
	if t.Err != nil {
		tick.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: valid(t.Err.Error())}
	} else if t.Outcome.Result == probe.Failure || t.Outcome.Result == probe.Unknown {
		tick.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: valid(t.Outcome.Output)}
	}
	all := []*tracepb.Span{tick}
	if t.Trace == nil {
		return all
	}
	under := tick // the span that gets events
	if t.Attempts > 1 {
		under = attemptOf(tick, 1, t.Start)
		all = append(all, under)
	}
	began, at := t.Start, t.Start
	for i := range t.Trace.Events {
		e := &t.Trace.Events[i]
		if e.Type == probe.TraceRetry && t.Attempts > 1 {
			began = began.Add(e.Duration)
			at = began
			under.EndTimeUnixNano = nanos(began)
			under.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: valid(e.Detail)}
			number, _ := strconv.Atoi(e.Name)
			under = attemptOf(tick, number, began)
			all = append(all, under)
			continue
		}
		at = at.Add(e.Duration)
		if at.After(t.End) {
			at = t.End
		}
		under.Events = append(under.Events, event(e, at))
	}
	tick.DroppedEventsCount = uint32(t.Trace.Dropped)
	return all
}

// attemptOf returns the span of an attempt. It ends with the tick.
func attemptOf(tick *tracepb.Span, n int, start time.Time) *tracepb.Span {
	return &tracepb.Span{
		TraceId: tick.TraceId, SpanId: random(8), ParentSpanId: tick.SpanId, Name: fmt.Sprintf("attempt %d", n), Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: nanos(start), EndTimeUnixNano: tick.EndTimeUnixNano, Status: tick.Status,
	}
}

// event converts an event of an attempt that ended at at.
func event(e *probe.TraceEvent, at time.Time) *tracepb.Span_Event {
	out := &tracepb.Span_Event{TimeUnixNano: nanos(at), Name: string(e.Type) + " " + valid(e.Name)}
	if e.Detail != "" {
		out.Attributes = append(out.Attributes, text("detail", valid(e.Detail)))
	}
	if e.Duration > 0 {
		out.Attributes = append(out.Attributes, seconds("duration", e.Duration))
	}
	return out
}

// describe returns the attributes of a tick.
func (o *observed) describe(t *worker.Tick) []*commonpb.KeyValue {
	all := append(o.attributes[:len(o.attributes):len(o.attributes)],
		text("prober.probe.handler", t.Handler), text("prober.result", resultOf(t)), number("prober.attempts", t.Attempts),
		seconds("prober.schedule.lag", t.Start.Sub(t.Due)),
		text("prober.decided.before", strings.ToLower(t.Before.String())), text("prober.decided.after", strings.ToLower(t.After.String())),
		number("prober.run", t.Run), number("prober.threshold", t.Threshold))
	reason := t.Outcome.Reason
	if t.Err != nil {
		reason = probe.ReasonOf(t.Err)
	} else if t.Outcome.Output != "" {
		all = append(all, text("prober.output", valid(t.Outcome.Output)))
	}
	if reason != "" {
		all = append(all, text("error.type", valid(string(reason))))
	}
	if t.ContainerID != "" {
		all = append(all, text("container.id", valid(t.ContainerID)))
	}
	return all
}

func resultOf(t *worker.Tick) string {
	if t.Err != nil {
		return "error"
	}
	return t.Outcome.Result.String()
}

func seconds(key string, d time.Duration) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: d.Seconds()}}}
}

// valid returns the beginning of a text as valid UTF-8, as required by the protocol.
func valid(s string) string { return strings.ToValidUTF8(clip.Bytes(s, maxText), "\uFFFD") }

func nanos(t time.Time) uint64 { return uint64(t.UnixNano()) }

func random(n int) []byte {
	id := make([]byte, n)
	_, _ = rand.Read(id) // never fails
	return id
}

// sendSpans sends all spans. It gives up if the collector does not accept them for a minute.
func (e *Exporter) sendSpans(ctx context.Context, ended <-chan struct{}, c *client) {
	ctx, cancel := context.WithTimeout(ctx, maxSend)
	defer cancel()
	for {
		spans := e.spans.take()
		if len(spans) == 0 {
			return
		}
		request := &collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
			Resource: e.resource, ScopeSpans: []*tracepb.ScopeSpans{{Scope: e.scope(), Spans: spans}},
		}}}
		var answer collectorpb.ExportTraceServiceResponse
		err := c.send(ctx, ended, "/v1/traces", request, &answer, func(err error) { e.report(traceSignal, err) })
		_, refused := errors.AsType[*refusal](err)
		if err != nil && !refused {
			return // the spans stay in the queue
		}
		removed := e.spans.remove()
		if refused {
			e.spans.dropped.Add(uint64(removed))
			continue
		}
		e.report(traceSignal, rejected(answer.PartialSuccess.GetRejectedSpans(), answer.PartialSuccess.GetErrorMessage()))
	}
}

// rejected returns the error of a request that was accepted in part; nil if all of it was accepted.
func rejected(n int64, why string) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("the collector rejected %d items: %.200q", n, why)
}

func (e *Exporter) scope() *commonpb.InstrumentationScope {
	return &commonpb.InstrumentationScope{Name: scopeName, Version: e.cfg.Version}
}
