package metrics_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/probe"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const (
	textFormat  = "text/plain;version=0.0.4"
	openMetrics = "application/openmetrics-text;version=1.0.0"
)

// newHandlers returns the handler of m, and promhttp's for a registry with all metrics.
func newHandlers(t testing.TB, m *metrics.Metrics, more ...prometheus.Collector) (ours, peer http.Handler) {
	t.Helper()
	shared, all := prometheus.NewPedanticRegistry(), prometheus.NewPedanticRegistry()
	errs := []error{m.RegisterShared(shared), m.Register(all)}
	for _, c := range more {
		errs = append(errs, shared.Register(c), all.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	ours = m.Handler(metrics.HandlerConfig{Rest: shared})
	peer = promhttp.HandlerFor(all, promhttp.HandlerOpts{EnableOpenMetrics: true})
	return ours, peer
}

// scrape returns the response of h and its decompressed body.
func scrape(t testing.TB, h http.Handler, method, query string, header ...string) (*http.Response, string) {
	t.Helper()
	r, w := httptest.NewRequest(method, "/metrics"+query, nil), httptest.NewRecorder()
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	h.ServeHTTP(w, r)
	res, body := w.Result(), io.Reader(w.Body)
	if res.Header.Get("Content-Encoding") == "gzip" && method != "HEAD" {
		zip, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		body = zip
	}
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

// byKind lists families whose order differs: client_golang sorts some by the label kind first, and prober
// does not sort prober_ready and prober_target_info.
var byKind = []string{"prober_probe_state", "prober_probe_gate", "prober_probe_failures_total", "prober_ready", "prober_target_info"}

// lines returns the lines of a body. It sorts the lines of each family of byKind.
func lines(body string) []string {
	all := strings.SplitAfter(body, "\n")
	family := func(line string) int {
		return slices.IndexFunc(byKind, func(name string) bool { return strings.HasPrefix(line, name+"{") })
	}
	for i := 0; i < len(all); i++ {
		if of := family(all[i]); of >= 0 {
			start := i
			for i < len(all) && family(all[i]) == of {
				i++
			}
			slices.Sort(all[start:i])
		}
	}
	return all
}

// compare compares the bodies of both handlers line by line, and returns the body of ours.
func compare(t *testing.T, ours, peer http.Handler, query, accept string, options ...cmp.Option) string {
	t.Helper()
	_, want := scrape(t, peer, "GET", query, "Accept", accept)
	_, got := scrape(t, ours, "GET", query, "Accept", accept)
	if diff := cmp.Diff(lines(want), lines(got), options...); diff != "" {
		t.Errorf("%s: (-want +got)\n%.5000s", accept, diff)
	}
	return got
}

// oddMetrics returns metrics with many series whose labels have unusual characters.
func oddMetrics(buckets metrics.Buckets) *metrics.Metrics {
	m := metrics.New(metrics.Config{Version: "v1", Revision: "abc", Buckets: buckets})
	odd := []string{"web", "", `a"b`, `a\b`, "a\nb", `\n`, "ünï", "日本", "a b", "a,b", "{a}", "bad\xff", "\xff\xfe", "#", "\u2028"}
	var targets []metrics.Target
	for i, name := range odd {
		targets = append(targets, metrics.Target{Namespace: "targets", Pod: fmt.Sprint(i), Container: "target", Group: name, Address: name, Labels: []metrics.TargetLabel{{"label_a", name}, {"label_" + strings.Repeat("b", i%3+1), "x"}}[:i%3]})
	}
	if err := m.RegisterTargets(prometheus.NewRegistry(), func() metrics.Targets { return metrics.Targets{Probed: slices.Values(targets)} }); err != nil {
		panic(err) // the registry is new
	}
	for i := range 1000 {
		o := m.Observe(worker.Info{
			Subject: results.Subject{
				Namespace: odd[i%5], Pod: odd[i/5%len(odd)], PodUID: fmt.Sprint("u", i%3), Container: odd[i*7%len(odd)],
			},
			Kind: probe.Kinds[i%len(probe.Kinds)], Handler: "http",
		})
		for run := range i % 7 { // some have no tick yet
			k := tick(probe.Success, []results.Result{results.Success, results.Failure, results.Unknown}[run%3])
			k.End = k.Start.Add(time.Duration(i*run) * time.Millisecond)
			k.After = k.Result
			if k.Result == results.Failure {
				k.Outcome.Reason = []probe.Reason{"", probe.ReasonBody, probe.ReasonDNS, "made up"}[i%4]
			}
			o.Tick(k)
		}
		if gate := worker.Gate(i % 30); int(gate) <= len(worker.Gates()) {
			o.(worker.GateObserver).Gated(gate)
		}
		m.PodReady(odd[i%5], odd[i/5%len(odd)], "", i%2 == 0)
	}
	return m
}

func TestHandlerWritesWhatPromhttpWrites(t *testing.T) {
	middle := prometheus.NewGauge(prometheus.GaugeOpts{Name: "prober_probe_middle", Help: `a "quoted" \ help`})
	last := prometheus.NewCounter(prometheus.CounterOpts{Name: "zzz_total"})
	for _, buckets := range []metrics.Buckets{"", metrics.ClassicBuckets, metrics.NativeBuckets, metrics.ClassicAndNativeBuckets, metrics.NoBuckets} {
		m := oddMetrics(buckets)
		if buckets == metrics.ClassicBuckets {
			o, k := m.Observe(worker.Info{Subject: results.Subject{Container: "big"}}), tick(probe.Success, results.Success)
			for range 1_000_001 { // from a million on the text format has an exponent
				o.Tick(k)
			}
		}
		ours, peer := newHandlers(t, m, middle, last)
		for _, accept := range []string{textFormat, openMetrics, "application/openmetrics-text;version=0.0.1"} {
			t.Run(fmt.Sprintf("buckets %q, %s", buckets, accept), func(t *testing.T) {
				text := compare(t, ours, peer, "", accept)
				if got := strings.Contains(text, "prober_probe_duration_seconds_bucket"); got == (buckets == metrics.NoBuckets) {
					t.Errorf("there are buckets: %v", got)
				}
			})
		}
	}
	t.Run("without series", func(t *testing.T) {
		ours, peer := newHandlers(t, metrics.New(metrics.Config{}))
		compare(t, ours, peer, "", textFormat)
		compare(t, ours, peer, "", openMetrics)
	})
}

// client_golang sorts prober_plugin_metric over all containers, prober within each container.
func TestHandlerWritesMeasurementsOfPlugins(t *testing.T) {
	m := metrics.New(metrics.Config{})
	for i, pod := range []string{"b", "a", "a"} { // the last two have the same labels
		info := web
		info.Pod, info.PodUID = pod, fmt.Sprint(i)
		k := tick(probe.Success, results.Success)
		k.Handler = "re\"dis"
		for j, v := range []float64{0, math.Copysign(0, -1), 1, -1, 1.5, 1e6, 1e21, 1e-9, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64, 2, 2} {
			k.Outcome.Metrics = append(k.Outcome.Metrics, probe.Metric{
				Name: fmt.Sprint("m", j%12), Value: v + float64(i), Unit: []string{"", "seconds", "\xff\n"}[j%3],
				Labels: []map[string]string{nil, {"role": `re"plica`}, {"a": "1", "zone": "\xff", "pod": "stolen", "__x": "", "no-label": "x"}}[j%3],
			})
		}
		m.Observe(info).Tick(k)
	}
	ours, peer := newHandlers(t, m)
	sorted := cmp.Transformer("sort", func(lines []string) []string { return slices.Sorted(slices.Values(lines)) })
	for _, accept := range []string{textFormat, openMetrics} {
		text := compare(t, ours, peer, "?name[]=prober_plugin_metric", accept, sorted)
		if n := strings.Count(text, "\nprober_plugin_metric{"); n != 2*12 {
			t.Errorf("%d series, want 24", n)
		}
		var got []string // of a container
		for line := range strings.SplitSeq(text, "\n") {
			if strings.Contains(line, `pod="a"`) {
				got = append(got, line)
			}
		}
		var want []string
		_, text = scrape(t, peer, "GET", "?name[]=prober_plugin_metric", "Accept", accept)
		for line := range strings.SplitSeq(text, "\n") {
			if strings.Contains(line, `pod="a"`) {
				want = append(want, line)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("order of one container (-want +got)\n%s", diff)
		}
	}
}

func TestHandlerNegotiatesAsPromhttp(t *testing.T) {
	m := metrics.New(metrics.Config{})
	m.Observe(web).Tick(tick(probe.Success, results.Success))
	ours, peer := newHandlers(t, m)
	for _, method := range []string{"GET", "HEAD"} {
		for _, accept := range []string{
			"", "*/*", "text/*", "text/plain", "text/html", "nonsense", ";;,,", "text/plain;version=0.0.1", "application/*",
			openMetrics, "application/openmetrics-text", "application/openmetrics-text;version=2.0.0", "application/openmetrics-text;version=0.0.1",
			"application/openmetrics-text;version=1.0.0;q=0.2,text/plain;version=0.0.4;q=0.5",
			"application/openmetrics-text;version=1.0.0;q=0,text/plain;q=0", "text/plain;q=x",
			"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
			openMetrics + ";escaping=allow-utf-8", openMetrics + ";escaping=dots", openMetrics + ";escaping=values", openMetrics + ";escaping=nonsense",
			// What Prometheus 3 sends.
			"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5," +
				"text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
		} {
			compareHead(t, ours, peer, method, "Accept", accept)
		}
		for _, encoding := range []string{
			"", "gzip", "identity", "*", "br", "gzip, deflate", "deflate,gzip", "gzip;q=0", "gzip;q=0.5, identity;q=0.4", "gzip;q=0.4, identity;q=0.5",
			"gzip;q=0.5,identity;q=0.5", "identity;q=0", "*;q=0", "*;q=0.5, gzip", "gzip;q=x", "x;q=nonsense, gzip", "GZIP", "gzip ; q=0.3", "zstd, gzip", "gzip;level=1",
		} {
			compareHead(t, ours, peer, method, "Accept-Encoding", encoding)
		}
		compareHead(t, ours, peer, method, "Accept-Encoding", "identity;q=0.5", "Accept-Encoding", "gzip")
		compareHead(t, ours, peer, method, "Accept", "text/html", "Accept", openMetrics)
	}
}

// compareHead compares the status and headers of both handlers' responses.
func compareHead(t *testing.T, ours, peer http.Handler, method string, header ...string) {
	t.Helper()
	want, _ := scrape(t, peer, method, "", header...)
	got, _ := scrape(t, ours, method, "", header...)
	want.Header["Vary"] = []string{"Accept", "Accept-Encoding"} // promhttp sets it since client_golang 1.25
	if got.StatusCode != want.StatusCode || !cmp.Equal(want.Header, got.Header) {
		t.Errorf("%s %q: %d (-want +got)\n%s", method, header, got.StatusCode, cmp.Diff(want.Header, got.Header))
	}
}

func TestHandlerSelectsFamiliesByName(t *testing.T) {
	ours, peer := newHandlers(t, oddMetrics(""))
	for _, names := range [][]string{
		{"prober_probe_total"}, {"prober_workers"}, {"prober_probe_duration_seconds", "prober_inflight"}, {"prober_probe"}, {""}, {"prober_plugin_metric"},
	} {
		query := "?" + url.Values{"name[]": names}.Encode()
		compare(t, ours, peer, query, textFormat)
		compare(t, ours, peer, query, openMetrics)
	}
}

// collector collects one metric.
type collector struct{ metric prometheus.Metric }

func (collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(ch chan<- prometheus.Metric) { ch <- c.metric }

func TestHandlerGatherFailsReturns500(t *testing.T) {
	broken := collector{prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(errors.New("x")), errors.New("this collector is broken"))}
	ours, peer := newHandlers(t, oddMetrics(""), broken)
	want, wantText := scrape(t, peer, "GET", "", "Accept-Encoding", "gzip")
	got, gotText := scrape(t, ours, "GET", "", "Accept-Encoding", "gzip")
	if diff := cmp.Diff(want.Header, got.Header); diff != "" || got.StatusCode != want.StatusCode || gotText != wantText {
		t.Errorf("got %d %q, want %d %q (-want +got)\n%s", got.StatusCode, gotText, want.StatusCode, wantText, diff)
	}
}

func TestHandlerWritesAFamilyOnce(t *testing.T) {
	m, all := setup(t)
	m.Observe(web).Tick(tick(probe.Success, results.Success))
	_, text := scrape(t, m.Handler(metrics.HandlerConfig{Rest: all}), "GET", "")
	_, want := scrape(t, promhttp.HandlerFor(all, promhttp.HandlerOpts{}), "GET", "")
	if diff := cmp.Diff(lines(want), lines(text)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestHandlerOutputIsParsedAndLinted(t *testing.T) {
	for _, buckets := range []metrics.Buckets{metrics.ClassicBuckets, metrics.NativeBuckets, metrics.NoBuckets} {
		ours, _ := newHandlers(t, oddMetrics(buckets))
		_, text := scrape(t, ours, "GET", "")
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(families["prober_probe_total"].GetMetric()); n < 200 {
			t.Errorf("%d series", n)
		}
		problems, err := promlint.New(strings.NewReader(text)).Lint()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func FuzzHandlerEscapesAsPromhttp(f *testing.F) {
	f.Add("web", "lag", "seconds", "role", "replica", 1.5)
	f.Add("a\"b\\c\nd", "\xff", "ü", "x", "\\n", math.Inf(-1))
	f.Add("", "", "", "__name__", "", math.Copysign(0, -1))
	f.Fuzz(func(t *testing.T, container, metric, unit, label, value string, v float64) {
		m := metrics.New(metrics.Config{})
		info := web
		info.Container, info.Namespace = container, value
		k := tick(probe.Success, results.Success)
		k.Handler, k.Outcome.Metrics = unit, []probe.Metric{{Name: metric, Unit: unit, Labels: map[string]string{label: value}, Value: v}}
		m.Observe(info).Tick(k)
		ours, peer := newHandlers(t, m)
		compare(t, ours, peer, "", textFormat)
		text := compare(t, ours, peer, "", openMetrics)
		if !strings.HasSuffix(text, "\n# EOF\n") {
			t.Errorf("the end is %q", text[max(0, len(text)-100):])
		}
		_, text = scrape(t, ours, "GET", "")
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range families["prober_probe_total"].Metric[0].Label {
			if want := strings.ToValidUTF8(container, "\ufffd"); l.GetName() == "container" && l.GetValue() != want {
				t.Errorf("container is %q, want %q", l.GetValue(), want)
			}
		}
	})
}

// writer is a response whose reader may be slow or gone.
type writer struct {
	header http.Header
	write  func([]byte) (int, error)
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(int) {}

func (w *writer) Write(p []byte) (int, error) { return w.write(p) }

func TestHandlerSlowReaderDoesNotBlock(t *testing.T) {
	m := oddMetrics("")
	shared := prometheus.NewRegistry()
	if err := m.RegisterShared(shared); err != nil {
		t.Fatal(err)
	}
	h := m.Handler(metrics.HandlerConfig{Rest: shared, MaxInFlight: 2})
	for _, encoding := range []string{"", "gzip"} {
		reading, read, ended := make(chan bool), make(chan bool), make(chan bool)
		written := 0
		go func() {
			defer close(ended)
			r := httptest.NewRequest("GET", "/metrics", nil)
			r.Header.Set("Accept-Encoding", encoding)
			h.ServeHTTP(&writer{http.Header{}, func(p []byte) (int, error) {
				if written == 0 {
					reading <- true
					<-read
				}
				written += len(p)
				return len(p), nil
			}}, r)
		}()
		<-reading
		info := web
		info.Pod = "new"
		o := m.Observe(info)
		o.Tick(tick(probe.Success, results.Success))
		if _, text := scrape(t, h, "GET", ""); !strings.Contains(text, `pod="new"`) {
			t.Error("a second scrape lacks a new series")
		}
		o.Close()
		_, before := scrape(t, h, "GET", "")
		close(read)
		<-ended
		if encoding == "" && written < len(before) {
			t.Errorf("%d bytes were written to the slow reader, want at least %d", written, len(before))
		}
	}
}

func TestHandlerLimitsRequests(t *testing.T) {
	var h http.Handler
	var inner *http.Response
	var text string
	h = metrics.New(metrics.Config{}).Handler(metrics.HandlerConfig{MaxInFlight: 1, Rest: prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		if inner == nil {
			inner = &http.Response{}
			inner, text = scrape(t, h, "GET", "")
		}
		return nil, nil
	})})
	if res, _ := scrape(t, h, "GET", ""); res.StatusCode != http.StatusOK {
		t.Errorf("the first request got %d", res.StatusCode)
	}
	if want := "Limit of concurrent requests reached (1), try again later.\n"; inner.StatusCode != http.StatusServiceUnavailable || text != want {
		t.Errorf("the second one got %d %q, want 503 %q", inner.StatusCode, text, want)
	}
	if res, _ := scrape(t, h, "GET", ""); res.StatusCode != http.StatusOK {
		t.Errorf("a later one got %d", res.StatusCode)
	}
}

func TestHandlerEndsResponseWhenReaderLeaves(t *testing.T) {
	ours, _ := newHandlers(t, oddMetrics(""))
	for _, encoding := range []string{"", "gzip"} {
		writes := 0
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Header.Set("Accept-Encoding", encoding)
		ours.ServeHTTP(&writer{http.Header{}, func([]byte) (int, error) {
			writes++
			return 0, net.ErrClosed
		}}, r)
		if writes != 1 {
			t.Errorf("encoding %q: %d writes to a reader that is gone, want 1", encoding, writes)
		}
	}
}

// pipes is a listener whose connections are pipes.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error { return nil }

func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func TestHandlerDropsStalledReader(t *testing.T) {
	for _, c := range []struct{ limit, want time.Duration }{{0, 30 * time.Second}, {5 * time.Second, 5 * time.Second}, {time.Minute, time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			ours, _ := newHandlers(t, oddMetrics(""))
			ended := make(chan time.Duration, 1)
			begun := time.Now()
			server := &http.Server{WriteTimeout: c.limit, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ours.ServeHTTP(w, r)
				ended <- time.Since(begun)
			})}
			listener := make(pipes)
			go server.Serve(listener)
			client, conn := net.Pipe()
			listener <- conn
			fmt.Fprint(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			if got := <-ended; got != c.want {
				t.Errorf("server with WriteTimeout %v: the request ended after %v, want %v", c.limit, got, c.want)
			}
			close(listener)
			client.Close()
			server.Close()
		})
	}
}
