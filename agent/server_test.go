package agent_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/metrics"
)

// probePath names the probe of the pods in these tests, to fill in paths of the index.
var probePath = strings.NewReplacer("NAMESPACE", "default", "POD", "shop", "CONTAINER", "web", "KIND", "readiness")

// All paths on the index page exist.
func TestIndex(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.StateDir = dir })
	awaitProbe(t, r.stream(), "ready", ready)
	status, body := r.do("GET", "/")
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	asked := 0
	for line := range strings.Lines(body) {
		method, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		path := strings.Fields(rest + " .")[0]
		if method != "GET" || path == "/api/v1/stream" || path == "/probe" {
			continue
		}
		asked++
		if status, body := r.do("GET", probePath.Replace(path)); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if asked < 6 {
		t.Errorf("%d pages in\n%s", asked, body)
	}
}

// An address in use is an error before any plugin is pulled or compiled. After an error, New releases its
// address.
func TestNewAddressInUseIsErrorBeforeLoading(t *testing.T) {
	t.Parallel()
	folder, file := t.TempDir(), filepath.Join(t.TempDir(), "addr")
	put(t, filepath.Join(folder, "demo.wasm"), guestSpec{text: "v1"}.plugin("demo", "1.0.0"))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	write(t, file, "of the agent that has the address")
	lines := newLines()
	manifest := filepath.Join(t.TempDir(), "pod.yaml")
	cfg := agent.Config{
		Source: fromFiles(0, manifest), PluginDirs: []string{folder},
		Listen: listener.Addr().String(), AddrFile: file, Stderr: lines,
	}
	write(t, manifest, demoPod)
	if _, err := agent.New(t.Context(), cfg); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v, want %v", err, syscall.EADDRINUSE)
	}
	if lines.has("loading plugin") {
		t.Error("a plugin was loaded")
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, manifest, "oops")
	for range 2 {
		if _, err := agent.New(t.Context(), cfg); err == nil || errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("got %v", err)
		}
	}
}

func TestAPIShowsProbes(t *testing.T) {
	t.Parallel()
	web := newTarget(t)
	r := start(t, web.external("shop"))
	events := r.stream()
	p := awaitProbe(t, events, "ready", ready)
	if p.Namespace != "default" || p.Pod != "shop" || p.UID == "" || p.Container != "web" || p.ContainerID == "" ||
		p.Kind != "readiness" || p.Handler != "http" || p.Spec.Period != "20ms" || p.Spec.FailureThreshold != 2 ||
		p.Last.Result != "success" || p.Last.Output != "hello" || p.Last.Attempts != 1 || p.Next.IsZero() {
		t.Errorf("got %+v, last %+v", p, p.Last)
	}
	if _, next := r.lines.await(t, 0, "result changed", "pod=shop", "container=web", "kind=readiness", "result=success"); next == 0 {
		t.Error("no line")
	}
	awaitEvent(t, r.stream(), "pod", "ready", podReady) // follows the result
	var pods v1.PodList
	r.get("/api/v1/pods", &pods)
	if pods.Kind != "PodList" || len(pods.Items) != 1 || !pods.Items[0].Status.ContainerStatuses[0].Ready {
		t.Errorf("got %+v", pods)
	}
	web.status.Store(http.StatusTeapot)
	p = awaitProbe(t, events, "unready", unready)
	if p.Last.Output != "HTTP probe failed with statuscode: 418" {
		t.Errorf("got %+v", p.Last)
	}
	_, next := r.lines.await(t, 0, "msg=event", "reason=Unhealthy", "statuscode: 418")
	r.lines.await(t, next-1, "msg=event", "reason=Unhealthy", "statuscode: 418") // repetitions are logged too
	var list v1.EventList
	r.get("/api/v1/events", &list)
	if list.Kind != "EventList" || len(list.Items) != 1 || list.Items[0].Count < 2 || list.Items[0].InvolvedObject.Name != "shop" ||
		list.Items[0].FirstTimestamp.After(list.Items[0].LastTimestamp.Time) {
		t.Errorf("got %+v", list)
	}
	var probes struct{ Items []streamedProbe }
	r.get("/api/v1/probes?pod=shop&kind=readiness&namespace=default&container=web", &probes)
	if len(probes.Items) != 1 || len(probes.Items[0].History) < 3 || probes.Items[0].History[0].Result != "failure" {
		t.Errorf("got %+v", probes)
	}
	r.get("/api/v1/probes?kind=liveness", &probes)
	if probes.Items == nil || len(probes.Items) != 0 {
		t.Errorf("got %+v for another kind", probes)
	}
	if _, body := r.do("GET", "/metrics"); !strings.Contains(body, `prober_probe_total{container="web",namespace="default",pod="shop",pod_uid="`+p.UID+`",probe_type="Readiness",result="failed"}`) {
		t.Errorf("no count of the failures in\n%s", body)
	}
}

func TestMetricsWithoutBuckets(t *testing.T) {
	t.Parallel()
	web := newTarget(t)
	r := start(t, web.external("shop"), func(cfg *agent.Config) { cfg.MetricsBuckets = metrics.NoBuckets })
	awaitProbe(t, r.stream(), "ready", ready)
	_, body := r.do("GET", "/metrics")
	for _, want := range []string{"\n# TYPE prober_probe_duration_seconds summary\n", "\nprober_probe_duration_seconds_sum{", "\ngo_goroutines "} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if strings.Contains(body, "prober_probe_duration_seconds_bucket") {
		t.Error("there are buckets")
	}
}

func TestActions(t *testing.T) {
	t.Parallel()
	web := newTarget(t)
	r := start(t, web.external("shop"))
	events := r.stream()
	awaitProbe(t, events, "ready", ready)
	const path = "/api/v1/probes/default/shop/web/readiness/"
	if status, body := r.do("POST", path+"pause"); status != http.StatusOK || !strings.Contains(body, `"paused":true`) {
		t.Errorf("pause: %d %s", status, body)
	}
	web.status.Store(http.StatusTeapot)
	if status, _ := r.do("POST", path+"trigger"); status != http.StatusOK {
		t.Errorf("trigger: %d", status)
	}
	var probes struct{ Items []streamedProbe }
	r.get("/api/v1/probes", &probes)
	if p := probes.Items[0]; !p.Paused || p.Result != "success" || !p.Next.IsZero() {
		t.Errorf("while paused: %+v", p)
	}
	r.do("POST", path+"resume")
	awaitProbe(t, events, "unready after the pause", unready)

	for _, c := range []struct {
		path string
		want int
	}{
		{"/api/v1/probes/default/shop/web/readiness/stop", http.StatusNotFound},
		{"/api/v1/probes/default/shop/web/liveness/pause", http.StatusNotFound},
		{"/api/v1/probes/default/other/web/readiness/pause", http.StatusNotFound},
		{"/api/v1/probes/default/shop/web/health/pause", http.StatusBadRequest},
	} {
		if status, body := r.do("POST", c.path); status != c.want || !strings.Contains(body, `"error":`) {
			t.Errorf("POST %s: %d %s, want %d", c.path, status, body, c.want)
		}
	}
}

func TestRequestsAreGuarded(t *testing.T) {
	t.Parallel()
	r := start(t, newTarget(t).external("shop"))
	r.lines.await(t, 0, "pods applied")
	const pause = "/api/v1/probes/default/shop/web/readiness/pause"
	for _, c := range []struct {
		name, method, path string
		headers            []string
		want               int
	}{
		{"a tool", "POST", pause, nil, http.StatusOK},
		{"our own page", "POST", pause, []string{"Sec-Fetch-Site", "same-origin"}, http.StatusOK},
		{"another site's page", "POST", pause, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{"an old browser, another site", "POST", "/-/reload", []string{"Origin", "http://example.org"}, http.StatusForbidden},
		{"a name that was made to point here", "GET", "/api/v1/pods", []string{"Host", "example.org:9876"}, http.StatusForbidden},
		{"localhost", "GET", "/api/v1/pods", []string{"Host", "localhost:9876"}, http.StatusOK},
		{"a get that would change something", "GET", pause, nil, http.StatusMethodNotAllowed},
		{"an unknown parameter", "GET", "/api/v1/probes?pods=a", nil, http.StatusBadRequest},
		{"an unknown kind", "GET", "/api/v1/probes?kind=health", nil, http.StatusBadRequest},
		{"a parameter twice", "GET", "/api/v1/probes?pod=a&pod=b", nil, http.StatusBadRequest},
		{"an unknown path", "GET", "/api/v2/pods", nil, http.StatusNotFound},
		{"profiles without credentials", "GET", "/debug/pprof/", nil, http.StatusUnauthorized},
	} {
		t.Run(c.name, func(t *testing.T) {
			if status, body := r.do(c.method, c.path, c.headers...); status != c.want {
				t.Errorf("%d %s, want %d", status, body, c.want)
			}
		})
	}
	if status, _ := r.send(r.local, "GET", "/debug/pprof/"); status != http.StatusNotFound {
		t.Errorf("profiles that nobody asked for: %d", status)
	}
}

func TestHealthEndpoints(t *testing.T) {
	t.Parallel()
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.Profiling = true })
	r.lines.await(t, 0, "pods applied")
	for _, path := range []string{"/healthz", "/livez", "/readyz", "/-/healthy", "/-/ready"} {
		if status, body := r.do("GET", path); status != http.StatusOK || body != "ok" {
			t.Errorf("%s: %d %s", path, status, body)
		}
		if _, body := r.do("GET", path+"?verbose"); !strings.HasPrefix(body, "[+]ping ok\n") || !strings.HasSuffix(body, " check passed\n") {
			t.Errorf("%s?verbose: %s", path, body)
		}
	}
	if status, _ := r.send(r.local, "GET", "/debug/pprof/goroutine"); status != http.StatusOK {
		t.Errorf("profile: %d", status)
	}
	if status, _ := r.do("GET", "/debug/pprof/goroutine"); status != http.StatusUnauthorized {
		t.Errorf("profile without credentials: %d", status)
	}
}

func TestInflightMetric(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case asked <- struct{}{}:
		case <-answer: // the test has ended
		}
		<-answer
	}))
	defer web.Close()
	defer close(answer)
	w := &target{Server: web}
	r := start(t, strings.ReplaceAll(w.external("slow"), "timeout: 5s", "timeout: 1m"))
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatal("no probe")
	}
	if _, body := r.do("GET", "/metrics"); !strings.Contains(body, "\nprober_inflight 1\n") {
		t.Errorf("want one attempt under way in\n%s", body)
	}
}

func TestStopEndsStreams(t *testing.T) {
	t.Parallel()
	r := start(t, newTarget(t).external("shop"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", r.url+"/api/v1/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	// A stream that delays the shutdown would be cut off.
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Errorf("the stream has no end: %v", err)
	}
}
