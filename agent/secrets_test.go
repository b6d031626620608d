package agent_test

import (
	"fmt"
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

	"github.com/daeace23/prober/agent"
)

// guarded is a web server that records the password of the last request.
type guarded struct {
	*httptest.Server
	said chan string // the last password
}

func newGuarded(t *testing.T) *guarded {
	g := &guarded{said: make(chan string, 1)}
	var mu sync.Mutex
	g.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		select {
		case <-g.said:
		default:
		}
		g.said <- r.Header.Get("Authorization")
	}))
	t.Cleanup(g.Close)
	return g
}

// await waits for an attempt with the password.
func (g *guarded) await(t *testing.T, password string) {
	t.Helper()
	deadline := time.After(patience)
	for last := ""; last != password; {
		select {
		case last = <-g.said:
		case <-deadline:
			t.Fatalf("the password is %q still, want %q", last, password)
		}
	}
}

// pod returns a pod whose readiness probe sends the reference as its password.
func (g *guarded) pod(reference, period string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations:
    prober.dev/probes: |
      web:
        readiness:
          httpGet: {port: %d, httpHeaders: [{name: Authorization, value: %q}]}
          period: %s
          timeout: 1m
spec:
  containers: [{name: web}]
`, g.Listener.Addr().(*net.TCPAddr).Port, reference, period)
}

const lastReload = "prober_config_last_reload_successful"

func TestRotatedSecretIsUsed(t *testing.T) {
	t.Parallel()
	g, dir := newGuarded(t), t.TempDir()
	put(t, filepath.Join(dir, "..1", "password"), []byte("one\n"))
	link(t, "..1", filepath.Join(dir, "..data"))
	link(t, filepath.Join("..data", "password"), filepath.Join(dir, "password"))
	r := start(t, g.pod("${file:"+filepath.Join(dir, "password")+"}", "20ms"))
	g.await(t, "one")
	before := r.probe()
	put(t, filepath.Join(dir, "..2", "password"), []byte("two\n")) // swap the secret as the kubelet does
	link(t, "..2", filepath.Join(dir, "..new"))
	if err := os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	g.await(t, "two")
	r.lines.await(t, 0, "secret changed", filepath.Join(dir, "password"))
	after := r.probe()
	if before.ContainerID != after.ContainerID || after.Run < before.Run {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if r.metric(lastReload) != "1" {
		t.Error("the reload counts as failed")
	}
}

func TestUnreadableSecretKeepsLast(t *testing.T) {
	t.Parallel()
	g, dir := newGuarded(t), t.TempDir()
	file := filepath.Join(dir, "password")
	put(t, file, []byte("one"))
	r := start(t, g.pod("${file:"+file+"}", "20ms"))
	g.await(t, "one")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	_, next := r.lines.await(t, 0, "level=ERROR", "pod default/shop", "readiness", "password: no such file")
	if r.metric(lastReload) != "0" {
		t.Error("the reload counts as successful")
	}
	if _, body := r.do("GET", "/readyz?verbose"); !strings.Contains(body, "password: no such file") {
		t.Errorf("readyz says nothing of it: %s", body)
	}
	<-g.said
	g.await(t, "one")
	put(t, file, []byte("two"))
	g.await(t, "two")
	r.lines.await(t, next, "pods applied")
	if r.metric(lastReload) != "1" {
		t.Error("the reload counts as failed")
	}
}

func TestSecretRefusedByPluginKeepsLast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "password")
	put(t, file, []byte("short"))
	put(t, filepath.Join(dir, "plugins", "demo", "plugin.yaml"), []byte("apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\n"+
		"config: {schema: {type: object, properties: {a: {type: string, maxLength: 6}}}}\n"))
	put(t, filepath.Join(dir, "plugins", "demo", "demo.wasm"), guestSpec{text: "v1"}.module())
	manifest := strings.Replace(demoPod, "{a: 1}", `{a: "${file:`+file+`}"}`, 1)
	r := start(t, manifest, func(c *agent.Config) { c.PluginDirs = []string{filepath.Join(dir, "plugins")} })
	events := r.stream()
	awaitOutput(t, events, "v1")
	put(t, file, []byte("far too long"))
	line, next := r.lines.await(t, 0, "level=ERROR", "pod default/shop", "config")
	if strings.Contains(line, "far too long") {
		t.Errorf("the log shows the secret: %s", line)
	}
	awaitOutput(t, events, "v1")
	put(t, file, []byte("other"))
	r.lines.await(t, next, "pods applied")
	awaitOutput(t, events, "v1")
}

func TestReloadReadsSecretsAgain(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	var password atomic.Value
	password.Store("one")
	r := start(t, g.pod("${env:PASSWORD}", "20ms"), func(c *agent.Config) {
		c.LookupEnv = func(name string) (string, bool) { return password.Load().(string), name == "PASSWORD" }
	})
	g.await(t, "one")
	password.Store("two")
	r.reload()
	g.await(t, "two")
}

// A secret is unreadable for a while. It is used later, although no file has changed.
func TestUnreadableSecretIsRetried(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	var password atomic.Value
	password.Store("one")
	manifest := g.pod("${env:PASSWORD}", "20ms")
	r := start(t, manifest, func(c *agent.Config) {
		c.LookupEnv = func(name string) (string, bool) { s := password.Load().(string); return s, s != "" }
		agent.RetrySecrets(c, 50*time.Millisecond)
	})
	path := r.manifest
	g.await(t, "one")
	password.Store("")
	write(t, path, manifest+"# read again\n")
	from, next := r.lines.await(t, 0, "pods were applied in part", "cause=\"changed files\"", "no such variable")
	password.Store("two")
	g.await(t, "two")
	_, end := r.lines.await(t, next, "pods applied", "cause=\"secrets that could not be used\"")
	if n := r.lines.count(next, end, "no such variable"); n > 0 {
		t.Errorf("%s: told %d times more", from, n)
	}
	if r.metric(lastReload) != "1" {
		t.Error("the reload counts as failed")
	}
}

// A secret changes while another manifest is invalid.
func TestChangedSecretIsUsedDespiteBrokenManifest(t *testing.T) {
	t.Parallel()
	g, dir := newGuarded(t), t.TempDir()
	file := filepath.Join(dir, "password")
	put(t, file, []byte("one"))
	good := g.pod("${file:"+file+"}", "20ms")
	r := start(t, good)
	path := r.manifest
	g.await(t, "one")
	write(t, path, good+"---\nkind: Pot\n")
	_, next := r.lines.await(t, 0, "manifests cannot be used", "Pot")
	put(t, file, []byte("two"))
	g.await(t, "two")
	r.lines.await(t, next, "manifests cannot be used", "Pot")
}

// Manifests that were refused because of a missing secret are applied once it exists.
func TestManifestIsAppliedOnceSecretExists(t *testing.T) {
	t.Parallel()
	g, dir := newGuarded(t), t.TempDir()
	file := filepath.Join(dir, "password")
	r := start(t, g.pod("one", "20ms"))
	path := r.manifest
	g.await(t, "one")
	write(t, path, g.pod("${file:"+file+"}", "20ms"))
	_, next := r.lines.await(t, 0, "manifests cannot be used", "pod.yaml:8: ", "no such file")
	put(t, file, []byte("two"))
	g.await(t, "two")
	r.lines.await(t, next, "pods applied")
}

// probe returns the agent's single probe.
func (r *running) probe() streamedProbe {
	r.t.Helper()
	var list struct{ Items []streamedProbe }
	r.get("/api/v1/probes", &list)
	if len(list.Items) != 1 {
		r.t.Fatalf("%d probes", len(list.Items))
	}
	return list.Items[0]
}

func link(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}
