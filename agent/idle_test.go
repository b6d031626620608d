package agent_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/agent"
)

// A plugin that no probe uses is unloaded with its shadow. The next probe loads it again.
func TestUnusedPluginIsUnloadedAndLoadedAgain(t *testing.T) {
	t.Parallel()
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
		write(t, pods, demoPod)
		awaitOutput(t, events, "v1")
	}
}

// Plugins are unloaded as soon as no probe uses them, while new probes come.
func TestProbeDuringUnloadFindsPlugin(t *testing.T) {
	t.Parallel()
	r, events, _ := withPlugins(t, func(c *agent.Config) {
		c.PollInterval = time.Millisecond
		agent.IdleAfter(c, 1)
	})
	pods := r.manifest
	web := newTarget(t)
	for i := range 5 {
		write(t, pods, web.external("web"))
		awaitProbe(t, events, "the other probe", func(p *streamedProbe) bool { return p.Pod == "web" && p.Last != nil })
		name := fmt.Sprint("shop", i)
		write(t, pods, strings.Replace(demoPod, "name: shop", "name: "+name, 1))
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
