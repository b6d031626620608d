package agent_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/agent"
)

func TestStateIsRestoredAfterRestart(t *testing.T) {
	web := newTarget(t)
	state := func(c *agent.Config) { c.StateDir = filepath.Join(filepath.Dir(c.AddrFile), "state") }
	addr := filepath.Join(t.TempDir(), "addr")
	first := start(t, web.external("shop"), func(c *agent.Config) { c.AddrFile = addr }, state)
	before := awaitProbe(t, first.stream(), "ready", ready)
	awaitEvent(t, first.stream(), "pod", "ready", podReady)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	// The next agent restores the status before its first tick, which is at a random time within 114 years.
	rarely := strings.ReplaceAll(web.external("shop"), "period: 20ms", "period: 1000000h")
	r := start(t, rarely, func(c *agent.Config) { c.AddrFile = addr }, state)
	status := awaitEvent(t, r.stream(), "pod", "known to be ready", podReady).Status.ContainerStatuses[0]
	if status.ContainerID != before.ContainerID {
		t.Errorf("container %s, want %s", status.ContainerID, before.ContainerID)
	}
	r.lines.await(t, 0, "pods applied", "cause=start", "pods=1")
	var probes struct{ Items []streamedProbe }
	r.get("/api/v1/probes", &probes)
	if len(probes.Items) != 1 || probes.Items[0].Last != nil {
		t.Errorf("got %+v, want a probe that never ran", probes.Items)
	}
}

// /readyz and the metrics report state that cannot be saved, until it is saved.
func TestUnsavedStateShowsInReadyzAndMetrics(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	away := state + ".away"
	r := start(t, "{apiVersion: v1, kind: List, items: []}", func(c *agent.Config) { c.StateDir = state })
	r.lines.await(t, 0, "pods applied")
	if err := os.Rename(state, away); err != nil {
		t.Fatal(err)
	}
	write(t, r.manifest, newTarget(t).external("shop"))
	_, next := r.lines.await(t, 0, "state could not be saved")
	if status, body := r.do("GET", "/readyz?verbose"); status != http.StatusOK || !strings.Contains(body, "\n[!]state could not be saved since ") {
		t.Errorf("%d %s", status, body)
	}
	if _, body := r.do("GET", "/metrics"); strings.Contains(body, "\nprober_state_save_failures_total 0\n") || !strings.Contains(body, "\nprober_state_save_failures_total ") {
		t.Errorf("no failures in\n%s", body)
	}
	if err := os.Rename(away, state); err != nil {
		t.Fatal(err)
	}
	r.lines.await(t, next, "all state is saved again")
	if _, body := r.do("GET", "/readyz?verbose"); strings.Contains(body, "[!]state") {
		t.Error(body)
	}
}

// stuck is a writer that blocks until it is freed.
type stuck struct{ freed chan struct{} }

func (s stuck) Write(p []byte) (int, error) {
	<-s.freed
	return len(p), nil
}

func TestBlockedStderrDelaysNoProbe(t *testing.T) {
	t.Parallel()
	web := newTarget(t)
	web.status.Store(http.StatusTeapot) // causes an event for each probe
	path := filepath.Join(t.TempDir(), "pod.yaml")
	write(t, path, web.external("shop"))
	stderr := stuck{make(chan struct{})}
	a, err := agent.New(t.Context(), agent.Config{Source: fromFiles(0, path), Listen: "127.0.0.1:0", Stderr: stderr})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	deadline := time.After(patience)
	for n := range 20 {
		select {
		case <-web.hits:
		case <-deadline:
			t.Fatalf("%d probes", n)
		}
	}
	cancel()
	select {
	case err = <-ended:
	case <-time.After(patience):
		t.Fatal("a blocked stderr keeps the agent from ending")
	}
	if err != nil {
		t.Error(err)
	}
	close(stderr.freed)
}

func TestAddrFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "addr")
	write(t, file, "stale")
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.AddrFile = file })
	got, err := os.ReadFile(file)
	if err != nil || "http://"+string(got) != r.url {
		t.Errorf("got %q, %v, want %s", got, err, r.url)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file outlives the server: %v", err)
	}
	r.lines.await(t, 0, "msg=stopped", `cause="the test is over"`)
}
