package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/sdk/sdktest"
)

// buildRedis builds the redis plugin as `make build` does.
func buildRedis(t *testing.T) string {
	t.Helper()
	code, err := sdktest.Build(t.Context(), "../plugins/redis")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "redis.wasm")
	if err := os.WriteFile(path, code, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAgentProbesThroughItsOwnNetwork waits for results of the built-in http handler and the redis
// plugin, and for the restart of the worker by the agent's own handler.
func TestAgentProbesThroughItsOwnNetwork(t *testing.T) {
	redis := buildRedis(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	a, err := newAgent(ctx, newFabric(), []string{redis})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	pod, workload := demoPod(true)
	if err := a.Start(ctx, pod, workload); err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{
		"goroutine://shop-1/web-0 readiness success":   true,
		"goroutine://shop-1/cache-0 readiness success": true,
		"goroutine://shop-1/worker-0 liveness failure": true,
		"goroutine://shop-1/worker-N liveness success": true,
	}
	restarted := regexp.MustCompile(`worker-[1-9]\d* `) // whoever is slow may miss the first
	for line := range a.Watch(ctx) {
		delete(missing, restarted.ReplaceAllString(line, "worker-N "))
		if len(missing) == 0 {
			break
		}
	}
	for line := range missing {
		t.Errorf("never saw %q", line)
	}
	status, _ := a.statuses.PodStatus(pod.UID)
	for _, c := range status.ContainerStatuses {
		if c.Name != "worker" && !c.Ready {
			t.Errorf("%s is not ready", c.Name)
		}
	}
}

func TestBadConfigIsAnError(t *testing.T) {
	a, err := newAgent(t.Context(), newFabric(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	pod, workload := demoPod(false)
	for name, text := range pod.Annotations {
		pod.Annotations[name] = strings.Replace(text, "fail: 20", "fail: 0", 1)
	}
	err = a.Start(t.Context(), pod, workload)
	if err == nil || !strings.Contains(err.Error(), "[worker].liveness") || !strings.Contains(err.Error(), "fail: must be above 0") {
		t.Errorf("got %v, want an error that names worker.liveness and the field", err)
	}
}
