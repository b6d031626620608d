//go:build e2e

package e2e

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checksOfNagios copies the examples to a folder to which no other user can write, regardless of the umask of
// the checkout. It returns the folder, which has a prober.yaml that allows their commands.
func checksOfNagios(t *testing.T) (plugins, config string) {
	t.Helper()
	plugins, config = t.TempDir(), filepath.Join(t.TempDir(), "prober.yaml")
	for _, file := range []string{"http/plugin.yaml", "http/http_test.yaml", "tcp/plugin.yaml", "disk/plugin.yaml"} {
		data, err := os.ReadFile(filepath.Join("../../examples/nagios", file))
		if err == nil {
			err = os.MkdirAll(filepath.Join(plugins, filepath.Dir(file)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(plugins, file), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text := "apiVersion: prober.dev/v1\nkind: AgentConfig\nnagios: {folders: [/usr/lib/nagios/plugins]}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return plugins, config
}

// TestNagiosExamplePassesItsCases runs the cases of an example with Debian's command.
func TestNagiosExamplePassesItsCases(t *testing.T) {
	t.Parallel()
	plugins, config := checksOfNagios(t)
	out, err := exec.Command(filepath.Join(bin, "prober"), "plugin", "test", "--config", config, plugins).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "7 passed, 0 failed, 4 left out\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestNagiosChecks runs Debian's monitoring plugins unchanged.
func TestNagiosChecks(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte("all is well"))
	}))
	defer server.Close()
	web := server.Listener.Addr().String()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	plugins, config := checksOfNagios(t)
	for _, c := range []struct{ plugin, target, config, result, text string }{
		{"nagios-http", web, `{"path":"/healthz"}`, "success", "HTTP OK: HTTP/1.1 200 OK"},
		{"nagios-http", web, `{"path":"/healthz","contains":"well"}`, "success", "HTTP OK"},
		{"nagios-http", web, `{"path":"/healthz","contains":"ill"}`, "failure", "HTTP CRITICAL"},
		{"nagios-http", web, `{"path":"/nothing"}`, "warning", "HTTP WARNING: HTTP/1.1 404 Not Found"},
		{"nagios-http", web, `{"path":"/healthz","warnSeconds":0.0000001}`, "warning", "HTTP WARNING"},
		{"nagios-http", "127.0.0.1:1", `{}`, "failure", "onnection refused"},
		{"nagios-http", silent.Addr().String(), `{}`, "failure", "timed out after 15s"},
		{"nagios-tcp", web, `{}`, "success", "TCP OK"},
		{"nagios-tcp", "127.0.0.1:1", `{}`, "failure", "onnection refused"},
		{"nagios-disk", web, `{"warnFree":"0%","criticalFree":"0%"}`, "success", "DISK OK"},
		{"nagios-disk", web, `{"warnFree":"100%","criticalFree":"0%"}`, "warning", "DISK WARNING"},
		{"nagios-disk", web, `{"path":"/no/such/place"}`, "failure", "DISK CRITICAL"},
	} {
		t.Run(c.plugin+" "+c.config, func(t *testing.T) {
			v, code := probePluginIn(t, plugins, c.plugin, c.target, c.config, "--agent-config", config)
			want(t, v, code, c.result, c.text)
			if c.result == "success" && (len(v.Metrics) == 0 || strings.Contains(v.Output, "|")) {
				t.Errorf("%q, and the metrics %v", v.Output, v.Metrics)
			}
		})
	}
}
