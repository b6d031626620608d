package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/probe"
)

// fake is a handler that records the arguments of Prepare.
type fake struct {
	config string
	target probe.Target
	closed *[]string
	name   string
}

func (f *fake) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	return probe.Outcome{Result: probe.Success, Output: f.config}, nil
}

func (f *fake) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	if strings.Contains(string(config), "bad") {
		return nil, errors.New("bad: unknown field")
	}
	return &fake{config: string(config), target: target}, nil
}

func (f *fake) Close() error {
	*f.closed = append(*f.closed, f.name)
	if f.name == "b" {
		return errors.New("stuck")
	}
	return nil
}

// plain is a handler without a config.
var plain = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
	return probe.Outcome{Result: probe.Success}, nil
})

func registry(t *testing.T, names ...string) *handlers.Registry {
	t.Helper()
	var reg handlers.Registry
	for _, name := range names {
		if err := reg.Register(name, "a test", plain); err != nil {
			t.Fatal(err)
		}
	}
	return &reg
}

func TestRegister(t *testing.T) {
	reg := registry(t, "tcp")
	for _, c := range []struct {
		name    string
		handler probe.Handler
		want    string
	}{
		{"tcp", plain, `handler "tcp" of /plugins/tcp.wasm: the name is taken by a test`},
		{"", plain, `register handler "" of /plugins/tcp.wasm: a name and a handler are required`},
		{"udp", nil, `register handler "udp" of /plugins/tcp.wasm: a name and a handler are required`},
	} {
		if err := reg.Register(c.name, "/plugins/tcp.wasm", c.handler); err == nil || err.Error() != c.want {
			t.Errorf("%q: got %v, want %s", c.name, err, c.want)
		}
	}
	if got := reg.Names(); !slices.Equal(got, []string{"tcp"}) {
		t.Errorf("names %v", got)
	}
}

func TestLookup(t *testing.T) {
	reg := registry(t, "tcp", "http", "grpc", "exec")
	if h, err := reg.Lookup("http"); err != nil || h == nil {
		t.Errorf("http: %v, %v", h, err)
	}
	for name, want := range map[string]string{
		"htp":   `unknown handler "htp"; known: exec, grpc, http, tcp (did you mean "http"?)`,
		"grpcs": `unknown handler "grpcs"; known: exec, grpc, http, tcp (did you mean "grpc"?)`,
		"redis": `unknown handler "redis"; known: exec, grpc, http, tcp`,
		"":      `no handler named; known: exec, grpc, http, tcp`,
	} {
		if _, err := reg.Lookup(name); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", name, err, want)
		}
	}
}

func TestPrepare(t *testing.T) {
	reg := registry(t, "plain")
	if err := reg.Register("fake", "a test", &fake{}); err != nil {
		t.Fatal(err)
	}
	target := probe.Target{Host: "h", Port: 1}
	for config, want := range map[string]string{"": "{}", "{}": "{}", "null": "{}", `{"a":1}`: `{"a":1}`} {
		h, err := reg.Prepare("fake", []byte(config), target)
		if err != nil {
			t.Errorf("%q: %v", config, err)
			continue
		}
		if got := h.(*fake); got.config != want || got.target != target {
			t.Errorf("%q: prepared with %q, %v", config, got.config, got.target)
		}
		if _, err := reg.Prepare("plain", []byte(config), target); (err != nil) != (want != "{}") {
			t.Errorf("plain %q: %v", config, err)
		}
	}
	for _, c := range []struct{ name, config, want string }{
		{"fake", `{"bad":1}`, `handler "fake": bad: unknown field`},
		{"plain", `{"a":1}`, `handler "plain": it takes no config`},
		{"fakes", ``, `unknown handler "fakes"; known: fake, plain (did you mean "fake"?)`},
	} {
		if _, err := reg.Prepare(c.name, []byte(c.config), target); err == nil || err.Error() != c.want {
			t.Errorf("%s %s: got %v, want %s", c.name, c.config, err, c.want)
		}
	}
}

func TestClose(t *testing.T) {
	reg := registry(t, "plain")
	var closed []string
	for _, name := range []string{"c", "b", "a"} {
		if err := reg.Register(name, "a test", &fake{name: name, closed: &closed}); err != nil {
			t.Fatal(err)
		}
	}
	if err := reg.Close(); err == nil || err.Error() != `close handler "b": stuck` {
		t.Errorf("got %v", err)
	}
	if !slices.Equal(closed, []string{"a", "b", "c"}) || len(reg.Names()) != 0 {
		t.Errorf("closed %v, left %v", closed, reg.Names())
	}
	if err := reg.Close(); err != nil || len(closed) != 3 {
		t.Errorf("closed again: %v, %v", closed, err)
	}
	if err := reg.Register("plain", "a test", plain); err != nil {
		t.Errorf("register after close: %v", err)
	}
}

// panicky is a handler whose Close panics.
type panicky struct{ probe.HandlerFunc }

func (panicky) Close() error { panic("in Close") }

func TestCloseThatPanics(t *testing.T) {
	reg := registry(t, "plain")
	var closed []string
	for name, h := range map[string]probe.Handler{"a": panicky{}, "c": &fake{name: "c", closed: &closed}} {
		if err := reg.Register(name, "a test", h); err != nil {
			t.Fatal(err)
		}
	}
	if err := reg.Close(); err == nil || err.Error() != `close handler "a": panic: in Close` || !slices.Equal(closed, []string{"c"}) {
		t.Errorf("closed %v, error %v", closed, err)
	}
}

func TestRegistryIsConcurrent(t *testing.T) {
	reg := registry(t, "tcp")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := fmt.Sprintf("h%d", i)
			if err := reg.Register(name, "a test", plain); err != nil {
				t.Error(err)
			}
			if _, err := reg.Lookup(name); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := len(reg.Names()); got != 9 {
		t.Errorf("%d names, want 9", got)
	}
}
