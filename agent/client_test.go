package agent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
)

// newClient returns a client of an agent with pods in memory, and the agent.
func newClient(t *testing.T) (*client.Client, *running) {
	t.Helper()
	socket := filepath.Join(shortDir(t), "s")
	source := agent.NewMemory(memoryPod("one", newTarget(t), ""))
	r := start(t, "", func(c *agent.Config) { c.Source, c.Socket = source.Open, socket })
	c, err := client.New(client.Config{Server: "unix:" + socket})
	if err != nil {
		t.Fatal(err)
	}
	awaitProbe(t, r.stream(), "the pod is ready", ready)
	return c, r
}

func TestClient(t *testing.T) {
	t.Parallel()
	c, r := newClient(t)
	ctx := t.Context()
	if err := c.Reload(ctx); err != nil {
		t.Error(err)
	}
	var pods v1.PodList
	if err := c.Pods(ctx, &pods); err != nil || len(pods.Items) != 1 {
		t.Errorf("pods: %d, %v", len(pods.Items), err)
	}
	var events v1.EventList
	if err := c.Events(ctx, &events); err != nil {
		t.Error(err)
	}
	if plugins, err := c.Plugins(ctx); err != nil || len(plugins) != 0 {
		t.Errorf("plugins: %v, %v", plugins, err)
	}
	one := client.Filter{Namespace: "default", Pod: "one", Container: "web", Kind: "readiness"}
	if probes, err := c.Probes(ctx, client.Filter{Pod: "one"}); err != nil || len(probes) != 1 || probes[0].Result != "success" || probes[0].Spec.Period != "20ms" {
		t.Errorf("probes: %+v, %v", probes, err)
	}
	if probes, err := c.Probes(ctx, client.Filter{Pod: "two"}); err != nil || len(probes) != 0 {
		t.Errorf("probes of no pod: %+v, %v", probes, err)
	}
	if probes, err := c.Pause(ctx, one, api.PauseRequest{For: "1m", Reason: "a test"}); err != nil || len(probes) != 1 || !probes[0].Paused ||
		probes[0].PauseReason != "a test" || probes[0].PausedUntil.IsZero() {
		t.Errorf("pause: %+v, %v", probes, err)
	}
	if probes, err := c.Resume(ctx, one); err != nil || len(probes) != 1 || probes[0].Paused {
		t.Errorf("resume: %+v, %v", probes, err)
	}
	if _, err := c.Trigger(ctx, one); err != nil {
		t.Error(err)
	}
	_, err := c.Promote(ctx, "none")
	if s, ok := errors.AsType[*client.StatusError](err); !ok || s.Status != http.StatusNotFound || !strings.Contains(s.Text, `plugin "none"`) {
		t.Errorf("promote: %v", err)
	}

	remote, err := client.New(client.Config{Server: strings.TrimPrefix(r.url, "http://")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = remote.Trigger(ctx, one)
	if s, ok := errors.AsType[*client.StatusError](err); !ok || s.Status != http.StatusUnauthorized {
		t.Errorf("trigger over TCP without a token: %v", err)
	}
	for _, server := range []string{"", "http://", "ftp://localhost"} {
		if _, err := client.New(client.Config{Server: server}); !errors.Is(err, client.ErrServer) {
			t.Errorf("%q: %v", server, err)
		}
	}
}

// The types of package api have every field of the responses.
func TestAPITypesAreComplete(t *testing.T) {
	t.Parallel()
	_, r := newClient(t)
	_, body := r.do("GET", "/api/v1/probes")
	decoder := json.NewDecoder(bytes.NewReader([]byte(body)))
	decoder.DisallowUnknownFields()
	var list api.ProbeList
	if err := decoder.Decode(&list); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(again), strings.TrimSpace(body); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
