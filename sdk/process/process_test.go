package process_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// build builds testdata/both.
func build(t *testing.T, env []string, args ...string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	cmd := exec.Command("go", append(append([]string{"build", "-o", out}, args...), "./testdata/both")...)
	cmd.Env = append(os.Environ(), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// listen returns a target that accepts connections.
func listen(t *testing.T) probe.Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return probe.Target{Host: "127.0.0.1", Port: number}
}

func TestGuestAndProcessOfOneSourceAgree(t *testing.T) {
	data, err := os.ReadFile("testdata/both/plugin.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := plugin.ParseManifest("plugin.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	guest, err := plugin.ParseGrants([]string{"kv"})
	if err != nil {
		t.Fatal(err)
	}
	host, err := wasm.New(wasm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	module, err := host.Load(t.Context(), plugin.Found{
		Manifest: manifest, Module: build(t, []string{"GOOS=wasip1", "GOARCH=wasm"}, "-buildmode=c-shared"), Grants: guest,
	})
	if err != nil {
		t.Fatal(err)
	}
	program, err := process.Load(t.Context(), process.Config{}, plugin.Found{Manifest: manifest, Module: build(t, nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	target := listen(t)
	var said [2][]string
	for i, p := range []probe.Preparer{module, program} {
		said[i] = tell(t, p, target)
	}
	if diff := cmp.Diff(said[0], said[1]); diff != "" {
		t.Errorf("the guest and the process differ (-guest +process):\n%s", diff)
	}
}

// tell returns all answers of a plugin.
func tell(t *testing.T, p probe.Preparer, target probe.Target) (said []string) {
	t.Helper()
	if _, err := p.Prepare([]byte(`{"most":-1}`), target); err == nil {
		t.Error("a bad config is taken")
	} else {
		said = append(said, err.Error())
	}
	h, err := p.Prepare([]byte(`{"most":2}`), target)
	if err != nil {
		t.Fatal(err)
	}
	none := target
	none.Port = 1
	for _, target := range []probe.Target{target, target, target, none} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		req := probe.Request{
			Attempt: 1, Target: target, PodIP: target.Host, Spec: probe.Spec{Timeout: time.Minute},
			Debug: true, Trace: func(e probe.TraceEvent) {
				if e.Type == probe.TraceLog {
					said = append(said, e.Name+": "+e.Detail)
				}
			},
		}
		out, err := h.Probe(ctx, req)
		cancel()
		if err != nil {
			t.Error(err)
		}
		said = append(said, out.Result.String()+": "+out.Output)
		for _, m := range out.Metrics {
			said = append(said, m.Name+"="+strconv.FormatFloat(m.Value, 'g', -1, 64))
		}
	}
	return said
}

func TestGuestDoesNotImportProcess(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "./testdata/both")
	list.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"go-plugin", "google.golang.org", "sdk/process", "net/http"} {
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, other) && !strings.Contains(line, "testdata") {
				t.Errorf("a guest imports %s", strings.TrimSpace(line))
			}
		}
	}
	if !strings.Contains(string(out), "prober/sdk\n") {
		t.Errorf("it imports no SDK: %s", out)
	}
}
