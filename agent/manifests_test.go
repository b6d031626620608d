package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent"
)

func TestChangedManifestsAreApplied(t *testing.T) {
	t.Parallel()
	web := newTarget(t)
	path := filepath.Join(t.TempDir(), "pods.yaml")
	write(t, path, web.external("one"))
	r := start(t, "", func(c *agent.Config) { c.Source = fromFiles(0, path) })
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
	r.lines.await(t, next, "pods applied", `cause="changed files"`, "pods=1")
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

// keepChanging replaces the file at path periodically, until the test ends or stop is called.
func keepChanging(t *testing.T, path, text string, every time.Duration) (stop func()) {
	t.Helper()
	ended := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
				t.Error(err)
			}
			select {
			case <-tick.C:
			case <-ended:
				return
			}
		}
	})
	stop = sync.OnceFunc(func() {
		close(ended)
		writing.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// Applying several hundred pods takes longer than the time between two changes of the file.
func TestManifestsThatKeepChangingAreApplied(t *testing.T) {
	t.Parallel()
	web := newTarget(t)
	r := start(t, web.external("one"), func(c *agent.Config) { c.PollInterval = time.Millisecond })
	pods := r.manifest
	var many strings.Builder
	for i := range 300 {
		many.WriteString("---\n" + strings.ReplaceAll(web.external(fmt.Sprint("pod", i)), "period: 20ms", "period: 1h"))
	}
	stop := keepChanging(t, pods, many.String(), 5*time.Millisecond)
	_, next := r.lines.await(t, 0, "pods applied", "pods=300")
	r.reload() // also on request
	r.lines.await(t, next, "pods applied", "pods=300", "cause=request")
	stop()
}

// Manifests that keep changing and need a hanging plugin are abandoned once. The second time, the agent waits
// for the 5 s limit of the plugin's validator and reports the error.
func TestManifestsThatKeepChangingReportHangingPlugin(t *testing.T) {
	t.Parallel()
	folder, _ := processFolder(t)
	r := start(t, newTarget(t).external("one"), func(c *agent.Config) { c.PluginDirs = []string{folder} })
	pods := r.manifest
	stop := keepChanging(t, pods, slowly(1), 200*time.Millisecond)
	r.lines.await(t, 0, "manifests cannot be used", "does not say within 5s whether it takes a config")
	stop()
}

func TestMetricsOfRemovedPodAreRemoved(t *testing.T) {
	t.Parallel()
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
	r := start(t, "", func(c *agent.Config) { c.Source = fromFiles(time.Millisecond, path) })
	events := r.stream()
	r.lines.await(t, 0, "container restarted", "pod=job", "container=main", "cause=exit", "count=1", "exitCode=1")
	const series = `prober_restarts_total{container="main",kind="exit",namespace="default",pod="job"}`
	if _, body := r.do("GET", "/metrics"); !strings.Contains(body, series) {
		t.Error("no restart is counted")
	}
	awaitEvent(t, events, "pod", "the pod", func(pod *v1.Pod) bool { return pod.Name == "job" }) // otherwise its removal is not streamed
	write(t, path, "{apiVersion: v1, kind: List, items: []}")
	awaitEvent(t, events, "pod", "the pod is gone", func(pod *struct{ Removed bool }) bool { return pod.Removed })
	if _, body := r.do("GET", "/metrics"); strings.Contains(body, series) {
		t.Error("the restarts of a pod that is gone are still counted")
	}
}

// A pod waits for its predecessor to end. Meanwhile its plugin is replaced by a version that rejects the
// pod's config. The next version accepts it.
func TestRefusedProbeOfDelayedPodIsRetriedWithNextPlugin(t *testing.T) {
	t.Parallel()
	goOn := filepath.Join(t.TempDir(), "go")
	const annotation = "  annotations: {prober.dev/probes: '{main: {readiness: {plugin: {name: demo}, period: 20ms, timeout: 1m}}}'}\n"
	pod := func(annotation string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: late\n" + annotation + "spec:\n  containers:\n  - name: main\n    command: [sh, -c, " +
			"'trap \"until test -e " + goOn + "; do sleep 0.01; done; exit\" TERM; echo armed; while :; do sleep 0.01; done']\n  terminationGracePeriodSeconds: 600\n"
	}
	web := newTarget(t).external("web")
	said := newLines()
	r, events, folder := withPlugins(t, func(c *agent.Config) { c.Stdout = said })
	pods := r.manifest
	write(t, pods, pod(""))
	said.await(t, 0, "armed")
	write(t, pods, web)
	_, next := r.lines.await(t, 0, "pods applied", `cause="changed files"`)
	_, next = r.lines.await(t, next, "pods applied")
	write(t, pods, web+"---\n"+pod(annotation)) // while its predecessor ends
	_, next = r.lines.await(t, next, "pods applied", "pods=2")
	put(t, filepath.Join(folder, "demo.wasm"), guestSpec{text: "v2", refuse: 1}.plugin("demo", "2.0.0"))
	_, next = r.lines.await(t, next, "plugin loaded", "version=2.0.0")
	write(t, goOn, "")
	_, next = r.lines.await(t, next, "pods were applied in part", "the plugin does not accept this config")
	put(t, filepath.Join(folder, "demo.wasm"), guestSpec{text: "v3"}.plugin("demo", "3.0.0"))
	awaitProbe(t, events, "its first attempt", func(p *streamedProbe) bool {
		return p.Pod == "late" && p.Last != nil && p.Last.Output == "v3"
	})
	r.lines.await(t, next, "pods applied", "pods=2")
}

func TestSignalReloads(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal)
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.Reload, c.PollInterval = signals, time.Hour })
	signals <- os.Interrupt // any signal
	r.lines.await(t, 0, "pods applied", "cause=signal")
}

func TestNotifyIsCalledForEachStep(t *testing.T) {
	t.Parallel()
	signals, steps := make(chan os.Signal), make(chan agent.Step, 10)
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) {
		c.Reload, c.Notify = signals, func(s agent.Step) { steps <- s }
	})
	next := func(want agent.Step) {
		t.Helper()
		if got := <-steps; got != want {
			t.Errorf("got step %d, want %d", got, want)
		}
	}
	next(agent.Ready)
	if code, text := r.do("GET", "/readyz"); code != http.StatusOK {
		t.Errorf("told as ready, and answers %d: %s", code, text)
	}
	signals <- os.Interrupt // any signal
	next(agent.Reloading)
	next(agent.Ready)
	if d := r.agent.Stalled(); d > time.Minute {
		t.Errorf("stalled for %v", d)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	next(agent.Stopping)
}

// allowing writes a prober.yaml that allows the secrets that match patterns.
func allowing(t *testing.T, patterns ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "prober.yaml")
	list, err := json.Marshal(patterns)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, fmt.Sprintf("apiVersion: prober.dev/v1\nkind: AgentConfig\nsecrets: {allow: %s}\n", list))
	return path
}

func TestSecretsAreResolvedAndRedacted(t *testing.T) {
	t.Parallel()
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

func TestNewBadFileIsError(t *testing.T) {
	t.Parallel()
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
		{"no manifests", pod("{}"), func(c *agent.Config) { c.Source = fromFiles(0) }, "no manifests given"},
		{"unknown plugin", pod("{web: {readiness: {plugin: {name: htpp}}}}"), nil, `(did you mean "http"?)`},
		{"place of an unknown plugin", pod("{web: {readiness: {plugin: {name: nosuch}}}}"), nil, `[web].readiness: unknown handler "nosuch"`},
		{"unknown secret", pod("{web: {readiness: {exec: {command: [\"${env:NOPE}\"]}}}}"), func(c *agent.Config) { c.ConfigFile = allowing(t, "env:NOPE") }, "${env:NOPE}: the agent has no such variable"},
		{"secret without an allow-list", pod("{web: {readiness: {exec: {command: [\"${file:/etc/shadow}\"]}}}}"), nil,
			`${file:/etc/shadow}: not allowed: add "file:/etc/shadow" to secrets.allow in a prober.yaml for --config`},
		{"no such file", pod("{}"), func(c *agent.Config) { c.Source = fromFiles(0, "/nosuch.yaml") }, "/nosuch.yaml: "},
		{"no such plugin folder", pod("{}"), func(c *agent.Config) { c.PluginDirs = []string{"/nosuch"} }, "/nosuch"},
		{"cut module", pod("{}"), func(c *agent.Config) { c.PluginDirs = []string{folder} }, filepath.Join(folder, "cut.wasm")},
		{"no such config", pod("{}"), func(c *agent.Config) { c.ConfigFile = "/nosuch.yaml" }, "/nosuch.yaml"},
		{"plugin of the config", pod("{}"), func(c *agent.Config) { c.ConfigFile = bad }, bad + `:3: plugins[0]: plugin "nosuch" is in none of the plugin folders`},
		{"signatures fail closed", pod("{}"), func(c *agent.Config) { c.ConfigFile = closed }, closed + `:3: trust: key: open ` + filepath.Join(filepath.Dir(closed), "a.pub")},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pod.yaml")
			write(t, path, c.manifest)
			cfg := agent.Config{Source: fromFiles(0, path), Listen: "127.0.0.1:0", Stderr: io.Discard}
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
