package agent_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/daeace23/prober/agent"
)

// A plugin still validates configs of abandoned manifests while the agent runs. This test is for the race
// detector.
func TestRunDuringAbandonedPrepare(t *testing.T) {
	t.Parallel()
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
		if err := <-made; err != nil { // on a slow machine, New has waited for the plugin
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
		lines.await(t, 0, "pods applied")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		return
	}
}
