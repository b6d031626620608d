package agent_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
)

// demoPod is a pod with one probe of the plugin demo.
const demoPod = `apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations:
    prober.dev/probes: '{web: {readiness: {plugin: {name: demo, config: {a: 1}}, period: 20ms, timeout: 1m}}}'
spec:
  containers:
  - name: web
`

func TestBadModulesKeepLast(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "blackbox.yml")
	write(t, file, "modules: {ssh: {prober: tcp}}")
	r := start(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: shop}\nspec: {containers: [{name: web}]}\n", func(c *agent.Config) { c.BlackboxConfig = file })
	for _, c := range []struct {
		text   string
		status int
		metric string
	}{
		{"modules: {ssh: {prober: tpc}}", http.StatusInternalServerError, "0"},
		{"modules: {ssh: {prober: tcp, timeout: 1s}}", http.StatusOK, "1"},
	} {
		write(t, file, c.text)
		status, body := r.do("POST", "/-/reload")
		_, ready := r.do("GET", "/readyz?verbose")
		if bad := c.metric == "0"; strings.Contains(body, "blackbox.yml:1: modules.ssh: ") != bad || strings.Contains(ready, "[!]modules ") != bad {
			t.Errorf("%s: reload %q, readyz %s", c.text, body, ready)
		}
		if got := r.metric(lastReload); got != c.metric {
			t.Errorf("%s: %s %s; want %s", c.text, lastReload, got, c.metric)
		}
		if status != c.status {
			t.Errorf("%s: reload has the status %d; want %d", c.text, status, c.status)
		}
		if _, answer := r.do("GET", "/probe?module=ssh"); !strings.Contains(answer, "Target parameter is missing") {
			t.Errorf("%s: the module is gone: %s", c.text, answer)
		}
	}
}

// withPlugins starts an agent with a folder that has a plugin demo, whose output is v1. It returns the
// folder.
func withPlugins(t *testing.T, change ...func(*agent.Config)) (r *running, events <-chan event, folder string) {
	t.Helper()
	folder = t.TempDir()
	put(t, filepath.Join(folder, "demo.wasm"), guestSpec{text: "v1"}.plugin("demo", "1.0.0"))
	r = start(t, demoPod, append([]func(*agent.Config){func(c *agent.Config) { c.PluginDirs = []string{folder} }}, change...)...)
	events = r.stream()
	awaitOutput(t, events, "v1")
	return r, events, folder
}

// awaitOutput waits for a tick with this output.
func awaitOutput(t *testing.T, events <-chan event, text string) streamedProbe {
	t.Helper()
	return awaitProbe(t, events, text, func(p *streamedProbe) bool { return p.Last != nil && p.Last.Output == text })
}

// metric returns the value of a series in /metrics, "" if it does not exist.
func (r *running) metric(series string) string {
	r.t.Helper()
	_, text := r.do("GET", "/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func TestChangedPluginIsReplaced(t *testing.T) {
	t.Parallel()
	r, events, folder := withPlugins(t)
	before := awaitOutput(t, events, "v1")
	put(t, filepath.Join(folder, "demo.wasm"), guestSpec{text: "v2"}.plugin("demo", "2.0.0"))
	after := awaitOutput(t, events, "v2")
	if after.Run <= before.Run || after.Result != "success" || after.ContainerID != before.ContainerID {
		t.Errorf("got %+v after %+v: want what was counted to go on", after, before)
	}
	line, next := r.lines.await(t, 0, "plugin loaded", "handler=demo", "version=2.0.0", "generation=2", "probes=1")
	_, text := r.do("GET", "/metrics")
	if strings.Count(text, "prober_plugin_info{") != 1 || !strings.Contains(text, `version="2.0.0"`) {
		t.Errorf("%s in\n%s", line, text)
	}
	// A new file with the same content changes nothing, nor does a reload on request.
	put(t, filepath.Join(folder, "demo.wasm"), guestSpec{text: "v2"}.plugin("demo", "2.0.0"))
	if status, body := r.do("POST", "/-/reload"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	// A new file name changes nothing. An error of the file under that name is reported.
	moved := filepath.Join(folder, "moved.wasm")
	if err := os.Rename(filepath.Join(folder, "demo.wasm"), moved); err != nil {
		t.Fatal(err)
	}
	if status, body := r.do("POST", "/-/reload"); status != http.StatusOK || r.plugin().Path != moved {
		t.Errorf("%d %s, %s", status, body, r.plugin().Path)
	}
	put(t, moved, []byte("oops"))
	if status, body := r.do("POST", "/-/reload"); status != http.StatusInternalServerError || r.plugin().State != "running" {
		t.Errorf("%d %s", status, body)
	}
	put(t, moved, guestSpec{text: "v3"}.plugin("demo", "3.0.0"))
	awaitOutput(t, events, "v3")
	if line, _ := r.lines.await(t, next, "plugin loaded"); !strings.Contains(line, "generation=3") {
		t.Errorf("got %s", line)
	}
}

// A bad version is reported. The previous version stays in use, and the next version can be loaded.
func TestBadPluginChangesNothing(t *testing.T) {
	t.Parallel()
	r, events, folder := withPlugins(t)
	file, next := filepath.Join(folder, "demo.wasm"), 0
	for i, c := range []struct {
		name string
		bad  []byte
		want string
	}{
		{"does not compile", withManifest([]byte("\x00asm\x01\x00\x00\x00\x03\x02\x01\x07"), "apiVersion: prober.dev/v1\nname: demo\nversion: 9.0.0\n"), `plugin \"demo\": `},
		{"is no module", []byte("oops"), "not a WebAssembly module"},
		{"traps at its start", guestSpec{trapsStart: true}.plugin("demo", "9.0.0"), `plugin \"demo\": _initialize: wasm error: unreachable (` + file + ")"},
		{"traps when it is tried", guestSpec{trapsProbe: true}.plugin("demo", "9.0.0"), `plugin \"demo\": wasm error: unreachable (` + file + ")"},
		{"refuses a live config", guestSpec{refuse: 1}.plugin("demo", "9.0.0"), "the configs of 1 of 1 probes are refused: the plugin does not accept this config"},
		{"has another name", guestSpec{}.plugin("other", "9.0.0"), "is the file of the plugin \\\"demo\\\", which keeps running"},
		{"asks for a missing capability", guestSpec{}.plugin("demo", "9.0.0\nmode: pooled"), "mode"},
	} {
		t.Run(c.name, func(t *testing.T) {
			put(t, file, c.bad)
			_, told := r.lines.await(t, next, "level=ERROR", "some plugins cannot be used", c.want)
			if n := r.lines.count(next, told, "level=ERROR"); n != 1 {
				t.Errorf("it is told of in %d lines", n)
			}
			next = told
			good := fmt.Sprint("v", i+2)
			if status, body := r.do("GET", "/readyz?verbose"); status != http.StatusOK || !strings.Contains(body, "[!]plugins failed at ") {
				t.Errorf("%d %s", status, body)
			}
			if got := r.metric(`prober_plugin_last_reload_successful{plugin="demo"}`); got != "0" {
				t.Errorf("got %q", got)
			}
			if got := r.metric("prober_config_last_reload_successful"); got != "0" {
				t.Errorf("got %q", got)
			}
			if status, body := r.do("POST", "/-/reload"); status != http.StatusInternalServerError {
				t.Errorf("%d %s", status, body)
			}
			put(t, file, guestSpec{text: good}.plugin("demo", "1.0.1"))
			p := awaitOutput(t, events, good)
			_, next = r.lines.await(t, next, "plugins reloaded")
			for _, h := range p.History {
				if h.Result != "success" {
					t.Errorf("got %+v", p.History)
				}
			}
			if got := r.metric(`prober_plugin_last_reload_successful{plugin="demo"}`) + r.metric("prober_config_last_reload_successful"); got != "11" {
				t.Errorf("got %q", got)
			}
		})
	}
	if got := r.metric(`prober_attempt_errors_total{handler="demo",reason="trap"}`); got != "" {
		t.Errorf("%s attempts trapped", got)
	}
}

// The probes of a removed plugin have errors and keep their decided results, until the plugin is back.
func TestRemovedPluginIsWithdrawn(t *testing.T) {
	t.Parallel()
	r, events, folder := withPlugins(t)
	if err := os.Remove(filepath.Join(folder, "demo.wasm")); err != nil {
		t.Fatal(err)
	}
	const gone = `plugin "demo": it was withdrawn: its file or its source was removed`
	p := awaitProbe(t, events, "an error", func(p *streamedProbe) bool { return p.Last.Error == gone })
	if p.Result != "success" {
		t.Errorf("got %+v", p)
	}
	if _, body := r.do("GET", "/readyz?verbose"); !strings.Contains(body, "[!]plugin demo it was withdrawn") {
		t.Errorf("got %s", body)
	}
	if got := r.metric("prober_config_last_reload_successful"); got != "1" {
		t.Errorf("got %q", got)
	}
	put(t, filepath.Join(folder, "demo", "plugin.yaml"), []byte("apiVersion: prober.dev/v1\nname: demo\nversion: 3.0.0\n"))
	put(t, filepath.Join(folder, "demo", "x.wasm"), guestSpec{text: "v3"}.module())
	if p := awaitOutput(t, events, "v3"); p.Result != "success" {
		t.Errorf("got %+v", p)
	}
}

// Manifests that need a missing plugin wait for it.
func TestAddedPluginIsLoadedForWaitingManifests(t *testing.T) {
	t.Parallel()
	r, events, folder := withPlugins(t)
	path := r.manifest
	put(t, path, []byte(strings.Replace(demoPod, "name: demo", "name: new", 1)))
	_, next := r.lines.await(t, 0, "manifests cannot be used", `unknown handler \"new\"; known: `, " demo, ")
	put(t, filepath.Join(folder, "new.wasm"), guestSpec{text: "new"}.plugin("new", "1.0.0"))
	if p := awaitOutput(t, events, "new"); p.Handler != "new" {
		t.Errorf("got %+v", p)
	}
	r.lines.await(t, next, "pods applied")
	// No probe uses demo, so it is removed together with its metrics.
	if err := os.Remove(filepath.Join(folder, "demo.wasm")); err != nil {
		t.Fatal(err)
	}
	r.lines.await(t, next, "plugin removed", "handler=demo")
	if _, text := r.do("GET", "/metrics"); regexp.MustCompile(`prober_plugin_\w+\{[^}]*demo`).MatchString(text) && !strings.Contains(text, "prober_plugin_call_seconds") {
		t.Errorf("metrics of demo in\n%s", text)
	}
}

// A new entry of prober.yaml is applied to a running plugin.
func TestChangedConfigFileIsApplied(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "prober.yaml")
	const head = "apiVersion: prober.dev/v1\nkind: AgentConfig\n"
	put(t, file, []byte(head))
	r, events, folder := withPlugins(t, func(c *agent.Config) { c.ConfigFile = file })
	_, next := r.lines.await(t, 0, "generation=1")
	put(t, file, []byte(head+"totalMemory: 8Mi\nplugins: [{name: demo, limits: {message: 1}}]\n"))
	awaitOutput(t, events, "v")
	r.lines.await(t, next, "plugin loaded", "generation=2")
	good, err := os.ReadFile(filepath.Join(folder, "demo.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ bad, want string }{ // the last error is of the whole file
		{"plugins: [{name: demo, digest: 'sha256:" + strings.Repeat("0", 64) + "'}]\n", "plugins[0]: digest of " + filepath.Join(folder, "demo.wasm")},
		{"plugins: [{name: demo}, {name: absent}]\n", `plugins[1]: plugin \"absent\" is in none of the plugin folders`},
		{"plugins: 1\n", "must be a list"},
	} {
		put(t, file, []byte(head+c.bad))
		_, next = r.lines.await(t, next, "cannot be used; ", c.want)
	}
	if _, body := r.do("GET", "/readyz?verbose"); !strings.Contains(body, "[+]plugins ok\n[!]config failed at ") || !strings.Contains(body, "must be a list") {
		t.Errorf("got %s", body)
	}
	// A file that cannot be read is not reported as missing.
	put(t, filepath.Join(folder, "demo.wasm"), []byte("oops"))
	put(t, file, []byte(head+"plugins: [{name: demo}]\n"))
	line, _ := r.lines.await(t, next, "some plugins cannot be used", file+":3: plugins[0]: plugin "+filepath.Join(folder, "demo.wasm")+": ")
	if strings.Contains(line, "none of the plugin folders") {
		t.Errorf("got %s", line)
	}
	put(t, filepath.Join(folder, "demo.wasm"), good)
	put(t, file, []byte(head))
	awaitOutput(t, events, "v1")
}

// A plugin with a source is watched at its path, and withdrawn with its entry in prober.yaml.
func TestChangedSourceIsApplied(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, module := filepath.Join(dir, "prober.yaml"), filepath.Join(dir, "far", "x.wasm")
	const head = "apiVersion: prober.dev/v1\nkind: AgentConfig\n"
	put(t, file, []byte(head+"plugins: [{name: demo, source: far/x.wasm}]\n"))
	put(t, module, guestSpec{text: "v1"}.plugin("demo", "1.0.0"))
	r := start(t, demoPod, func(c *agent.Config) { c.ConfigFile = file })
	events := r.stream()
	awaitOutput(t, events, "v1")
	put(t, module, guestSpec{text: "v2"}.plugin("demo", "2.0.0"))
	awaitOutput(t, events, "v2")
	if err := os.Remove(module); err != nil { // an error, as its entry remains
		t.Fatal(err)
	}
	_, next := r.lines.await(t, 0, "some plugins cannot be used", "plugins[0]", "no such file")
	awaitOutput(t, events, "v2")
	put(t, file, []byte(head))
	r.lines.await(t, next, "plugin withdrawn", "handler=demo", "probes=1")
	if p := r.plugin(); p.State != "withdrawn" || p.Probes != 1 || p.Error == "" || p.Digest != "" {
		t.Errorf("got %+v", p)
	}
	put(t, module, guestSpec{text: "v3"}.plugin("demo", "3.0.0"))
	put(t, file, []byte(head+"plugins: [{name: demo, source: far/x.wasm}]\n"))
	awaitOutput(t, events, "v3")
}

// After a tick of a new version, the API and the metrics show that version, and no error of the old one.
func TestNewVersionIsInAPIBeforeItsFirstTick(t *testing.T) {
	t.Parallel()
	r, events, folder := withPlugins(t)
	file, next := filepath.Join(folder, "demo.wasm"), 0
	for i := range 3 {
		put(t, file, []byte("oops"))
		_, next = r.lines.await(t, next, "some plugins cannot be used")
		text, version := fmt.Sprint("w", i), fmt.Sprintf("2.0.%d", i)
		put(t, file, guestSpec{text: text}.plugin("demo", version))
		awaitOutput(t, events, text)
		if p := r.plugin(); p.Version != version || p.Generation != i+2 || p.Error != "" || p.State != "running" {
			t.Errorf("got %+v, want %s", p, version)
		}
		if got := r.metric(`prober_plugin_last_reload_successful{plugin="demo"}`); got != "1" {
			t.Errorf("got %q", got)
		}
		if _, text := r.do("GET", "/metrics"); strings.Count(text, "prober_plugin_info{") != 1 || !strings.Contains(text, `version="`+version+`"`) {
			t.Errorf("no %s in\n%s", version, text)
		}
	}
}
