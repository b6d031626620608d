package agent_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/pods/local"
)

func TestMain(m *testing.M) {
	if local.IsShim(os.Args) {
		os.Exit(local.ShimMain())
	}
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// lines takes what an agent writes to stderr and lets tests wait for a line.
type lines struct {
	mu      sync.Mutex
	text    []string
	changed chan struct{} // closed when a line comes
}

func newLines() *lines { return &lines{changed: make(chan struct{})} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, string(p))
	close(l.changed)
	l.changed = make(chan struct{})
	return len(p), nil
}

// await returns the first line from the one numbered from that has all words in it,
// and the number of the next.
func (l *lines) await(t *testing.T, from int, words ...string) (line string, next int) {
	t.Helper()
	deadline := time.After(patience)
	for {
		l.mu.Lock()
		text, changed := l.text, l.changed
		l.mu.Unlock()
		for ; from < len(text); from++ {
			if containsAll(text[from], words) {
				return text[from], from + 1
			}
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("no line with %q in\n%s", words, strings.Join(text, ""))
		}
	}
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// running is an agent under test.
type running struct {
	t     *testing.T
	url   string
	lines *lines
	stop  func() error
}

// start runs an agent on the manifest until the test ends.
func start(t *testing.T, manifest string, change ...func(*agent.Config)) *running {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pod.yaml")
	write(t, path, manifest)
	r := &running{t: t, lines: newLines()}
	cfg := agent.Config{
		Paths: []string{path}, Listen: "127.0.0.1:0", Stderr: r.lines, PollInterval: 20 * time.Millisecond,
	}
	for _, c := range change {
		c(&cfg)
	}
	making, made := context.WithCancel(t.Context())
	a, err := agent.New(making, cfg)
	made() // it is of no interest any more
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	r.stop = sync.OnceValue(func() error {
		cancel(errors.New("the test is over"))
		select {
		case err := <-ended:
			return err
		case <-time.After(patience):
			return errors.New("the agent does not end")
		}
	})
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
	line, _ := r.lines.await(t, 0, "msg=listening")
	_, address, _ := strings.Cut(strings.TrimSpace(line), "address=")
	r.url = "http://" + address
	return r
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// do sends a request and returns status and body.
func (r *running) do(method, path string, headers ...string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func (r *running) get(path string, into any) {
	r.t.Helper()
	status, body := r.do("GET", path)
	if status != http.StatusOK {
		r.t.Fatalf("GET %s: %d %s", path, status, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		r.t.Fatal(err)
	}
}

// event is one event of a stream.
type event struct {
	name string
	data []byte
}

// stream returns the events of /api/v1/stream until the test ends.
func (r *running) stream() <-chan event {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", r.url+"/api/v1/stream", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		r.t.Errorf("content type %q", got)
	}
	events := make(chan event)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(events)
		defer res.Body.Close()
		var e event
		for s := bufio.NewReader(res.Body); ; {
			line, err := s.ReadBytes('\n')
			if err != nil {
				return
			}
			if name, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
				e.name = string(bytes.TrimSpace(name))
			}
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				e.data = data
				select {
				case events <- e:
				case <-ctx.Done():
					return
				}
			}
		}
	})
	r.t.Cleanup(func() { cancel(); reading.Wait() })
	return events
}

// awaitEvent reads events until one called name shows something as it should be.
func awaitEvent[T any](t *testing.T, events <-chan event, name, what string, ok func(*T) bool) T {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case e, open := <-events:
			if !open {
				t.Fatalf("the stream ended before: %s", what)
			}
			var shown T
			if e.name != name {
				continue
			}
			if err := json.Unmarshal(e.data, &shown); err != nil {
				t.Fatalf("%v in %s", err, e.data)
			}
			if ok(&shown) {
				return shown
			}
		case <-deadline:
			t.Fatalf("never came: %s", what)
		}
	}
}

func awaitProbe(t *testing.T, events <-chan event, what string, ok func(*streamedProbe) bool) streamedProbe {
	t.Helper()
	return awaitEvent(t, events, "probe", what, ok)
}

// streamedProbe is an item of /api/v1/probes, decoded as strictly as scripts do it.
type streamedProbe struct {
	Namespace, Pod, UID, Container, ContainerID, Kind, Handler, Result string
	Run                                                                int
	OnHold, Paused, Removed                                            bool
	Spec                                                               struct {
		InitialDelay, Period, Timeout      string
		SuccessThreshold, FailureThreshold int
	}
	Last *struct {
		Result, Output, Error string
		Attempts              int
		Time                  time.Time
		DurationSeconds       float64
	}
	Next    time.Time
	History []struct{ Result string }
}

// target is a web server whose health can be changed.
type target struct {
	*httptest.Server
	status atomic.Int32
	hits   chan struct{} // one for each request, as long as someone takes them
}

func newTarget(t *testing.T) *target {
	w := &target{hits: make(chan struct{})}
	w.status.Store(http.StatusOK)
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		select {
		case w.hits <- struct{}{}:
		default:
		}
		rw.WriteHeader(int(w.status.Load()))
		fmt.Fprint(rw, "hello")
	}))
	t.Cleanup(w.Close)
	return w
}

func (w *target) port() int { return w.Listener.Addr().(*net.TCPAddr).Port }

// external is a pod whose one container is the target.
func (w *target) external(name string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
  annotations:
    prober.dev/probes: |
      web:
        readiness: {httpGet: {path: /, port: %d}, period: 20ms, timeout: 5s, failureThreshold: 2}
spec:
  containers:
  - name: web
`, name, w.port())
}

func ready(p *streamedProbe) bool   { return p.Result == "success" && p.Last != nil }
func unready(p *streamedProbe) bool { return p.Result == "failure" && p.Last != nil }

func TestProbesArePublished(t *testing.T) {
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
	r.lines.await(t, next-1, "msg=event", "reason=Unhealthy", "statuscode: 418") // every one is told
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

func TestActions(t *testing.T) {
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

func TestWhoMayAsk(t *testing.T) {
	r := start(t, newTarget(t).external("shop"))
	r.lines.await(t, 0, "manifests applied")
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
		{"profiles, which nobody asked for", "GET", "/debug/pprof/", nil, http.StatusNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			if status, body := r.do(c.method, c.path, c.headers...); status != c.want {
				t.Errorf("%d %s, want %d", status, body, c.want)
			}
		})
	}
}

func TestHealth(t *testing.T) {
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.Profiling = true })
	r.lines.await(t, 0, "manifests applied")
	for _, path := range []string{"/healthz", "/livez", "/readyz", "/-/healthy", "/-/ready"} {
		if status, body := r.do("GET", path); status != http.StatusOK || body != "ok" {
			t.Errorf("%s: %d %s", path, status, body)
		}
		if _, body := r.do("GET", path+"?verbose"); !strings.HasPrefix(body, "[+]ping ok\n") || !strings.HasSuffix(body, " check passed\n") {
			t.Errorf("%s?verbose: %s", path, body)
		}
	}
	if status, _ := r.do("GET", "/debug/pprof/goroutine"); status != http.StatusOK {
		t.Errorf("profile: %d", status)
	}
}

func TestManifestsAreWatched(t *testing.T) {
	web := newTarget(t)
	path := filepath.Join(t.TempDir(), "pods.yaml")
	write(t, path, web.external("one"))
	r := start(t, "", func(c *agent.Config) { c.Paths = []string{path} })
	events := r.stream()
	one := awaitProbe(t, events, "the first pod is ready", ready)

	write(t, path, web.external("one")+"---\n"+web.external("two"))
	awaitProbe(t, events, "the second pod is ready", func(p *streamedProbe) bool { return p.Pod == "two" && ready(p) })
	same := awaitProbe(t, events, "the first goes on", func(p *streamedProbe) bool { return p.Pod == "one" && ready(p) })
	if same.ContainerID != one.ContainerID {
		t.Error("an unchanged pod was started again")
	}

	write(t, path, "apiVersion: v1\nkind: Pod\nmetadata: {name: three}\nspec:\n  containers: [{name: a, imag: b}]\n")
	_, next := r.lines.await(t, 0, "level=ERROR", "last good state", path+":5: spec.containers[0].imag: unknown field")
	if status, body := r.do("GET", "/readyz?verbose"); status != http.StatusOK || !strings.Contains(body, "[!]reload failed") || !strings.Contains(body, ":5: spec.containers[0].imag") {
		t.Errorf("readyz: %d %s", status, body)
	}
	if _, body := r.do("GET", "/metrics"); !strings.Contains(body, "prober_config_last_reload_successful 0\n") {
		t.Error("no metric tells that the reload failed")
	}
	if status, body := r.do("POST", "/-/reload"); status != http.StatusInternalServerError || !strings.Contains(body, "unknown field") {
		t.Errorf("reload: %d %s", status, body)
	}
	var pods v1.PodList
	if r.get("/api/v1/pods", &pods); len(pods.Items) != 2 {
		t.Errorf("%d pods after a bad file, want the 2 of the last good one", len(pods.Items))
	}

	write(t, path, web.external("two"))
	r.lines.await(t, next, "manifests applied", `cause="changed files"`, "pods=1")
	gone := awaitProbe(t, events, "the first pod's probe is gone", func(p *streamedProbe) bool { return p.Removed })
	if gone.Pod != "one" || gone.Kind != "readiness" || gone.Container != "web" {
		t.Errorf("removed %+v", gone)
	}
	if status, body := r.do("POST", "/-/reload"); status != http.StatusOK {
		t.Errorf("reload: %d %s", status, body)
	}
	if _, body := r.do("GET", "/metrics"); !strings.Contains(body, "prober_config_last_reload_successful 1\n") || strings.Contains(body, `pod="one"`) {
		t.Error("the metrics do not follow the files")
	}
}

func TestStateOutlivesTheAgent(t *testing.T) {
	web := newTarget(t)
	state := func(c *agent.Config) { c.StateDir = filepath.Join(filepath.Dir(c.AddrFile), "state") }
	addr := filepath.Join(t.TempDir(), "addr")
	first := start(t, web.external("shop"), func(c *agent.Config) { c.AddrFile = addr }, state)
	before := awaitProbe(t, first.stream(), "ready", ready)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	// The next agent will not probe for long, and knows all the same.
	rarely := strings.ReplaceAll(web.external("shop"), "period: 20ms", "period: 24h")
	r := start(t, rarely, func(c *agent.Config) { c.AddrFile = addr }, state)
	status := awaitEvent(t, r.stream(), "pod", "known to be ready", func(pod *v1.Pod) bool {
		return len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].Ready
	}).Status.ContainerStatuses[0]
	if status.ContainerID != before.ContainerID {
		t.Errorf("container %s, want %s", status.ContainerID, before.ContainerID)
	}
	r.lines.await(t, 0, "manifests applied", "cause=start", "pods=1")
	var probes struct{ Items []streamedProbe }
	r.get("/api/v1/probes", &probes)
	if len(probes.Items) != 1 || probes.Items[0].Last != nil {
		t.Errorf("got %+v, want a probe that never ran", probes.Items)
	}
}

func TestSeriesGoWithTheirPod(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pods.yaml")
	write(t, path, `apiVersion: v1
kind: Pod
metadata: {name: job}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    command: [sh, -c, "exit 1"]
`)
	r := start(t, "", func(c *agent.Config) { c.Paths, c.RestartBackoff = []string{path}, time.Millisecond })
	events := r.stream()
	r.lines.await(t, 0, "container restarted", "pod=job", "container=main", "cause=exit", "count=1")
	const series = `prober_restarts_total{container="main",kind="exit",namespace="default",pod="job"}`
	if _, body := r.do("GET", "/metrics"); !strings.Contains(body, series) {
		t.Error("no restart is counted")
	}
	write(t, path, "")
	awaitEvent(t, events, "pod", "the pod is gone", func(pod *struct{ Removed bool }) bool { return pod.Removed })
	if _, body := r.do("GET", "/metrics"); strings.Contains(body, series) {
		t.Error("the restarts of a pod that is gone are still counted")
	}
}

func TestAttemptsUnderWayAreCounted(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
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

func TestReloadSignal(t *testing.T) {
	signals := make(chan os.Signal)
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.Reload, c.PollInterval = signals, time.Hour })
	signals <- os.Interrupt // which one does not matter here
	r.lines.await(t, 0, "manifests applied", "cause=signal")
}

func TestSecretsAreResolvedAndHidden(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	write(t, file, "from-the-file\n")
	r := start(t, `apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations:
    prober.dev/probes: |
      web:
        readiness:
          exec: {command: [sh, -c, 'test "$1" = from-the-file && echo "$1" and "$2"', sh, "${file:`+file+`}", "${env:TOKEN}"]}
          period: 20ms
          timeout: 5s
spec:
  containers:
  - name: web
`, func(c *agent.Config) {
		c.LookupEnv = func(name string) (string, bool) { return "from-the-env", name == "TOKEN" }
	})
	p := awaitProbe(t, r.stream(), "ready", ready)
	if p.Last.Output != "[redacted] and [redacted]\n" {
		t.Errorf("output %q", p.Last.Output)
	}
}

func TestNothingStartsWhenAFileIsBad(t *testing.T) {
	pod := func(annotation string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: shop\n  annotations:\n    prober.dev/probes: '" + annotation +
			"'\nspec:\n  containers:\n  - name: web\n"
	}
	bad := filepath.Join(t.TempDir(), "prober.yaml")
	write(t, bad, "apiVersion: prober.dev/v1\nkind: AgentConfig\nplugins: [{name: nosuch}]\n")
	closed := filepath.Join(t.TempDir(), "closed.yaml")
	write(t, closed, "apiVersion: prober.dev/v1\nkind: AgentConfig\ntrust: {require: true, keys: [a.pub]}\n")
	folder := t.TempDir()
	write(t, filepath.Join(folder, "cut.wasm"), "\x00asm\x01\x00\x00\x00\x00\x20")
	for _, c := range []struct {
		name, manifest string
		change         func(*agent.Config)
		want           string
	}{
		{"no manifests", pod("{}"), func(c *agent.Config) { c.Paths = nil }, "no manifests given"},
		{"unknown plugin", pod("{web: {readiness: {plugin: {name: htpp}}}}"), nil, `unknown handler "htpp"; known: exec, grpc, http, tcp (did you mean "http"?)`},
		{"place of an unknown plugin", pod("{web: {readiness: {plugin: {name: redis}}}}"), nil, `[web].readiness: unknown handler "redis"`},
		{"unknown secret", pod("{web: {readiness: {exec: {command: [\"${env:NOPE}\"]}}}}"), nil, "${env:NOPE}: the agent has no such variable"},
		{"no such file", pod("{}"), func(c *agent.Config) { c.Paths = []string{"/nosuch.yaml"} }, "/nosuch.yaml: "},
		{"no such plugin folder", pod("{}"), func(c *agent.Config) { c.PluginDirs = []string{"/nosuch"} }, "/nosuch"},
		{"cut module", pod("{}"), func(c *agent.Config) { c.PluginDirs = []string{folder} }, filepath.Join(folder, "cut.wasm")},
		{"no such config", pod("{}"), func(c *agent.Config) { c.ConfigFile = "/nosuch.yaml" }, "/nosuch.yaml"},
		{"plugin of the config", pod("{}"), func(c *agent.Config) { c.ConfigFile = bad }, bad + `:3: plugins[0]: plugin "nosuch" is in none of the plugin folders`},
		{"signatures fail closed", pod("{}"), func(c *agent.Config) { c.ConfigFile = closed }, closed + `:3: trust: key: open ` + filepath.Join(filepath.Dir(closed), "a.pub")},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pod.yaml")
			write(t, path, c.manifest)
			cfg := agent.Config{Paths: []string{path}, Stderr: io.Discard}
			if c.change != nil {
				c.change(&cfg)
			}
			a, err := agent.New(t.Context(), cfg)
			if err == nil {
				t.Fatalf("got %v and no error", a)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// stuck is a writer that never comes back until it is freed.
type stuck struct{ freed chan struct{} }

func (s stuck) Write(p []byte) (int, error) {
	<-s.freed
	return len(p), nil
}

func TestBlockedStderrDelaysNoProbe(t *testing.T) {
	web := newTarget(t)
	web.status.Store(http.StatusTeapot) // an event for each probe
	path := filepath.Join(t.TempDir(), "pod.yaml")
	write(t, path, web.external("shop"))
	stderr := stuck{make(chan struct{})}
	a, err := agent.New(t.Context(), agent.Config{Paths: []string{path}, Listen: "127.0.0.1:0", Stderr: stderr})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	deadline := time.After(patience)
	for n := range 20 {
		select {
		case <-web.hits:
		case <-deadline:
			t.Fatalf("%d probes", n)
		}
	}
	cancel()
	select {
	case err = <-ended:
	case <-time.After(patience):
		t.Fatal("a blocked stderr keeps the agent from ending")
	}
	if err != nil {
		t.Error(err)
	}
	close(stderr.freed)
}

func TestAddrFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "addr")
	write(t, file, "stale")
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.AddrFile = file })
	got, err := os.ReadFile(file)
	if err != nil || "http://"+string(got) != r.url {
		t.Errorf("got %q, %v, want %s", got, err, r.url)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file outlives the server: %v", err)
	}
	r.lines.await(t, 0, "msg=stopped", `cause="the test is over"`)
}

func TestStreamsEndWithTheAgent(t *testing.T) {
	r := start(t, newTarget(t).external("shop"))
	events := r.stream()
	awaitProbe(t, events, "ready", ready)
	begin := time.Now()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took >= 5*time.Second {
		t.Errorf("an open stream holds the end up for %v", took)
	}
	deadline := time.After(patience)
	for {
		select {
		case _, open := <-events:
			if !open {
				return
			}
		case <-deadline:
			t.Fatal("the stream goes on")
		}
	}
}
