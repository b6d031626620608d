package builtin_test

import (
	"context"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
)

// escape is what the test binary does if BUILTIN_TEST_ESCAPE is set; nil on systems whose tests do
// not need it.
var escape func()

func TestMain(m *testing.M) {
	if escape != nil && os.Getenv("BUILTIN_TEST_ESCAPE") != "" {
		escape()
		return
	}
	goleak.VerifyTestMain(m)
}

// prepare binds p to config.
func prepare(t testing.TB, p probe.Preparer, config string) probe.Handler {
	t.Helper()
	h, err := p.Prepare([]byte(config), probe.Target{})
	if err != nil {
		t.Fatalf("prepare %s: %v", config, err)
	}
	return h
}

// attempt makes one attempt with a deadline.
func attempt(t testing.TB, h probe.Handler, req probe.Request, timeout time.Duration) (probe.Outcome, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	req.Spec.Timeout = timeout
	return h.Probe(ctx, req)
}

// want checks the result and output of an attempt that must not be an error.
func want(t testing.TB, got probe.Outcome, err error, result probe.Result, output string) {
	t.Helper()
	if err != nil || got.Result != result || got.Output != output {
		t.Errorf("got %v, output %q, error %v; want %v, output %q", got.Result, got.Output, err, result, output)
	}
}

func wantReason(t testing.TB, got probe.Outcome, reason probe.Reason) {
	t.Helper()
	if got.Reason != reason {
		t.Errorf("reason %q, want %q (output %q)", got.Reason, reason, got.Output)
	}
}

// serve starts an HTTP server on loopback and returns it with its port.
func serve(t testing.TB, h http.HandlerFunc) (s *httptest.Server, port int) {
	t.Helper()
	s = httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // clients close connections on purpose
	s.Start()
	t.Cleanup(s.Close)
	return s, portOf(t, s.Listener.Addr())
}

func portOf(t testing.TB, a net.Addr) int {
	t.Helper()
	_, text, err := net.SplitHostPort(a.String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// scriptedRunner is a CommandRunner with one answer.
type scriptedRunner struct {
	output string
	err    error

	mu        sync.Mutex
	container string
	command   []string
	timeout   time.Duration
}

func (r *scriptedRunner) RunInContainer(_ context.Context, id string, cmd []string, timeout time.Duration) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.container, r.command, r.timeout = id, cmd, timeout
	return []byte(r.output), r.err
}

func TestRegister(t *testing.T) {
	t.Run("#86 all four handlers are registered", func(t *testing.T) {
		var reg handlers.Registry
		runner := &scriptedRunner{output: "ran"}
		if err := builtin.Register(&reg, builtin.Config{Runner: runner}); err != nil {
			t.Fatal(err)
		}
		if got, want := reg.Names(), []string{"exec", "grpc", "http", "tcp"}; !slices.Equal(got, want) {
			t.Fatalf("names %v, want %v", got, want)
		}
		h, err := reg.Prepare("exec", []byte(`{"command":["x"]}`), probe.Target{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := attempt(t, h, probe.Request{}, time.Minute)
		want(t, got, err, probe.Success, "ran")
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
		err := builtin.Register(&reg, builtin.Config{Runner: &scriptedRunner{}})
		if err == nil || !strings.Contains(err.Error(), "a test") {
			t.Errorf("got %v", err)
		}
	})
}

func TestPrepareErrorsNameTheField(t *testing.T) {
	cfg := builtin.Config{Runner: &scriptedRunner{}}
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
