package plugins_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/agent/plugins"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/probe"
)

// held is a runner whose commands run until they are released.
type held struct{ started, release chan struct{} }

func (h held) RunInContainer(context.Context, string, []string, time.Duration) ([]byte, error) {
	h.started <- struct{}{}
	<-h.release
	return nil, nil
}

// The limit in prober.yaml applies to all probes of a built-in handler, and changes with a reload.
func TestMaxInFlight(t *testing.T) {
	file, commands := filepath.Join(t.TempDir(), "prober.yaml"), held{make(chan struct{}), make(chan struct{})}
	configure := func(entries string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("apiVersion: prober.dev/v1\nkind: AgentConfig\n"+entries), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("handlers: [{name: exec, maxInFlight: 1}]\n")
	s, _, err := plugins.New(t.Context(), plugins.Config{
		ConfigFile: file, StateDir: t.TempDir(), Runner: commands, Metrics: metrics.New(metrics.Config{}), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	results := make(chan error)
	attempt := func() {
		h, err := s.Prepare("exec", []byte(`{"command": ["true"]}`), probe.Target{})
		if err == nil {
			_, err = h.Probe(t.Context(), probe.Request{ContainerID: "c1"}) // without a period, it does not wait
		}
		results <- err
	}
	wantExec := func(want metrics.HandlerStats) {
		t.Helper()
		if diff := cmp.Diff(want, s.Handlers()["exec"]); diff != "" {
			t.Errorf("exec (-want +got):\n%s", diff)
		}
	}
	go attempt()
	<-commands.started
	go attempt()
	if err := <-results; !errors.Is(err, probe.ErrNoSlot) {
		t.Errorf("the second attempt: %v", err)
	}
	wantExec(metrics.HandlerStats{InFlight: 1, MaxInFlight: 1, Deferred: 1})

	configure("handlers: [{name: exec, maxInFlight: 2}]\n")
	if _, err := s.Reload(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	go attempt()
	<-commands.started
	wantExec(metrics.HandlerStats{InFlight: 2, MaxInFlight: 2, Deferred: 1})

	configure("handlers: [{name: exce, maxInFlight: 3}]\n")
	want := file + `:3: handlers[0].name: unknown built-in handler "exce"; known: exec, grpc, http, tcp (did you mean "exec"?)`
	if _, err := s.Reload(t.Context(), false); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	wantExec(metrics.HandlerStats{InFlight: 2, MaxInFlight: 2, Deferred: 1})

	configure("")
	if _, err := s.Reload(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		commands.release <- struct{}{}
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	wantExec(metrics.HandlerStats{Deferred: 1})
}
