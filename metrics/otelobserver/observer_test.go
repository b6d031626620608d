package otelobserver_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics/otelobserver"
	"github.com/daeace23/prober/probe"
)

// rig is a group with an observer, whose metrics are collected by a reader. It must be made inside a
// bubble.
type rig struct {
	*group.Group[string]
	t      *testing.T
	reader *metric.ManualReader
	task   *worker.Task
}

func newRig(t *testing.T, cfg otelobserver.Config) *rig {
	t.Helper()
	r := &rig{t: t, reader: metric.NewManualReader()}
	cfg.Meter = metric.NewMeterProvider(metric.WithReader(r.reader)).Meter("test")
	o, err := otelobserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.Group, err = group.New[string](group.Config{Observers: []worker.Observer{o}, Compat: probe.CompatHerd}); err != nil {
		t.Fatal(err)
	}
	r.task = &worker.Task{Subject: results.Subject{Pod: "checkout", Container: "web"}}
	r.task.SetState(worker.Running("checkout/web/1", time.Now()))
	time.Sleep(2 * time.Hour) // the group is older than the period: the first tick of a probe is immediate
	t.Cleanup(func() {
		if err := r.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// add adds a probe with handler h, and waits for its first tick, which is immediate.
func (r *rig) add(kind probe.Kind, h probe.HandlerFunc) group.ID[string] {
	r.t.Helper()
	p := group.Probe{Task: r.task, Kind: kind, Handler: h, Name: "custom", Spec: probe.Spec{Period: time.Hour, FailureThreshold: 1}}
	if err := r.Add("checkout", p); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return group.ID[string]{Key: "checkout", Task: "web", Kind: kind}
}

func (r *rig) trigger(id group.ID[string]) {
	r.t.Helper()
	if err := r.Trigger(id); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// wait waits until all ticks that begin within d have ended.
func (r *rig) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// collect returns the values of all series. For a histogram they are its count and its sum.
func (r *rig) collect() map[string]string {
	r.t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.reader.Collect(context.Background(), &all); err != nil {
		r.t.Fatal(err)
	}
	values := make(map[string]string)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			name := m.Name + " " + m.Unit
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					values[name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = fmt.Sprint(p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					values[name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = fmt.Sprint(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					values[name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = fmt.Sprint(p.Count, " ", p.Sum)
				}
			default:
				r.t.Errorf("%s is a %T", name, d)
			}
		}
	}
	return values
}

func (r *rig) want(want map[string]string) {
	r.t.Helper()
	got := r.collect()
	for _, series := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[series]; !ok {
			r.t.Errorf("unexpected %s = %s", series, got[series])
		}
	}
	for series, value := range want {
		if got[series] != value {
			r.t.Errorf("%s = %q, want %s", series, got[series], value)
		}
	}
}

const ofProbe = "k8s.container.name=web,k8s.pod.name=checkout,prober.probe.kind="

func TestMetricsOfTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, otelobserver.Config{})
		answer := probe.Outcome{Result: probe.Success}
		var fault error
		id := r.add(probe.Readiness, func(context.Context, probe.Request) (probe.Outcome, error) {
			time.Sleep(250 * time.Millisecond)
			return answer, fault
		})
		r.wait(time.Second)
		r.want(map[string]string{
			"prober.probe.ticks {tick} " + ofProbe + "readiness,prober.result=success":                                  "1",
			"prober.probe.result  " + ofProbe + "readiness":                                                             "0",
			"prober.probe.duration s prober.probe.handler=custom,prober.probe.kind=readiness,prober.result=success":     "1 0.25",
			"prober.probe.schedule.lag s prober.probe.handler=custom,prober.probe.kind=readiness,prober.result=success": "1 0",
		})
		answer.Result = probe.Failure
		r.trigger(id)
		r.wait(time.Second)
		fault = errors.New("broken")
		r.trigger(id)
		r.wait(time.Second)
		if err := r.Pause(id); err != nil {
			t.Fatal(err)
		}
		r.trigger(id)
		r.want(map[string]string{
			"prober.probe.ticks {tick} " + ofProbe + "readiness,prober.result=success":                                            "1",
			"prober.probe.ticks {tick} " + ofProbe + "readiness,prober.result=failure":                                            "1",
			"prober.probe.ticks {tick} " + ofProbe + "readiness,prober.result=error":                                              "1",
			"prober.probe.result  " + ofProbe + "readiness":                                                                       "1",
			"prober.probe.gate  " + "k8s.container.name=web,k8s.pod.name=checkout,prober.gate=paused,prober.probe.kind=readiness": "1",
			"prober.probe.duration s prober.probe.handler=custom,prober.probe.kind=readiness,prober.result=success":               "1 0.25",
			"prober.probe.duration s prober.probe.handler=custom,prober.probe.kind=readiness,prober.result=failure":               "1 0.25",
			"prober.probe.duration s prober.probe.handler=custom,prober.probe.kind=readiness,prober.result=error":                 "1 0.75",
			"prober.probe.schedule.lag s prober.probe.handler=custom,prober.probe.kind=readiness,prober.result=success":           "1 0",
			"prober.probe.schedule.lag s prober.probe.handler=custom,prober.probe.kind=readiness,prober.result=failure":           "1 0",
			"prober.probe.schedule.lag s prober.probe.handler=custom,prober.probe.kind=readiness,prober.result=error":             "1 0",
		})
		r.Remove("checkout")
		for series := range r.collect() {
			if strings.Contains(series, "checkout") {
				t.Errorf("the probe has ended, and still has the series %s", series)
			}
		}
	})
}

func TestMetricsOfInertProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, otelobserver.Config{})
		r.task.SetState(worker.Stopped("checkout/web/1"))
		r.add(probe.Liveness, func(context.Context, probe.Request) (probe.Outcome, error) {
			t.Error("an attempt was made")
			return probe.Outcome{}, nil
		})
		r.want(map[string]string{
			"prober.probe.result  " + ofProbe + "liveness": "1",
			"prober.probe.gate  k8s.container.name=web,k8s.pod.name=checkout,prober.gate=container not running,prober.probe.kind=liveness": "1",
		})
	})
}

func TestMetricsOfSkippedTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, otelobserver.Config{})
		r.add(probe.Startup, func(context.Context, probe.Request) (probe.Outcome, error) { return probe.Outcome{}, nil })
		r.add(probe.Readiness, func(context.Context, probe.Request) (probe.Outcome, error) { return probe.Outcome{}, probe.ErrNoSlot })
		r.want(map[string]string{
			"prober.probe.skipped {tick} " + ofProbe + "readiness,prober.skip.reason=no_slot":                               "1",
			"prober.probe.result  " + ofProbe + "readiness":                                                                 "1",
			"prober.probe.result  " + ofProbe + "startup":                                                                   "-1",
			"prober.probe.gate  k8s.container.name=web,k8s.pod.name=checkout,prober.gate=started,prober.probe.kind=startup": "1",
		})
	})
}

func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewInMemoryExporter()
		provider := trace.NewTracerProvider(trace.WithSyncer(spans))
		r := newRig(t, otelobserver.Config{Tracer: provider.Tracer("test")})
		start := time.Now()
		r.add(probe.Liveness, func(context.Context, probe.Request) (probe.Outcome, error) {
			time.Sleep(100 * time.Millisecond)
			return probe.Outcome{}, &probe.Error{Reason: probe.ReasonDNS, Err: errors.New("no such host")}
		})
		r.wait(time.Second)
		all := spans.GetSpans()
		if len(all) != 1 {
			t.Fatalf("%d spans, want 1", len(all))
		}
		s := all[0]
		if s.Name != "probe liveness" || !s.StartTime.Equal(start) || s.EndTime.Sub(start) != 300*time.Millisecond {
			t.Errorf("%s from %v to %v, want probe liveness from %v for 300ms", s.Name, s.StartTime, s.EndTime, start)
		}
		if s.Status.Code != codes.Error || s.Status.Description != "no such host" {
			t.Errorf("status %+v", s.Status)
		}
		set := attribute.NewSet(s.Attributes...)
		const want = "container.id=checkout/web/1,error.type=dns,k8s.container.name=web,k8s.pod.name=checkout," +
			"prober.attempts=3,prober.probe.handler=custom,prober.probe.kind=liveness,prober.result=error"
		if got := set.Encoded(attribute.DefaultEncoder()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestTickAllocatesNothing(t *testing.T) {
	o, err := otelobserver.New(otelobserver.Config{Meter: noop.NewMeterProvider().Meter("")})
	if err != nil {
		t.Fatal(err)
	}
	s := o.Observe(worker.Info{Subject: results.Subject{Pod: "checkout"}, Kind: probe.Liveness, Handler: "custom"})
	tick := &worker.Tick{Due: time.Now(), Start: time.Now(), End: time.Now(), Handler: "custom", Outcome: probe.Outcome{Result: probe.Success}}
	if n := testing.AllocsPerRun(100, func() { s.Tick(tick) }); n > 0 {
		t.Errorf("%v allocations a tick", n)
	}
}

func TestNewWithoutMeterIsError(t *testing.T) {
	if _, err := otelobserver.New(otelobserver.Config{}); err == nil || err.Error() != "otelobserver: Config.Meter is nil" {
		t.Errorf("got %v", err)
	}
}
