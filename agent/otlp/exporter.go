package otlp

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics/agentmetrics"
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/slim/otlp/resource/v1"
)

const (
	requestTimeout = 10 * time.Second
	spanInterval   = 5 * time.Second
	lastFlush      = 2 * time.Second // for pending data when the agent stops
)

// Config configures an [Exporter]. All fields but Version are required.
type Config struct {
	Metrics http.Handler // serves /metrics in Prometheus' protobuf format
	Version string       // of the program
	Log     *slog.Logger
}

// signal is a kind of telemetry.
type signal int

const (
	metricSignal signal = iota
	traceSignal
)

func (s signal) String() string { return [...]string{"metrics", "traces"}[s] }

// Exporter sends metrics at intervals, and a trace for each selected tick. It sends nothing before
// [Exporter.Set]. A slow or unavailable collector delays no tick: a tick appends its spans to a queue of at
// most 2,048, which drops the oldest.
type Exporter struct {
	cfg      Config
	start    time.Time
	resource *resourcepb.Resource
	current  atomic.Pointer[client] // nil: nothing is sent
	changed  chan struct{}
	spans    queue
	signals  [2]state
}

// state counts the requests of a signal.
type state struct {
	ok, errors atomic.Uint64
	failing    atomic.Bool // and this was logged
}

var _ worker.Observer = (*Exporter)(nil)

// New returns an exporter. The caller must call [Exporter.Run].
func New(cfg Config) *Exporter {
	e := &Exporter{cfg: cfg, start: time.Now(), changed: make(chan struct{}, 1), spans: queue{many: make(chan struct{}, 1)}}
	attributes := []*commonpb.KeyValue{text("service.name", "prober")}
	if cfg.Version != "" {
		attributes = append(attributes, text("service.version", cfg.Version))
	}
	if host, err := os.Hostname(); err == nil {
		attributes = append(attributes, text("host.name", host), text("service.instance.id", host))
	}
	e.resource = &resourcepb.Resource{Attributes: attributes}
	return e
}

// Set replaces the collector; nil stops the export. Paths are relative to the folder of configFile. It must
// not be called concurrently.
func (e *Exporter) Set(configFile string, o *config.OTLP) {
	now := e.current.Load()
	switch {
	case o == nil && now == nil, o != nil && now != nil && now.spec.Equal(o):
		return
	case o == nil:
		e.current.Store(nil)
	default:
		e.current.Store(newClient(configFile, o))
	}
	if now != nil {
		now.replace()
	}
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// Run sends until ctx ends. Requests in flight and pending data then have 2 s more.
func (e *Exporter) Run(ctx context.Context) {
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastFlush, cancel) })()
	var wait sync.WaitGroup
	wait.Go(func() { e.runMetrics(ctx, requests) })
	wait.Go(func() { e.runSpans(ctx, requests) })
	wait.Wait()
	if c := e.current.Load(); c != nil {
		e.sendSpans(requests, ctx.Done(), c)
		e.sendMetrics(requests, ctx.Done(), c)
		c.Close()
	}
}

// runMetrics sends all metrics at the configured interval, and at once after a change of the configuration,
// until ctx ends.
func (e *Exporter) runMetrics(ctx, requests context.Context) {
	var c *client
	var next <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.changed:
			now := e.current.Load()
			if now == c {
				continue
			}
			c, next = now, nil
		case <-next:
		}
		if c != nil {
			next = time.After(c.spec.Interval)
			e.sendMetrics(requests, ctx.Done(), c)
		}
	}
}

// runSpans sends spans every 5 s, or earlier if there is a full batch, until ctx ends.
func (e *Exporter) runSpans(ctx, requests context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(spanInterval):
		case <-e.spans.many:
		}
		if c := e.current.Load(); c != nil {
			e.sendSpans(requests, ctx.Done(), c)
		}
	}
}

// Counts returns the counters of the exporter.
func (e *Exporter) Counts() agentmetrics.OTLPCounts {
	requests := func(s *state) agentmetrics.OTLPRequests {
		return agentmetrics.OTLPRequests{OK: s.ok.Load, Errors: s.errors.Load}
	}
	return agentmetrics.OTLPCounts{Metrics: requests(&e.signals[metricSignal]), Traces: requests(&e.signals[traceSignal]), SpansDropped: e.spans.dropped.Load}
}

// report counts a request. It logs the first failure of a signal and the recovery.
func (e *Exporter) report(sig signal, err error) {
	s := &e.signals[sig]
	if err == nil {
		s.ok.Add(1)
		if s.failing.Swap(false) {
			e.cfg.Log.Info("OTLP export works again", "signal", sig.String())
		}
		return
	}
	s.errors.Add(1)
	if !s.failing.Swap(true) {
		e.cfg.Log.Warn("OTLP export failed", "signal", sig.String(), "err", err)
	}
}

func text(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}

func number(key string, value int) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(value)}}}
}
