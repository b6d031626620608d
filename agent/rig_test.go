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
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/local"
	"github.com/daeace23/prober/pods/local/manifest"
)

func TestMain(m *testing.M) {
	goEnvironment = os.Environ()
	cache, err := os.MkdirTemp("", "prober-cache")
	if err != nil {
		panic(err)
	}
	_ = os.Setenv("XDG_CACHE_HOME", cache) // tests that need their own cache set it
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(cache)
		_ = os.RemoveAll(programs.dir)
		os.Exit(code)
	}))
}

// patience is the time limit for an expected event. It is far longer than needed on the slowest machine.
const patience = 3 * time.Minute

// lines receives the lines that an agent writes to stderr. Tests can wait for a line.
type lines struct {
	mu      sync.Mutex
	text    []string
	changed chan struct{} // closed when a line arrives
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

// await waits for a line that contains all words, starting at line number from. It returns the line and the
// number of the line after it.
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

// has reports whether any line so far contains all words.
func (l *lines) has(words ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.text, func(line string) bool { return containsAll(line, words) })
}

// count returns the number of lines, from from to before to, that contain all words.
func (l *lines) count(from, to int, words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.text[from:to] {
		if containsAll(line, words) {
			n++
		}
	}
	return n
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
	agent *agent.Agent
	url   string
	local *http.Client // for the agent's socket
	lines *lines
	stop  func() error

	manifest string // the file
}

// files is a source of pods from manifests, whose containers run on this host.
type files struct {
	manifest.Source
	backoff  time.Duration
	stateDir string
}

// open is the Source of an agent's config.
func (f *files) open(ctx context.Context, host pods.Host) (pods.Source, error) {
	runner := &builtin.HostRunner{}
	source, err := local.NewPodSource(ctx, &f.Source, local.Config{Runner: runner, RestartBackoff: f.backoff, StateDir: f.stateDir}, host)
	if err != nil {
		return pods.Source{}, err
	}
	runner.Environment, runner.User = source.Environment, source.User
	return source.ForAgent(), nil
}

// fromFiles returns the source of the manifests at the paths.
func fromFiles(backoff time.Duration, paths ...string) func(context.Context, pods.Host) (pods.Source, error) {
	return (&files{Source: manifest.Source{Paths: paths, System: runtime.GOOS}, backoff: backoff}).open
}

// start runs an agent on the manifest in text until the test ends.
func start(t *testing.T, text string, change ...func(*agent.Config)) *running {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pod.yaml")
	write(t, path, text)
	r := &running{t: t, manifest: path, lines: newLines()}
	source := &files{Source: manifest.Source{Paths: []string{path}, System: runtime.GOOS}}
	cfg := agent.Config{
		Source: source.open, Listen: "127.0.0.1:0", Stderr: r.lines, PollInterval: 20 * time.Millisecond,
		Socket: filepath.Join(shortDir(t), "s"),
	}
	for _, c := range change {
		c(&cfg)
	}
	source.stateDir = cfg.StateDir
	if cfg.ConfigFile == "" { // secrets of tests are variables, and files in their folders
		cfg.ConfigFile = allowing(t, "env:*", "file:"+filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(path))), "*/*/*"))
	}
	making, made := context.WithCancel(t.Context())
	a, err := agent.New(making, cfg)
	made() // the agent must not depend on the context of New
	if err != nil {
		t.Fatal(err)
	}
	r.agent, r.local = a, overSocket(t, cfg.Socket)
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
	address, tls, _ := strings.Cut(address, " ")
	r.url = "http://" + address
	if tls != "" {
		r.url = "https://" + address
	}
	return r
}

// shortDir returns a folder with a path that is short enough for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "p")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// overSocket returns a client that sends every request to the socket at path.
func overSocket(t *testing.T, path string) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
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

// do sends a request and returns status and body. It sends actions over the agent's socket.
func (r *running) do(method, path string, headers ...string) (int, string) {
	r.t.Helper()
	if method == "POST" {
		local := &running{t: r.t, url: "http://localhost"}
		return local.send(r.local, method, path, headers...)
	}
	return r.send(http.DefaultClient, method, path, headers...)
}

// send sends a request and returns status and body.
func (r *running) send(client *http.Client, method, path string, headers ...string) (int, string) {
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
	res, err := client.Do(req)
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

// reload reloads everything, and fails the test on an error.
func (r *running) reload() {
	r.t.Helper()
	if err := r.agent.Reload(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
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

// event is an event of a stream.
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

// awaitEvent reads events until ok accepts one with this name, and returns it.
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

// streamedProbe is an item of /api/v1/probes, decoded strictly as scripts decode it.
type streamedProbe struct {
	Namespace, Pod, UID, Container, ContainerID, Kind, Handler, Result string
	Run                                                                int
	OnHold, Paused, Removed                                            bool
	Gate                                                               string
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

// target is a web server with a configurable health.
type target struct {
	*httptest.Server
	status atomic.Int32
	hits   chan struct{} // receives a value for each request, if a test reads it
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

// external returns a pod with one container, whose probe sends requests to w.
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

// podReady reports whether a pod is ready. The status of pods follows the results of their probes.
func podReady(pod *v1.Pod) bool {
	return len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].Ready
}

func ready(p *streamedProbe) bool   { return p.Result == "success" && p.Last != nil }
func unready(p *streamedProbe) bool { return p.Result == "failure" && p.Last != nil }
