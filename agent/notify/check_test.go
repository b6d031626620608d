package notify_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/daeace23/prober/agent/notify"
	"github.com/daeace23/prober/config"
)

// Problems that can be found without sending a message are logged when a receiver starts.
func TestUnusableReceiversAreLogged(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "prober.yaml")
	if err := os.WriteFile(filepath.Join(dir, "url"), []byte("https://hooks.example/secret-of-the-url\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	agent, err := config.Parse(file, []byte(`
apiVersion: prober.dev/v1
kind: AgentConfig
notify:
  receivers:
  - {name: a-slack, webhook: {format: slack, urlFile: no-such-url}}
  - {name: b-exec, exec: {command: [/no/such/program]}}
  - {name: c-mail, mail: {to: [a@example.com], from: b@example.com, smarthost: "mail.example.com:587", username: u, passwordFile: no-such-password}}
  - {name: d-well, webhook: {format: json, urlFile: url}}
`))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		n := notify.New(notify.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
		n.Set(file, agent.Notify)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { n.Run(ctx) })
		synctest.Wait()
		cancel()
		running.Wait()
		for receiver, want := range map[string]string{"a-slack": "no-such-url", "b-exec": "/no/such/program", "c-mail": "no-such-password"} {
			found := false
			for line := range strings.Lines(log.String()) {
				found = found || strings.Contains(line, "receiver="+receiver) && strings.Contains(line, "cannot be used as configured") && strings.Contains(line, want)
			}
			if !found {
				t.Errorf("%s: no line about %s in\n%s", receiver, want, log.String())
			}
		}
		if strings.Contains(log.String(), "d-well") || strings.Contains(log.String(), "secret-of") {
			t.Error(log.String())
		}
	})
}
