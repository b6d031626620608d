package agent_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/internal/registrytest"
	"github.com/daeace23/prober/plugin"
)

// hub is a registry that can be unavailable, or hang.
type hub struct {
	*registrytest.Registry
	away, hangs atomic.Bool
	down, drops atomic.Bool   // it responds with 503, or closes connections
	heard       chan struct{} // receives after each request
}

// requestCount returns the number of requests whose path has this prefix.
func (h *hub) requestCount(prefix string) (n int) {
	for _, request := range h.Requests() {
		if _, path, _ := strings.Cut(request, " "); strings.HasPrefix(path, prefix) {
			n++
		}
	}
	return n
}

// awaitRequest waits for the next request.
func (h *hub) awaitRequest(t *testing.T) {
	t.Helper()
	h.awaitMoreThan(t, h.requestCount(""))
}

// awaitMoreThan waits until there have been more than n requests.
func (h *hub) awaitMoreThan(t *testing.T, n int) {
	t.Helper()
	deadline := time.After(patience)
	for h.requestCount("") <= n {
		select {
		case <-h.heard:
		case <-deadline:
			t.Fatal("the registry gets no request any more")
		}
	}
}

func newHub(t *testing.T) *hub {
	t.Helper()
	h := &hub{Registry: registrytest.New(t), heard: make(chan struct{}, 1)}
	h.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		select {
		case h.heard <- struct{}{}:
		default:
		}
		if h.hangs.Load() {
			<-r.Context().Done()
			return true
		}
		if h.down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		if h.drops.Load() {
			panic(http.ErrAbortHandler)
		}
		if h.away.Load() {
			w.WriteHeader(http.StatusGone)
			return true
		}
		return false
	})
	return h
}

// push pushes a module to a tag of demo, and returns the digest of the artifact.
func (h *hub) push(t *testing.T, tag string, module []byte) string {
	t.Helper()
	return h.PushModule(t, "demo:"+tag, module)
}

// sourced returns a prober.yaml with a plugin demo from a source, and additional fields.
func sourced(t *testing.T, source, more string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "prober.yaml")
	put(t, file, []byte("apiVersion: prober.dev/v1\nkind: AgentConfig\nplugins:\n- name: demo\n  source: "+source+"\n  plainHTTP: true\n"+more))
	return file
}

func TestPluginOfRegistryRuns(t *testing.T) {
	h := newHub(t)
	first := h.push(t, "1", guestSpec{text: "v1"}.plugin("demo", "1.0.0"))
	state := t.TempDir()
	file := sourced(t, "oci://"+h.Host+"/demo:1", "")
	configure := func(c *agent.Config) { c.ConfigFile, c.StateDir = file, state }
	r := start(t, demoPod, configure)
	events := r.stream()
	awaitOutput(t, events, "v1")
	const series = `prober_plugin_source_stale{plugin="demo"}`
	_, next := r.lines.await(t, 0, "plugin loaded", "path=oci://"+h.Host+"/demo:1@"+first)
	if got := r.metric(series); got != "0" {
		t.Errorf("got %q", got)
	}

	h.push(t, "1", guestSpec{text: "v2"}.plugin("demo", "2.0.0"))
	if status, body := r.do("POST", "/-/reload"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	awaitOutput(t, events, "v2")

	// The registry has a plugin of another name, and then becomes unavailable.
	h.push(t, "1", guestSpec{text: "v3"}.plugin("other", "3.0.0"))
	for _, want := range []string{`its manifest calls the plugin "other"`, "the registry answered 410 Gone"} {
		if status, body := r.do("POST", "/-/reload"); status != http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
		_, next = r.lines.await(t, next, "level=WARN", "plugin source is not available", strings.ReplaceAll(want, `"`, `\"`))
		_, body := r.do("GET", "/readyz?verbose")
		if p := r.plugin(); !strings.Contains(p.Stale, want) || !strings.Contains(body, "[!]plugin demo its source is not available, the last good version is kept: "+p.Stale) {
			t.Errorf("got %+v and %s", p, body)
		}
		if got := r.metric(series); got != "1" {
			t.Errorf("got %q", got)
		}
		h.away.Store(true)
	}
	awaitOutput(t, events, "v2")
	r.stop()

	// An agent that starts while the registry is unavailable uses the last good version.
	r = start(t, demoPod, configure)
	awaitOutput(t, r.stream(), "v2")
	r.lines.await(t, 0, "plugin source is not available", "the registry answered 410 Gone")
}

func TestCachedPluginWithDigestNeedsNoRegistry(t *testing.T) {
	h, state := newHub(t), t.TempDir()
	digest := h.push(t, "1", guestSpec{text: "v1"}.plugin("demo", "1.0.0"))
	file := sourced(t, "oci://"+h.Host+"/demo@"+digest, "")
	for range 2 {
		r := start(t, demoPod, func(c *agent.Config) { c.ConfigFile, c.StateDir = file, state })
		awaitOutput(t, r.stream(), "v1")
		r.stop()
		h.away.Store(true)
	}
}

// An agent whose registry is unavailable starts. Only the probes of its plugin have no verdict, until the
// registry is back. Then the plugin is cached: the next agent loads it without a registry.
func TestStartWhileRegistryIsUnavailable(t *testing.T) {
	for name, fault := range map[string]struct {
		set  func(h *hub, on bool)
		want string
	}{
		"answers 503":      {func(h *hub, on bool) { h.down.Store(on) }, "the registry answered 503"},
		"ends connections": {func(h *hub, on bool) { h.drops.Store(on) }, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer app.Close()
			h, state := newHub(t), t.TempDir()
			digest := h.push(t, "1", guestSpec{text: "v1"}.plugin("demo", "1.0.0"))
			fault.set(h, true)
			file := sourced(t, "oci://"+h.Host+"/demo@"+digest, "")
			configure := func(c *agent.Config) {
				c.ConfigFile, c.StateDir = file, state
				agent.AskEvery(c, 10*time.Millisecond)
			}
			pod := strings.Replace(demoPod, "timeout: 1m}", fmt.Sprintf("timeout: 1m}, liveness: {tcpSocket: {port: %d}, period: 20ms, timeout: 1m}", app.Addr().(*net.TCPAddr).Port), 1)
			r := start(t, pod, configure)
			events := r.stream()
			awaitProbe(t, events, "a verdict of the probe without a plugin", func(p *streamedProbe) bool { return p.Kind == "liveness" && p.Run > 2 && p.Result == "success" })
			awaitProbe(t, events, "the error of the probe with the plugin", func(p *streamedProbe) bool {
				return p.Kind == "readiness" && p.Last != nil && strings.Contains(p.Last.Error, fault.want)
			})
			if status, body := r.do("GET", "/readyz?verbose"); status != http.StatusOK || !strings.Contains(body, fault.want) {
				t.Errorf("%d %s", status, body)
			}
			if p := r.plugin(); p.State != "failed" || !strings.Contains(p.Error, fault.want) {
				t.Errorf("got %+v", p)
			}
			for n := h.requestCount("/v2/demo/"); h.requestCount("/v2/demo/") < n+3; { // until it is queried again
				h.awaitRequest(t)
			}
			fault.set(h, false)
			awaitOutput(t, events, "v1")
			_, reloaded := r.lines.await(t, 0, "plugins reloaded")
			if n := r.lines.count(0, reloaded, "plugins are not available yet", fault.want); n != 1 || r.lines.has("some plugins cannot be used") {
				t.Errorf("the fault was logged %d times", n)
			}
			if _, body := r.do("GET", "/readyz?verbose"); strings.Contains(body, fault.want) {
				t.Error(body)
			}
			r.stop()
			fault.set(h, true)
			r = start(t, pod, configure)
			awaitOutput(t, r.stream(), "v1")
		})
	}
}

// The error of New is a single line.
func TestNewBadSourceIsError(t *testing.T) {
	h, state := newHub(t), t.TempDir()
	module := guestSpec{text: "v1"}.plugin("demo", "1.0.0")
	h.push(t, "1", module)
	h.push(t, "other", guestSpec{}.plugin("other", "1.0.0"))
	pod := filepath.Join(t.TempDir(), "pod.yaml")
	write(t, pod, demoPod)
	wrong := "sha256:" + strings.Repeat("0", 64)
	for _, tc := range []struct{ source, more, want string }{
		{"oci://" + h.Host + "/demo:none", "", "plugins[0]: " + h.Host + "/demo:none: not found"},
		{"oci://" + h.Host + "/demo@" + wrong, "", "/demo@" + wrong + ": not found"},
		{"oci://" + h.Host + "/demo:other", "", `its manifest calls the plugin "other"`},
		{"oci://" + h.Host + "/demo:1", "  digest: " + wrong + "\n", "the digest of its module is " + plugin.Digest(module) + ", must be " + wrong},
	} {
		file := sourced(t, tc.source, tc.more)
		_, err := agent.New(t.Context(), agent.Config{Source: fromFiles(0, pod), ConfigFile: file, StateDir: state, Listen: "127.0.0.1:0"})
		if err == nil || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), file+":4: plugins[0]: ") || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.source, err, tc.want)
		}
	}
	// A cache that others can write to is an error.
	cache := filepath.Join(state, "plugins")
	if err := os.Chmod(cache, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err := agent.New(t.Context(), agent.Config{Source: fromFiles(0, pod), ConfigFile: sourced(t, "oci://"+h.Host+"/demo:1", ""), StateDir: state, Listen: "127.0.0.1:0"})
	if err == nil || !strings.Contains(err.Error(), cache+" is writable to others") {
		t.Errorf("got %v", err)
	}
}

// Registries are queried for tags periodically, but not for digests.
func TestMovedTagIsFollowed(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.push(t, "1", guestSpec{text: "v1"}.plugin("demo", "1.0.0"))
	file := sourced(t, "oci://"+h.Host+"/demo:1", "")
	r := start(t, demoPod, func(c *agent.Config) {
		c.ConfigFile, c.StateDir = file, t.TempDir()
		agent.AskEvery(c, 10*time.Millisecond)
	})
	events := r.stream()
	awaitOutput(t, events, "v1")
	digest := h.push(t, "1", guestSpec{text: "v2"}.plugin("demo", "2.0.0"))
	awaitOutput(t, events, "v2")
	h.away.Store(true)
	_, next := r.lines.await(t, 0, "plugin source is not available", "the registry answered 410 Gone")
	h.away.Store(false)
	r.lines.await(t, next, "plugin source is available again", "handler=demo")
	if p := r.plugin(); p.Stale != "" || p.Version != "2.0.0" {
		t.Errorf("got %+v", p)
	}

	put(t, file, []byte("apiVersion: prober.dev/v1\nkind: AgentConfig\nplugins:\n- {name: demo, plainHTTP: true, source: 'oci://"+h.Host+"/demo@"+digest+"'}\n"+
		"- {name: tagged, plainHTTP: true, source: 'oci://"+h.Host+"/tagged:1'}\n"))
	r.lines.await(t, next, "some plugins cannot be used", "tagged:1: not found")
	asked := h.requestCount("/v2/demo/")
	for n := h.requestCount("/v2/tagged/"); h.requestCount("/v2/tagged/") < n+3; {
		h.awaitRequest(t)
	}
	if again := h.requestCount("/v2/demo/"); again != asked {
		t.Errorf("a digest was asked for %d times more", again-asked)
	}
}

// The plugin cache is deleted while the agent runs. The next change of a file fills it again.
func TestDeletedPluginCacheIsFilledAgain(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]func(host, digest string) string{
		"tag":    func(host, _ string) string { return "oci://" + host + "/demo:1" },
		"digest": func(host, digest string) string { return "oci://" + host + "/demo@" + digest },
	} {
		t.Run(name, func(t *testing.T) {
			h, state := newHub(t), filepath.Join(t.TempDir(), "state")
			digest := h.push(t, "1", guestSpec{text: "v1"}.plugin("demo", "1.0.0"))
			file := sourced(t, source(h.Host, digest), "")
			r := start(t, demoPod, func(c *agent.Config) { c.ConfigFile, c.StateDir = file, state })
			awaitOutput(t, r.stream(), "v1")
			cache := filepath.Join(state, "plugins")
			if err := os.RemoveAll(cache); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			asked := h.requestCount("")
			put(t, file, append(text, "# changed\n"...))
			h.awaitMoreThan(t, asked)
			r.reload() // returns after the reload for the change
			if kept, err := filepath.Glob(filepath.Join(cache, digest[len("sha256:"):]+".tar")); err != nil || len(kept) != 1 {
				t.Errorf("kept are %q, %v", kept, err)
			}
			if p := r.plugin(); p.Error != "" || p.State != "running" || r.lines.has("some plugins cannot be used") {
				t.Errorf("got %+v", p)
			}
		})
	}
}
