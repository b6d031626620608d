package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/agent"
)

// A plugin that no probe uses any more is unloaded, with what runs beside it, and is there
// again for the next probe.
func TestAPluginThatIsNotUsedAnyMore(t *testing.T) {
	dir := t.TempDir()
	file, beside := filepath.Join(dir, "prober.yaml"), filepath.Join(dir, "next.wasm")
	put(t, beside, guestSpec{text: "v2", result: 2}.plugin("demo", "2.0.0"))
	put(t, file, []byte(configHead+"plugins: [{name: demo, shadow: true, source: next.wasm}]\n"))
	web := newTarget(t)
	r, events, _ := withPlugins(t, func(c *agent.Config) {
		c.ConfigFile = file
		agent.IdleAfter(c, 50*time.Millisecond)
	})
	pods := r.manifest
	next := 0
	for generation := 1; generation <= 3; generation++ {
		_, next = r.lines.await(t, next, "runs beside the one that decides", "version=2.0.0")
		if p := r.plugin(); p.State != "running" || p.Generation != generation || p.Shadow == nil {
			t.Errorf("got %+v", p)
		}
		write(t, pods, web.external("web"))
		_, next = r.lines.await(t, next, "plugin unloaded", "handler=demo", fmt.Sprint("generation=", generation))
		if p := r.plugin(); p.State != "unused" || p.Version != "1.0.0" || p.Probes != 0 || p.Error != "" || p.Shadow != nil {
			t.Errorf("got %+v", p)
		}
		if got := r.metric(`prober_plugin_trust_info{plugin="demo",trust="unchecked"}`); got != "" {
			t.Errorf("it is loaded still, by the metrics: %s", got)
		}
		write(t, pods, asks)
		awaitOutput(t, events, "v1")
	}
}

// However soon plugins are unloaded, each probe finds its own.
func TestAPluginIsUnloadedWhenItIsWanted(t *testing.T) {
	t.Parallel() // it waits for seconds
	r, events, _ := withPlugins(t, func(c *agent.Config) {
		c.PollInterval = time.Millisecond
		agent.IdleAfter(c, 1)
	})
	pods := r.manifest
	web := newTarget(t)
	for i := range 20 {
		write(t, pods, web.external("web"))
		awaitProbe(t, events, "the other probe", func(p *streamedProbe) bool { return p.Pod == "web" && p.Last != nil })
		name := fmt.Sprint("shop", i)
		write(t, pods, strings.Replace(asks, "name: shop", "name: "+name, 1))
		awaitProbe(t, events, "its attempt", func(p *streamedProbe) bool {
			if p.Pod == name && p.Last != nil && p.Last.Error != "" {
				t.Fatalf("got %s", p.Last.Error)
			}
			return p.Pod == name && p.Last != nil && p.Last.Output == "v1"
		})
	}
	if r.lines.has("level=ERROR") {
		t.Error("something went wrong")
	}
}

// What was wrong with a plugin that no manifest names any more is of no interest.
func TestAFailureOfAPluginThatIsNotUsedAnyMore(t *testing.T) {
	r, _, _ := withPlugins(t, func(c *agent.Config) {
		put(t, filepath.Join(c.PluginDirs[0], "broken.wasm"), guestSpec{trapsStart: true}.plugin("broken", "1.0.0"))
	})
	pods := r.manifest
	write(t, pods, strings.Replace(asks, "name: demo", "name: broken", 1))
	_, next := r.lines.await(t, 0, "plugins cannot all be used", "unreachable")
	if _, body := r.do("GET", "/readyz?verbose"); !strings.Contains(body, "[!]plugins failed") {
		t.Errorf("got %s", body)
	}
	write(t, pods, asks)
	r.lines.await(t, next, "plugins reloaded")
	if _, body := r.do("GET", "/readyz?verbose"); strings.Contains(body, "[!]") {
		t.Errorf("got %s", body)
	}
}

// A plugin that was withdrawn is forgotten with the last of its probes.
func TestAWithdrawnPluginThatNobodyUses(t *testing.T) {
	r, _, folder := withPlugins(t)
	pods := r.manifest
	if err := os.Remove(filepath.Join(folder, "demo.wasm")); err != nil {
		t.Fatal(err)
	}
	_, next := r.lines.await(t, 0, "plugin withdrawn")
	write(t, pods, newTarget(t).external("web"))
	r.lines.await(t, next, "plugin removed", "handler=demo")
	if _, body := r.do("GET", "/readyz?verbose"); strings.Contains(body, "demo") {
		t.Errorf("got %s", body)
	}
}

// What is wrong with a shadow is told, also when it is loaded because a probe came.
func TestABadShadowIsToldOfWhenAProbeComes(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	h := newHub(t)
	h.push(t, "1", guestSpec{text: "v1"}.plugin("demo", "1.0.0"))
	h.push(t, "2", guestSpec{trapsProbe: true}.plugin("demo", "2.0.0"))
	file := sourced(t, "oci://"+h.host+"/demo:1", "- name: demo\n  shadow: true\n  plainHTTP: true\n  source: oci://"+h.host+"/demo:2\n")
	r := start(t, asks, func(c *agent.Config) { c.ConfigFile, c.StateDir = file, t.TempDir() })
	r.lines.await(t, 0, "level=ERROR", "plugins cannot all be used", "unreachable")
	if _, body := r.do("GET", "/readyz?verbose"); !strings.Contains(body, "[!]plugins failed at ") {
		t.Errorf("got %s", body)
	}
}
