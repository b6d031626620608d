package otlp_test

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metricscollector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	tracecollector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/daeace23/prober/agent/otlp"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/probe"
)

// collector is a server that receives the requests of an exporter.
type collector struct {
	*httptest.Server
	metrics chan *metricspb.Metric
	spans   chan *tracepb.Span
	heads   chan http.Header
	refuse  atomic.Int32 // status of the next responses; 0 accepts
	after   atomic.Value // Retry-After of these responses
	reject  atomic.Int64 // data points or spans that the next responses reject
	asked   atomic.Int32
}

func newCollector(t *testing.T, start func(*httptest.Server)) *collector {
	c := &collector{metrics: make(chan *metricspb.Metric, 10000), spans: make(chan *tracepb.Span, 10000), heads: make(chan http.Header, 100)}
	c.Server = httptest.NewUnstartedServer(c)
	start(c.Server)
	t.Cleanup(c.Close)
	return c
}

// ServeHTTP implements [http.Handler].
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.asked.Add(1)
	if status := c.refuse.Load(); status != 0 {
		if after, ok := c.after.Load().(string); ok {
			w.Header().Set("Retry-After", after)
		}
		http.Error(w, "refused", int(status))
		return
	}
	zip, err := gzip.NewReader(r.Body)
	if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" || r.Method != http.MethodPost {
		http.Error(w, "not OTLP", http.StatusBadRequest)
		return
	}
	data, err := io.ReadAll(zip)
	if err == nil {
		err = c.take(w, r.URL.Path, data)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	select {
	case c.heads <- r.Header:
	default:
	}
}

func (c *collector) take(w io.Writer, path string, data []byte) error {
	var answer proto.Message
	switch path {
	case "/base/v1/metrics":
		var request metricscollector.ExportMetricsServiceRequest
		if err := proto.Unmarshal(data, &request); err != nil {
			return err
		}
		for _, m := range request.ResourceMetrics[0].ScopeMetrics[0].Metrics {
			c.metrics <- m
		}
		c.metrics <- nil // end of a request
		answer = &metricscollector.ExportMetricsServiceResponse{PartialSuccess: &metricscollector.ExportMetricsPartialSuccess{RejectedDataPoints: c.reject.Load(), ErrorMessage: "too old"}}
	case "/base/v1/traces":
		var request tracecollector.ExportTraceServiceRequest
		if err := proto.Unmarshal(data, &request); err != nil {
			return err
		}
		for _, s := range request.ResourceSpans[0].ScopeSpans[0].Spans {
			c.spans <- s
		}
		answer = &tracecollector.ExportTraceServiceResponse{}
	default:
		return fmt.Errorf("unknown path %s", path)
	}
	out, err := proto.Marshal(answer)
	if err == nil {
		_, err = w.Write(out)
	}
	return err
}

// exporter is an exporter that runs until stop.
type exporter struct {
	*otlp.Exporter
	metrics *metrics.Metrics
	handler http.Handler
	stop    func()
	log     *lines
}

// lines receives the lines of a log.
type lines struct {
	mu  sync.Mutex
	all []string
	new chan string
}

// Write implements [io.Writer].
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(p))
	l.new <- string(p)
	return len(p), nil
}

func run(t *testing.T, buckets metrics.Buckets) *exporter {
	e := &exporter{metrics: metrics.New(metrics.Config{Buckets: buckets}), log: &lines{new: make(chan string, 100)}}
	registry := prometheus.NewRegistry()
	if err := e.metrics.RegisterShared(registry); err != nil {
		t.Fatal(err)
	}
	e.handler = e.metrics.Handler(metrics.HandlerConfig{Rest: registry})
	e.Exporter = otlp.New(otlp.Config{Metrics: e.handler, Version: "v1.2.3", Log: slog.New(slog.NewTextHandler(e.log, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() { e.Run(ctx) })
	e.stop = sync.OnceFunc(func() {
		cancel()
		wait.Wait()
	})
	t.Cleanup(e.stop)
	return e
}

func (c *collector) spec(traces config.Traces) *config.OTLP {
	return &config.OTLP{Endpoint: c.URL + "/base", Interval: time.Hour, Traces: traces}
}

// take receives from ch, and waits at most 10 s.
func take[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(10 * time.Second):
		t.Fatal("nothing within 10 s")
		panic("unreachable")
	}
}

var info = worker.Info{Subject: results.Subject{Namespace: "shop", Pod: "web", PodUID: "u1", Container: "main"}, Kind: probe.Readiness, Handler: "http"}

// tick returns a tick of 30 ms.
func tick(result probe.Result, output string) *worker.Tick {
	start := time.Unix(1000, 0)
	counted := results.Success
	if result == probe.Failure {
		counted = results.Failure
	}
	return &worker.Tick{
		Due: start.Add(-time.Millisecond), Start: start, End: start.Add(30 * time.Millisecond), Handler: "http", Attempts: 1, ContainerID: "c1",
		Outcome: probe.Outcome{Result: result, Output: output}, Counted: true, Result: counted, Run: 1, Threshold: 3, Before: results.Success, After: results.Success,
	}
}

// point formats a series: its name and labels.
func point(name string, labels map[string]string) string {
	all := []string{name}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, k+"="+labels[k])
	}
	return strings.Join(all, " ")
}

func labelsOf(attributes []*commonpb.KeyValue) map[string]string {
	all := make(map[string]string)
	for _, a := range attributes {
		all[a.Key] = a.Value.GetStringValue()
	}
	return all
}

// scraped returns the series of a scrape, read by Prometheus' own parser, with the values of counters, gauges
// and counts.
func scraped(t *testing.T, h http.Handler) map[string]float64 {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for name, f := range families {
		for _, m := range f.Metric {
			labels := make(map[string]string)
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			all[point(name, labels)] = value(f.GetType(), m)
		}
	}
	return all
}

func value(kind dto.MetricType, m *dto.Metric) float64 {
	switch kind {
	case dto.MetricType_COUNTER:
		return m.Counter.GetValue()
	case dto.MetricType_HISTOGRAM:
		return float64(m.Histogram.GetSampleCount())
	case dto.MetricType_SUMMARY:
		return float64(m.Summary.GetSampleCount())
	default:
		return m.Gauge.GetValue()
	}
}

// received returns the series of a request.
func received(t *testing.T, c *collector) (all map[string]float64, byName map[string]*metricspb.Metric) {
	all, byName = make(map[string]float64), make(map[string]*metricspb.Metric)
	for m := take(t, c.metrics); m != nil; m = take(t, c.metrics) {
		byName[m.Name] = m
		for _, p := range m.GetSum().GetDataPoints() {
			all[point(m.Name, labelsOf(p.Attributes))] = p.GetAsDouble()
		}
		for _, p := range m.GetGauge().GetDataPoints() {
			all[point(m.Name, labelsOf(p.Attributes))] = p.GetAsDouble()
		}
		for _, p := range m.GetHistogram().GetDataPoints() {
			all[point(m.Name, labelsOf(p.Attributes))] = float64(p.Count)
		}
		for _, p := range m.GetExponentialHistogram().GetDataPoints() {
			all[point(m.Name, labelsOf(p.Attributes))] = float64(p.Count)
		}
		for _, p := range m.GetSummary().GetDataPoints() {
			all[point(m.Name, labelsOf(p.Attributes))] = float64(p.Count)
		}
	}
	return all, byName
}

func TestMetricsEqualScrape(t *testing.T) {
	for _, buckets := range []metrics.Buckets{metrics.ClassicBuckets, metrics.NativeBuckets, metrics.NoBuckets} {
		t.Run(string(buckets), func(t *testing.T) {
			c, e := newCollector(t, (*httptest.Server).Start), run(t, buckets)
			p := e.metrics.Observe(info)
			for range 3 {
				p.Tick(tick(probe.Success, "ok"))
			}
			p.Tick(tick(probe.Failure, "no"))
			want := scraped(t, e.handler)
			e.Set("prober.yaml", c.spec(config.NoTraces))
			got, metrics := received(t, c)
			if !maps.Equal(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			duration := metrics["prober_probe_duration_seconds"]
			if duration.Unit != "s" || duration.Description == "" {
				t.Errorf("unit %q, description %q", duration.Unit, duration.Description)
			}
			checkBuckets(t, buckets, duration)
		})
	}
}

// checkBuckets checks the buckets of three durations of 30 ms.
func checkBuckets(t *testing.T, buckets metrics.Buckets, m *metricspb.Metric) {
	switch buckets {
	case metrics.ClassicBuckets:
		p := m.GetHistogram().DataPoints[0]
		within := 0
		for i, n := range p.BucketCounts {
			if n == 0 {
				continue
			}
			within += int(n)
			if i == 0 || p.ExplicitBounds[i-1] >= 0.03 || p.ExplicitBounds[i] < 0.03 {
				t.Errorf("%d in bucket %d of %v", n, i, p.ExplicitBounds)
			}
		}
		if within != 3 || len(p.BucketCounts) != len(p.ExplicitBounds)+1 || *p.Sum < 0.0899 || *p.Sum > 0.0901 {
			t.Errorf("buckets %v, sum %v", p.BucketCounts, *p.Sum)
		}
	case metrics.NativeBuckets:
		p := m.GetExponentialHistogram().DataPoints[0]
		if len(p.Positive.BucketCounts) != 1 || p.Positive.BucketCounts[0] != 3 || p.Scale != 3 {
			t.Fatalf("scale %d, buckets %v", p.Scale, p.Positive)
		}
		// OpenTelemetry's own formula, not Prometheus': base^offset < value <= base^(offset+1), base =
		// 2^(2^-scale).
		lower, upper := pow(int(p.Positive.Offset)), pow(int(p.Positive.Offset)+1)
		if lower >= 0.03 || upper < 0.03 {
			t.Errorf("0.03 is not within %v and %v", lower, upper)
		}
	}
}

// pow returns 2^(2^-3)^i.
func pow(i int) float64 { return math.Pow(math.Pow(2, math.Pow(2, -3)), float64(i)) }

func TestTracesOfFailures(t *testing.T) {
	c, e := newCollector(t, (*httptest.Server).Start), run(t, metrics.NoBuckets)
	e.Set("prober.yaml", c.spec(config.FailureTraces))
	p := e.Observe(info)
	p.Tick(tick(probe.Success, "ok"))
	p.Tick(tick(probe.Failure, "\xff is not UTF-8\x1b[31m"))
	retried := tick(probe.Success, "")
	retried.Err, retried.Attempts = errors.New("no route"), 2
	retried.Trace = &worker.Trace{Events: []probe.TraceEvent{
		{Type: probe.TracePhase, Name: "connect", Detail: "10.0.0.7:80", Duration: 2 * time.Millisecond},
		{Type: probe.TraceRetry, Name: "2", Detail: "reset", Duration: 10 * time.Millisecond},
		{Type: probe.TraceWait, Name: "read", Duration: time.Second},
	}, Dropped: 1}
	p.Tick(retried)
	decided := tick(probe.Success, "ok again")
	decided.Before = results.Failure
	p.Tick(decided)
	e.stop() // sends pending spans
	failed := take(t, c.spans)
	if failed.Name != "probe readiness" || failed.Status.Code != tracepb.Status_STATUS_CODE_ERROR || failed.Status.Message != "\uFFFD is not UTF-8\x1b[31m" ||
		failed.EndTimeUnixNano-failed.StartTimeUnixNano != 30_000_000 || len(failed.TraceId) != 16 || len(failed.SpanId) != 8 {
		t.Errorf("failure: %v", failed)
	}
	labels := labelsOf(failed.Attributes)
	for key, want := range map[string]string{
		"k8s.namespace.name": "shop", "k8s.pod.name": "web", "k8s.pod.uid": "u1", "k8s.container.name": "main", "prober.probe.kind": "readiness",
		"prober.probe.handler": "http", "prober.result": "failure", "container.id": "c1", "prober.decided.after": "success",
	} {
		if labels[key] != want {
			t.Errorf("%s is %q, want %q", key, labels[key], want)
		}
	}
	root, first, second := take(t, c.spans), take(t, c.spans), take(t, c.spans)
	if first.Name != "attempt 1" || string(first.ParentSpanId) != string(root.SpanId) || string(first.TraceId) != string(root.TraceId) ||
		first.EndTimeUnixNano-first.StartTimeUnixNano != 10_000_000 || first.Status.Message != "reset" || first.Events[0].Name != "phase connect" {
		t.Errorf("first attempt: %v", first)
	}
	if second.Name != "attempt 2" || second.StartTimeUnixNano != first.EndTimeUnixNano || second.EndTimeUnixNano != root.EndTimeUnixNano ||
		second.Events[0].TimeUnixNano != root.EndTimeUnixNano || root.DroppedEventsCount != 1 {
		t.Errorf("second attempt: %v of %v", second, root)
	}
	if changed := take(t, c.spans); labelsOf(changed.Attributes)["prober.decided.before"] != "failure" {
		t.Errorf("a tick that changed the decided result: %v", changed)
	}
	if len(c.spans) > 0 {
		t.Errorf("more spans than wanted: %v", <-c.spans)
	}
}

func TestAllTracesAndNone(t *testing.T) {
	for traces, want := range map[config.Traces]int{config.AllTraces: 1, config.NoTraces: 0, config.FailureTraces: 0} {
		c, e := newCollector(t, (*httptest.Server).Start), run(t, metrics.NoBuckets)
		e.Set("prober.yaml", c.spec(traces))
		e.Observe(info).Tick(tick(probe.Success, "ok"))
		e.stop()
		if got := len(c.spans); got != want {
			t.Errorf("%s: %d spans, want %d", traces, got, want)
		}
	}
}

func TestUnavailableCollectorGetsSpansLater(t *testing.T) {
	c, e := newCollector(t, (*httptest.Server).Start), run(t, metrics.NoBuckets)
	c.refuse.Store(http.StatusServiceUnavailable)
	e.Set("prober.yaml", c.spec(config.AllTraces))
	p := e.Observe(info)
	for range 600 { // more than a request holds
		p.Tick(tick(probe.Success, "ok"))
	}
	if line := take(t, e.log.new); !strings.Contains(line, `level=WARN msg="OTLP export failed" signal=`) || !strings.Contains(line, "503 Service Unavailable") {
		t.Errorf("log line %q", line)
	}
	c.refuse.Store(0)
	for range 600 {
		take(t, c.spans)
	}
	for !strings.Contains(take(t, e.log.new), "OTLP export works again") {
	}
	if counts := e.Counts(); counts.Traces.OK() == 0 || counts.SpansDropped() != 0 {
		t.Errorf("ok %d, dropped %d", counts.Traces.OK(), counts.SpansDropped())
	}
}

func TestQueueDropsTheOldest(t *testing.T) {
	c, e := newCollector(t, (*httptest.Server).Start), run(t, metrics.NoBuckets)
	c.refuse.Store(http.StatusTooManyRequests)
	c.after.Store("3600")
	e.Set("prober.yaml", c.spec(config.AllTraces))
	p := e.Observe(info)
	for i := range 2048 + 10 {
		p.Tick(tick(probe.Success, fmt.Sprint(i)))
		for i == 600 && !strings.Contains(take(t, e.log.new), "signal=traces") { // the first request waits for a retry
		}
	}
	if n := e.Counts().SpansDropped(); n != 10 {
		t.Errorf("dropped %d spans, want 10", n)
	}
	c.refuse.Store(0)
	e.Set("prober.yaml", nil) // ends the wait for the retry
	e.Set("prober.yaml", c.spec(config.AllTraces))
	if first := take(t, c.spans); labelsOf(first.Attributes)["prober.output"] != "10" {
		t.Errorf("first is %v", labelsOf(first.Attributes)["prober.output"])
	}
	for range 2047 {
		take(t, c.spans)
	}
	if e.stop(); len(c.spans) != 0 {
		t.Errorf("%d spans more", len(c.spans))
	}
}

func TestRefusedRequestIsNotRetried(t *testing.T) {
	c, e := newCollector(t, (*httptest.Server).Start), run(t, metrics.NoBuckets)
	c.refuse.Store(http.StatusUnauthorized)
	e.Set("prober.yaml", c.spec(config.AllTraces))
	take(t, e.log.new)
	e.Observe(info).Tick(tick(probe.Success, "ok"))
	e.stop()
	if n := c.asked.Load(); n != 3 { // metrics at the start, and both at the end
		t.Errorf("asked %d times, want 3", n)
	}
	if counts := e.Counts(); counts.SpansDropped() != 1 || counts.Traces.Errors() != 1 || counts.Metrics.Errors() != 2 {
		t.Errorf("dropped %d, errors %d and %d", counts.SpansDropped(), counts.Traces.Errors(), counts.Metrics.Errors())
	}
}

func TestPartialSuccessIsLogged(t *testing.T) {
	c, e := newCollector(t, (*httptest.Server).Start), run(t, metrics.NoBuckets)
	c.reject.Store(7)
	e.Set("prober.yaml", c.spec(config.NoTraces))
	if line := take(t, e.log.new); !strings.Contains(line, `rejected 7 items: \"too old\"`) {
		t.Errorf("log line %q", line)
	}
}

func TestRequestsHaveTokenAndHeaders(t *testing.T) {
	c, e := newCollector(t, (*httptest.Server).StartTLS), run(t, metrics.NoBuckets)
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"token": []byte("s3cret\n"), "ca.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spec := c.spec(config.NoTraces)
	spec.BearerTokenFile, spec.CA, spec.Headers = "token", "ca.pem", map[string]string{"X-Scope-Orgid": "shop"}
	e.Set(filepath.Join(dir, "prober.yaml"), spec)
	head := take(t, c.heads)
	if head.Get("Authorization") != "Bearer s3cret" || head.Get("X-Scope-Orgid") != "shop" || head.Get("User-Agent") != "prober" {
		t.Errorf("headers %v", head)
	}
	if err := os.Remove(filepath.Join(dir, "token")); err != nil {
		t.Fatal(err)
	}
	e.stop()
	if line := take(t, e.log.new); !strings.Contains(line, "otlp.bearerTokenFile: ") {
		t.Errorf("log line %q", line)
	}
}

func TestMetricsThatCannotBeCollectedAreReported(t *testing.T) {
	c, log := newCollector(t, (*httptest.Server).Start), &lines{new: make(chan string, 100)}
	broken := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) })
	e := otlp.New(otlp.Config{Metrics: broken, Log: slog.New(slog.NewTextHandler(log, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() { e.Run(ctx) })
	e.Set("prober.yaml", c.spec(config.NoTraces))
	if line := take(t, log.new); !strings.Contains(line, "collecting the metrics: ") {
		t.Errorf("log line %q", line)
	}
	cancel()
	wait.Wait()
}

func TestNothingIsSentWithoutConfiguration(t *testing.T) {
	c, e := newCollector(t, (*httptest.Server).Start), run(t, metrics.NoBuckets)
	e.Observe(info).Tick(tick(probe.Failure, "no"))
	e.Set("prober.yaml", c.spec(config.AllTraces))
	take(t, c.metrics)
	e.Set("prober.yaml", nil)
	e.Observe(info).Tick(tick(probe.Failure, "no"))
	e.stop()
	if len(c.spans) > 0 {
		t.Errorf("%d spans", len(c.spans))
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
