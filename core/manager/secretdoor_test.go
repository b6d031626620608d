package manager_test

import (
	"context"
	"errors"
	"testing"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/probe"
)

func TestResolveSecrets(t *testing.T) {
	var cfg manager.Config
	resolveSecrets(&cfg)
	config, secrets, err := manager.ResolveSecrets([]byte(`{"password":"${env:TOKEN}"}`), cfg.ResolveSecret)
	if err != nil || string(config) != `{"password":"hunter2-token"}` {
		t.Fatalf("got %s, %v", config, err)
	}
	out, err := secrets.Handler(probe.HandlerFunc(func(_ context.Context, req probe.Request) (probe.Outcome, error) {
		return probe.Outcome{Output: req.Redacted("hunter2-token") + " or hunter2-token"}, nil
	})).Probe(t.Context(), probe.Request{})
	if want := "[redacted] or [redacted]"; err != nil || out.Output != want {
		t.Errorf("got %q, %v, want %q", out.Output, err, want)
	}
	if got := secrets.Error(errors.New("no user hunter2-token")).Error(); got != "no user [redacted]" {
		t.Errorf("got %q", got)
	}
	if _, _, err := manager.ResolveSecrets([]byte(`{"password":"${env:NONE}"}`), cfg.ResolveSecret); !errors.Is(err, errNoSecret) {
		t.Errorf("got %v, want %v", err, errNoSecret)
	}
	config, secrets, err = manager.ResolveSecrets([]byte(`{}`), nil)
	if err != nil || string(config) != "{}" || secrets.Error(nil) != nil {
		t.Errorf("got %s, %v", config, err)
	}
}
