package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/agent"
)

// hangingRegistry returns a registry that never responds, and a channel that receives for each request.
func hangingRegistry(t *testing.T) (host string, asked <-chan struct{}) {
	t.Helper()
	questions := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case questions <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), questions
}

// A hanging registry does not delay promotions, other plugins, manifests, or the end of the agent.
func TestHangingRegistryDelaysNothingElse(t *testing.T) {
	t.Parallel()
	host, asked := hangingRegistry(t)
	dir := t.TempDir()
	file, beside := filepath.Join(dir, "prober.yaml"), filepath.Join(dir, "next.wasm")
	put(t, beside, guestSpec{text: "v2"}.plugin("demo", "2.0.0"))
	put(t, file, []byte(configHead+"plugins: [{name: demo, shadow: true, source: next.wasm}]\n"))
	r, events, folder := withPlugins(t, func(c *agent.Config) { c.ConfigFile = file })
	pods := r.manifest
	r.lines.await(t, 0, "plugin runs beside the one that decides")

	put(t, file, []byte(configHead+"plugins:\n- {name: demo, shadow: true, source: next.wasm, promoteAfter: {ticks: 1, agreement: 0.1}}\n"+
		"- {name: far, source: 'oci://"+host+"/far:1', plainHTTP: true}\n"))
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatal("the registry was not asked")
	}
	awaitOutput(t, events, "v2") // it was promoted
	put(t, filepath.Join(folder, "demo.wasm"), guestSpec{text: "v3"}.plugin("demo", "3.0.0"))
	r.lines.await(t, 0, "plugin loaded", "version=3.0.0") // then the shadow is promoted again
	write(t, pods, demoPod+"---\n"+strings.NewReplacer("name: shop", "name: other", "name: demo, config: {a: 1}", "name: far").Replace(demoPod))
	_, next := r.lines.await(t, 0, "manifests cannot be used", `plugin \"far\": its registry has not answered yet`)
	write(t, pods, demoPod+"---\n"+strings.Replace(demoPod, "name: shop", "name: other", 1))
	r.lines.await(t, next, "pods applied", "pods=2")
	if _, body := r.do("GET", "/readyz?verbose"); strings.Contains(body, "[!]") || r.lines.has("some plugins cannot be used") {
		t.Errorf("the registry was waited for: %s", body)
	}
	// A caller that requests a reload waits until the registry query times out.
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", r.url+"/-/reload", nil)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, cancel)
	if res, err := r.local.Do(req); err == nil {
		t.Errorf("%s with a registry that hangs", res.Status)
		res.Body.Close()
	}
}

// A reload of the files continues after its caller has left.
func TestReloadContinuesAfterCallerLeft(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.push(t, "1", guestSpec{text: "v1"}.plugin("demo", "1.0.0"))
	file := sourced(t, "oci://"+h.Host+"/demo:1", "")
	r := start(t, demoPod, func(c *agent.Config) { c.ConfigFile, c.StateDir = file, t.TempDir() })
	r.lines.await(t, 0, "pods applied")
	h.hangs.Store(true)
	before := h.requestCount("")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", r.url+"/-/reload", nil)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if res, err := r.local.Do(req); err == nil {
			res.Body.Close()
		}
	}()
	h.awaitMoreThan(t, before)
	cancel()
	<-answered
	r.lines.await(t, 0, "pods applied", "cause=request")
}

// slowly returns pods with probes of the plugin tester, whose validator hangs.
func slowly(probes int) string {
	var b strings.Builder
	for i := range probes {
		fmt.Fprintf(&b, "---\n%s", strings.NewReplacer("name: shop", fmt.Sprint("name: slow", i), "name: demo, config: {a: 1}",
			"name: tester, config: {mode: slow}").Replace(demoPod))
	}
	return b.String()
}

// The new version of a plugin hangs while it validates configs. The test waits for its 5 s limit.
func TestHangingReplacementDelaysNoManifests(t *testing.T) {
	t.Parallel()
	_, program := processFolder(t)
	dir := t.TempDir()
	file, module := filepath.Join(dir, "prober.yaml"), filepath.Join(dir, "x.wasm")
	put(t, module, guestSpec{text: "v1"}.plugin("tester", "1.0.0"))
	put(t, file, []byte(configHead+"plugins: [{name: tester, source: x.wasm}]\n"))
	r := start(t, slowly(1), func(c *agent.Config) { c.ConfigFile = file })
	pods := r.manifest
	awaitOutput(t, r.stream(), "v1")
	put(t, file, []byte(configHead+"plugins: [{name: tester, source: "+program+"}]\n"))
	write(t, pods, slowly(1)+"---\n"+newTarget(t).external("shop"))
	_, applied := r.lines.await(t, 0, "pods applied", "pods=2")
	_, refused := r.lines.await(t, 0, "some plugins cannot be used", "does not say within 5s whether it takes a config")
	if applied > refused {
		t.Error("the manifests waited for a plugin that they do not need")
	}
}

// Manifests that wait for a plugin are abandoned when they change.
func TestWaitingManifestsAreSuperseded(t *testing.T) {
	t.Parallel()
	folder, _ := processFolder(t)
	web := newTarget(t)
	r := start(t, web.external("one"), func(c *agent.Config) { c.PluginDirs = []string{folder} })
	pods := r.manifest
	write(t, pods, slowly(100))
	_, next := r.lines.await(t, 0, "loading plugin", "handler=tester")
	write(t, pods, web.external("one")+"---\n"+web.external("two"))
	r.lines.await(t, next, "pods applied", "pods=2")
	if r.lines.has("manifests cannot be used") {
		t.Error("manifests that nobody wants any more were waited for")
	}
}

// New waits for the validator of a plugin when its context ends.
func TestNewEndsWithContext(t *testing.T) {
	t.Parallel()
	for name, folder := range map[string]func(*testing.T) string{
		"a process": func(t *testing.T) string {
			folder, _ := processFolder(t)
			return folder
		},
		"a module": func(t *testing.T) string {
			folder := t.TempDir()
			put(t, filepath.Join(folder, "tester.wasm"), guestSpec{spins: true}.plugin("tester", "1.0.0"))
			return folder
		},
	} {
		t.Run(name, func(t *testing.T) {
			lines, enough := newLines(), errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			ended := make(chan error, 1)
			manifest := filepath.Join(t.TempDir(), "pods.yaml")
			cfg := agent.Config{Source: fromFiles(0, manifest), PluginDirs: []string{folder(t)}, Listen: "127.0.0.1:0", Stderr: lines}
			write(t, manifest, slowly(100))
			go func() {
				_, err := agent.New(ctx, cfg)
				ended <- err
			}()
			lines.await(t, 0, "loading plugin", "handler=tester")
			cancel(enough)
			select {
			case err := <-ended:
				if !errors.Is(err, enough) {
					t.Errorf("got %v", err)
				}
			case <-time.After(patience):
				t.Fatal("it does not end")
			}
		})
	}
}
