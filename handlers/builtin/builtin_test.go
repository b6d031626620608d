package builtin_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/builtin/execprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

func TestMain(m *testing.M) {
	if os.Getenv(serveTargets) != "" { // this is the server process of a benchmark
		if err := runTargets(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// execHandler returns an exec handler with runner and a command.
func execHandler(t testing.TB, runner builtin.CommandRunner, command ...string) probe.Handler {
	t.Helper()
	h, err := builtin.NewExec(builtin.Config{Runner: runner})
	if err != nil {
		t.Fatal(err)
	}
	bound, err := h.Bind(execprobe.Action{Command: command})
	if err != nil {
		t.Fatal(err)
	}
	return bound
}

func TestRegister(t *testing.T) {
	t.Run("#86 all four handlers are registered", func(t *testing.T) {
		var reg handlers.Registry
		if err := builtin.Register(&reg, builtin.Config{Runner: &builtin.HostRunner{}}); err != nil {
			t.Fatal(err)
		}
		if got, want := reg.Names(), []string{"exec", "grpc", "http", "tcp"}; !slices.Equal(got, want) {
			t.Fatalf("names %v, want %v", got, want)
		}
		h, err := reg.Prepare("exec", []byte(`{"command":["echo","ran"]}`), probe.Target{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := rig.Attempt(t, h, probe.Request{}, time.Minute)
		rig.Want(t, got, err, probe.Success, "ran\n")
	})
	t.Run("no runner", func(t *testing.T) {
		err := builtin.Register(new(handlers.Registry), builtin.Config{})
		if err == nil || !strings.Contains(err.Error(), "CommandRunner") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("name is taken", func(t *testing.T) {
		var reg handlers.Registry
		if err := reg.Register("tcp", "a test", builtin.NewTCP(builtin.Config{})); err != nil {
			t.Fatal(err)
		}
		err := builtin.Register(&reg, builtin.Config{Runner: &builtin.HostRunner{}})
		if err == nil || !strings.Contains(err.Error(), "a test") {
			t.Errorf("got %v", err)
		}
	})
}

func TestPrepareErrorsNameTheField(t *testing.T) {
	cfg := builtin.Config{Runner: &builtin.HostRunner{}}
	execHandler, err := builtin.NewExec(cfg)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]probe.Preparer{
		"exec": execHandler,
		"http": builtin.NewHTTP(cfg),
		"tcp":  builtin.NewTCP(cfg),
		"grpc": builtin.NewGRPC(cfg),
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for config, text := range map[string]string{
			`{"nonsense":1}`: "nonsense",
			`[]`:             "config",
			`{} {}`:          "more than one",
			``:               "config",
		} {
			if _, err := all[name].Prepare([]byte(config), probe.Target{}); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s %s: %v; want an error with %q", name, config, err, text)
			}
		}
	}
	for _, c := range []struct{ name, config, text string }{
		{"exec", `{}`, "command"},
		{"exec", `{"command":"ls"}`, "command"},
		{"http", `{"port":80,"scheme":"gopher"}`, `scheme: unknown scheme "gopher"`},
		{"http", `{"port":80,"protocol":"HTTP3"}`, `protocol: unknown protocol "HTTP3"`},
		{"http", `{"port":80,"protocol":"HTTP2","scheme":"HTTPS"}`, "protocol: HTTP2 is for scheme HTTP"},
		{"http", `{"port":80,"protocol":"HTTP2","host":"elsewhere"}`, "host: must be empty"},
		{"grpc", `{"port":80,"mode":"mTLS"}`, `mode: unknown mode "mTLS"`},
		{"grpc", `{"port":"name"}`, "port"},
	} {
		if _, err := all[c.name].Prepare([]byte(c.config), probe.Target{}); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s %s: %v; want an error with %q", c.name, c.config, err, c.text)
		}
	}
	if _, err := execHandler.Probe(t.Context(), probe.Request{}); err == nil {
		t.Error("exec without a command: no error")
	}
}
