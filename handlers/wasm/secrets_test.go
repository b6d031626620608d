package wasm_test

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/schema"
	"github.com/daeace23/prober/probe"
)

func TestAttemptSecretsNotLogged(t *testing.T) {
	const secret = "tcp://swordfish:123" // a URL, because failed dials are logged too
	var out bytes.Buffer
	h, err := wasm.New(wasm.Config{
		CacheDir: filepath.Join(t.TempDir(), "cache"), Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	guest := load(t, h, "tell", plugin.Reset)
	bound := bind(t, guest, `{"password":"`+secret+`"}`, probe.Target{})
	if out.Len() > 0 {
		t.Errorf("while the config is validated: %s", out.String())
	}
	req := probe.Request{
		Target: probe.Target{Host: "127.0.0.1", Port: 1},
		Redact: strings.NewReplacer(secret, "[redacted]", "swordfish", "[redacted]").Replace,
	}
	if got, err := attempt(t, bound, req, 5*time.Second); err != nil || got.Result != probe.Success {
		t.Fatalf("got %+v, %v", got, err)
	}
	if got := out.String(); strings.Contains(got, "swordfish") || strings.Count(got, "[redacted]") != 3 {
		t.Errorf("logged: %s", got)
	}
}

// TestSecretAtMessageLimitIsRedacted has a message whose limit falls inside a secret.
func TestSecretAtMessageLimitIsRedacted(t *testing.T) {
	const secret = "a long secret that is cut in the middle of it"
	config, secrets, err := declared.ResolveSecrets([]byte(`{"password":"${env:PW}"}`), func(string, string) (string, error) { return secret, nil })
	if err != nil {
		t.Fatal(err)
	}
	h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache")})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	ask := func(most int) string {
		m := plugin.Minimal("request")
		m.Limits.Message = most
		guest, err := h.Load(t.Context(), plugin.Found{Module: guestFile(t, "request"), Manifest: m})
		if err != nil {
			t.Fatal(err)
		}
		defer guest.Close()
		got, err := attempt(t, secrets.Handler(bind(t, guest, string(config), probe.Target{})), probe.Request{}, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return got.Output
	}
	at := strings.Index(ask(0), "[redacted]")
	if at < 0 {
		t.Fatal("the secret is not in the message")
	}
	for _, cut := range []int{1, 2, 4, 16, len(secret) - 1} {
		if got := ask(at + cut); strings.Contains(got, secret[:1]+" long") || !strings.Contains(got, `"password":"[`[:12]) {
			t.Errorf("cut after %d: %s", cut, got)
		}
	}
}

// marking returns a manifest whose schema marks the password as secret.
func marking(t *testing.T, name string) *plugin.Manifest {
	t.Helper()
	m := plugin.Minimal(name)
	var err error
	if m.Config, err = schema.New([]byte(`{"properties":{"password":{"type":"string","writeOnly":true}}}`)); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSecretsOfSchemaAreRedacted(t *testing.T) {
	const config = `{"password":"swordfish","user":"ann"}`
	guest := loadAs(t, host, "request", marking(t, "request"))
	out, err := attempt(t, declared.Secrets{}.Handler(bind(t, guest, config, probe.Target{})), probe.Request{}, 5*time.Second)
	if err != nil || !strings.Contains(out.Output, `"password":"[redacted]"`) || !strings.Contains(out.Output, `"ann"`) {
		t.Errorf("got %+v, %v", out, err)
	}
	_, err = loadAs(t, host, "refuse", marking(t, "refuse")).Prepare([]byte(config), probe.Target{})
	if err == nil || err.Error() != "[redacted]" {
		t.Errorf("the error of a config: %v", err)
	}
}
