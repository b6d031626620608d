package docstest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
)

var fenced = regexp.MustCompile("(?s)```(\\w+)\n(.*?)```")

// blocks returns the fenced blocks of a language in a Markdown file.
func blocks(t *testing.T, file, language string) (found []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range fenced.FindAllStringSubmatch(string(text), -1) {
		if m[1] == language {
			found = append(found, m[2])
		}
	}
	return found
}

// TestReadmePluginBuilds builds the README's plugin with the stock toolchain.
func TestReadmePluginBuilds(t *testing.T) {
	atRoot(t)
	source := blocks(t, "README.md", "go")[0]
	if !strings.HasPrefix(source, "package main") {
		t.Fatalf("the first Go block of the README is not the plugin:\n%s", source)
	}
	dir, root := t.TempDir(), abs(t, ".")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("main.go", source)
	write("go.mod", "module gearman\n\ngo 1.26.0\n\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+root+"\n")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", "gearman.wasm", ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=-mod=mod")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func abs(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReadmePodIsValid reads the README's pod as strictly as `prober run` does.
func TestReadmePodIsValid(t *testing.T) {
	atRoot(t)
	for _, text := range blocks(t, "README.md", "yaml") {
		var pod v1.Pod
		if err := yaml.UnmarshalStrict([]byte(text), &pod); err != nil {
			t.Fatal(err)
		}
		if errs := declared.ValidatePod(&pod); len(errs) > 0 {
			t.Error(errs.ToAggregate())
		}
		configs, errs := declared.ProbesOf(&pod)
		if len(configs) != 2 || len(errs) > 0 {
			t.Errorf("got %d probes and errors %v, want 2 probes", len(configs), errs)
		}
	}
}

// blockPreamble declares what the Go blocks of the documents use without declaring it.
const blockPreamble = `package blocks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/endpoint"
	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/builtin/execprobe"
	"github.com/daeace23/prober/handlers/builtin/grpcprobe"
	"github.com/daeace23/prober/handlers/builtin/httpprobe"
	"github.com/daeace23/prober/handlers/builtin/tcpprobe"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/handlers/shipped"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

var (
	ctx      context.Context
	version  string
	mux      *http.ServeMux
	dialer   net.Dialer
	pod      *v1.Pod
	status   v1.PodStatus
	store    manager.StatusStore
	source   manager.StatusSource
	recorder manager.Recorder
	registry handlers.Registry
	host     *wasm.Host
	g        *group.Group[string]
	set      *endpoint.Set[string]
	m        *manager.Manager
	tcp      *tcpprobe.Handler
	backlog  probe.Handler
	h        probe.Handler
)
`

// TestGoBlocksCompile compiles the shorter Go blocks of the documents. Their variables and imports
// may be unused.
func TestGoBlocksCompile(t *testing.T) {
	atRoot(t)
	source, count := blockPreamble, 0
	files, err := filepath.Glob("docs/embed/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append([]string{"README.md"}, files...) {
		for _, block := range blocks(t, file, "go") {
			if strings.HasPrefix(block, "package") || strings.HasPrefix(block, "Probe(") || strings.HasPrefix(block, "func ") {
				continue
			}
			count++
			source += fmt.Sprintf("\nfunc _() {\n//line %s-block-%d:1\n%s\n}\n", file, count, block)
		}
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	replace := map[string]map[string]string{"Replace": {abs(t, "docs/blocks/blocks.go"): write("blocks.go", source)}}
	overlay, err := json.Marshal(replace)
	if err != nil {
		t.Fatal(err)
	}
	// The compiler reports all errors, also those of unused variables.
	out, err := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-e", "-overlay", write("overlay.json", string(overlay)), "./docs/blocks").CombinedOutput()
	compiled := err == nil
	for line := range strings.Lines(string(out)) {
		switch {
		case strings.Contains(line, "declared and not used"), strings.Contains(line, "imported and not used"):
			compiled = true
		case strings.HasPrefix(line, "#"): // the name of the package
		default:
			t.Error(strings.TrimSpace(line))
		}
	}
	if !compiled || count < 10 {
		t.Errorf("%d blocks were found, want at least 10, and compiled: %t", count, compiled)
	}
}

// TestExamplesNameTheirModules keeps `prober plugin build DIR && prober plugin test DIR`
// working for the example plugins: their cases name the module that build writes.
func TestExamplesNameTheirModules(t *testing.T) {
	atRoot(t)
	manifests, err := filepath.Glob("examples/plugins/*/plugin.yaml")
	if err != nil || len(manifests) == 0 {
		t.Fatalf("no plugins: %v", err)
	}
	for _, path := range manifests {
		dir := filepath.Dir(path)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := plugin.ParseManifest(path, text)
		if err != nil {
			t.Fatal(err)
		}
		files, err := plugintest.Find([]string{dir})
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			cases, err := plugintest.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Join(dir, manifest.Name+".wasm"); cases.Plugin != want {
				t.Errorf("%s is about %s, want %s", file, cases.Plugin, want)
			}
		}
	}
}
