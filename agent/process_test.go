package agent_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/agent"
)

// goEnvironment is the environment in which the go command finds its build cache: tests change
// XDG_CACHE_HOME.
var goEnvironment []string

// programs has the process plugins built for tests. They are removed after the last test.
var programs struct {
	once sync.Once
	dir  string
	err  error
}

// program returns the path of the plugin in a folder of this repository. It builds it once.
func program(t *testing.T, folder string) string {
	t.Helper()
	programs.once.Do(func() {
		if programs.dir, programs.err = os.MkdirTemp("", "prober-test"); programs.err != nil {
			return
		}
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", programs.dir+"/", "../handlers/process/testdata/plugin", "./testdata/parting")
		build.Env = goEnvironment
		if out, err := build.CombinedOutput(); err != nil {
			programs.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if programs.err != nil {
		t.Fatal(programs.err)
	}
	return filepath.Join(programs.dir, folder)
}

// install copies the program of a folder into dir as the plugin called name.
func install(t *testing.T, folder, dir, name string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "prober-plugin-"+name)
	data, err := os.ReadFile(program(t, folder))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, path+".yaml", "apiVersion: prober.dev/v1\nname: "+name+"\nversion: 1.0.0\n")
	return path
}

// processFolder returns a folder with the process plugin "tester".
func processFolder(t *testing.T) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	return dir, install(t, "plugin", dir, "tester")
}

func TestProcessPluginRuns(t *testing.T) {
	t.Parallel()
	folder, path := processFolder(t)
	pod := strings.ReplaceAll(trapped, "{name: trap}", "{name: tester, config: {mode: warning}}")
	r := start(t, pod, func(c *agent.Config) { c.PluginDirs = []string{folder} })
	events := r.stream()
	awaitOutput(t, events, "nearly full")
	_, text := r.do("GET", "/metrics")
	for _, want := range []string{
		`prober_plugin_info{digest="sha256:`, `name="tester",runtime="process",version="1.0.0"} 1`, `prober_plugin_instances{plugin="tester",state="`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	// A program that others can write to is not loaded; the previous version stays.
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	r.do("POST", "/-/reload")
	r.lines.await(t, 0, "level=ERROR", "is writable to others")
	awaitOutput(t, events, "nearly full")
}

// A plugin that crashes at each attempt is restarted with growing pauses.
func TestCrashingPluginDelaysNoOtherProbe(t *testing.T) {
	t.Parallel()
	folder, _ := processFolder(t)
	pod := `apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations:
    prober.dev/probes: |
      web: {readiness: {plugin: {name: tester, config: {mode: die}}, period: 20ms, timeout: 1m}}
      api: {readiness: {exec: {command: ["true"]}, period: 50ms, timeout: 1m}}
spec:
  containers:
  - name: web
  - name: api
`
	r := start(t, pod, func(c *agent.Config) { c.PluginDirs = []string{folder} })
	events := r.stream()
	last := time.Now()
	seen := 0
	awaitProbe(t, events, "a pause of the plugin, and twenty attempts of the other probe", func(p *streamedProbe) bool {
		if p.Last == nil {
			return false
		}
		switch p.Container {
		case "web":
			seen |= bit(strings.Contains(p.Last.Error, "exit status 2: panic: in a goroutine"), 1)
			seen |= bit(strings.Contains(p.Last.Error, "it is started again in "), 2)
		case "api":
			if gap := p.Last.Time.Sub(last); gap > 30*time.Second {
				t.Errorf("the other probe was not carried out for %v", gap)
			}
			last = p.Last.Time
			return seen == 3 && p.Run > 20
		}
		return false
	})
}

func bit(is bool, bit int) int {
	if is {
		return bit
	}
	return 0
}

// prober.yaml has the path of a program. The manifest beside the program is watched too.
func TestManifestBesideProgramIsWatched(t *testing.T) {
	t.Parallel()
	_, path := processFolder(t)
	config := filepath.Join(t.TempDir(), "prober.yaml")
	write(t, config, "apiVersion: prober.dev/v1\nkind: AgentConfig\nplugins: [{name: tester, source: "+path+"}]\n")
	pod := strings.ReplaceAll(trapped, "{name: trap}", "{name: tester, config: {mode: warning}}")
	r := start(t, pod, func(c *agent.Config) { c.ConfigFile = config })
	awaitOutput(t, r.stream(), "nearly full")
	write(t, path+".yaml", "apiVersion: prober.dev/v1\nname: tester\nversion: 1.0.0\nerrorPolicy: failure\n")
	r.lines.await(t, 0, "plugin loaded", "generation=2")
}

// All processes are asked to end at the same time, so that each has its full grace period.
func TestStopEndsProcessPluginsTogether(t *testing.T) {
	t.Parallel()
	folder, dir := t.TempDir(), t.TempDir()
	var pods strings.Builder
	for _, name := range []string{"one", "two"} {
		install(t, "parting", folder, name)
		pods.WriteString("---\n" + strings.NewReplacer("name: shop", "name: "+name, "name: demo, config: {a: 1}", "name: "+name+", config: {dir: "+dir+"}").Replace(demoPod))
	}
	r := start(t, pods.String(), func(c *agent.Config) { c.PluginDirs = []string{folder} })
	events := r.stream()
	for _, name := range []string{"one", "two"} {
		awaitProbe(t, events, "an answer of "+name, func(p *streamedProbe) bool { return p.Pod == name && p.Last != nil && p.Last.Output == "here" })
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"one", "two"} {
		if _, err := os.Stat(filepath.Join(dir, name+".parted")); err != nil {
			t.Errorf("plugin %s: %v", name, err)
		}
	}
}
