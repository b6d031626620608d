package agent_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// undecided never says whether it takes a config, until it is told that nobody waits for it.
type undecided struct {
	probe.Handler
	asked chan struct{} // closed when it is
}

func (u undecided) PrepareContext(ctx context.Context, _ []byte, _ probe.Target) (probe.Handler, error) {
	close(u.asked)
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// The end of the agent ends what a plugin is asked about a config: it is not waited for.
func TestTheEndOfTheAgentEndsAValidator(t *testing.T) {
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ended, plugin := make(chan error, 1), undecided{asked: make(chan struct{})}
	go func() { ended <- agent.PrepareUntil(ctx, plugin) }()
	<-plugin.asked
	cancel(enough)
	select {
	case err := <-ended:
		if !errors.Is(err, enough) {
			t.Errorf("got %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it is waited for")
	}
}

// A guest that spins is ended in the middle of that.
func TestTheEndOfTheAgentEndsAGuestThatSpins(t *testing.T) {
	host, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache")})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	h, err := host.Load(t.Context(), plugin.Found{Module: guestSpec{spins: true}.plugin("tester", "1.0.0")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := agent.PrepareUntil(ctx, h); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := h.PrepareContext(ctx, nil, probe.Target{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// What manifests that were given up have asked of a plugin goes on while the agent runs, and
// may do no harm: this is for the race detector.
func TestAnAgentRunsWhileAPluginIsStillAsked(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	folder, web := t.TempDir(), newTarget(t)
	put(t, filepath.Join(folder, "tester.wasm"), guestSpec{spins: true}.plugin("tester", "1.0.0"))
	pods := filepath.Join(t.TempDir(), "pods.yaml")
	deadline := time.After(patience)
	for {
		lines := newLines()
		write(t, pods, slowly(1))
		var a *agent.Agent
		made := make(chan error, 1)
		go func() {
			var err error
			a, err = agent.New(t.Context(), agent.Config{
				Source: fromFiles(0, pods), PluginDirs: []string{folder}, Listen: "127.0.0.1:0", Stderr: lines, PollInterval: time.Millisecond,
			})
			made <- err
		}()
		lines.await(t, 0, "loading plugin", "handler=tester")
		write(t, pods, web.external("one"))
		if err := <-made; err != nil { // on a slow machine the plugin has been waited for to the end
			select {
			case <-deadline:
				t.Fatal(err)
			default:
				continue
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		lines.await(t, 0, "manifests applied")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		return
	}
}
