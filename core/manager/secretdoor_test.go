package manager_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
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

// TestSecretsAreRedactedInEveryEncoding has a handler that repeats a secret as other programs
// spell it.
func TestSecretsAreRedactedInEveryEncoding(t *testing.T) {
	var vectors []struct{ Secret, Encoding, Text string }
	data, err := os.ReadFile("../../internal/redact/testdata/vectors.json")
	if err == nil {
		err = json.Unmarshal(data, &vectors)
	}
	if err != nil || len(vectors) == 0 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	for _, v := range vectors {
		_, secrets, err := manager.ResolveSecrets([]byte(`{"password":"${env:PW}"}`), func(string, string) (string, error) { return v.Secret, nil })
		if err != nil {
			t.Fatal(err)
		}
		out, err := secrets.Handler(probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			return probe.Outcome{Output: v.Text}, errors.New(v.Text)
		})).Probe(t.Context(), probe.Request{})
		for _, text := range []string{out.Output, err.Error()} {
			if !strings.Contains(text, "[redacted]") || len(strings.ReplaceAll(text, "[redacted]", "")) > 40 {
				t.Errorf("%s of %s: %s becomes %s", v.Encoding, v.Secret, v.Text, text)
			}
		}
	}
}
