package agent

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent/events"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// TestRepeatedWarningsAreFoldedAcrossRestarts has a container that fails in the same way after each of its restarts.
func TestRepeatedWarningsAreFoldedAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		a := &Agent{log: slog.New(slog.DiscardHandler)}
		a.events = events.New(events.Config{Logger: slog.New(slog.NewTextHandler(&out, nil)), Tell: func(v1.Event) {}})
		for range 3 {
			container := manager.ContainerReference("default", "shop", "1", "web", false)
			a.events.Event(container, "Warning", "Unhealthy", "Liveness probe failed")
			u := results.Update{Subject: results.Subject{PodUID: "1", Container: "web"}, Kind: probe.Liveness, Result: results.Success}
			removed, initial, restored, startup := u, u, u, u
			removed.Removed, initial.Reason, restored.Reason, startup.Kind = true, results.Initial, results.Restored, probe.Startup
			for _, u := range []results.Update{removed, initial, restored, startup} {
				a.logChange(u)
			}
			time.Sleep(time.Second)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		a.events.FollowFolds(ctx) // logs what is folded
		if n := strings.Count(out.String(), "\n"); n != 2 || !strings.Contains(out.String(), `times=2 in=3s`) {
			t.Errorf("got %d lines, want 2:\n%s", n, &out)
		}
	})
}
