package plugincmd_test

import (
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
)

// The plugins of prober.yaml that are in registries are pulled in advance, and can then be used without the
// registry.
func TestPluginPullConfig(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	demoFile(t)
	var away atomic.Bool
	host := hub(t, func(w http.ResponseWriter, _ *http.Request) bool {
		if away.Load() {
			w.WriteHeader(http.StatusGone)
		}
		return away.Load()
	})
	code, pinned, stderr := clitest.Run(nil, "plugin", "push", "demo.wasm", host+"/demo:1", "--plain-http")
	if code != 0 {
		t.Fatal(stderr)
	}
	_, digest, _ := strings.Cut(strings.TrimSpace(pinned), "@")
	const head = "apiVersion: prober.dev/v1\nkind: AgentConfig\nplugins:\n"
	clitest.WriteTree(t, ".", map[string]string{
		"prober.yaml": head + "- name: demo\n  source: oci://" + host + "/demo:1\n  plainHTTP: true\n",
		"none.yaml":   head + "- name: demo\n  source: demo.wasm\n",
		"bad.yaml":    head + "- name: demo\n  source: oci://" + host + "/demo:2\n  plainHTTP: true\n- name: tls\n  source: oci://" + host + "/demo:3\n",
	})
	pulled := host + "/demo:1@" + digest
	steps := []struct {
		name string
		args []string
		code int
		out  string
		errs []string
	}{
		{"not pulled yet", []string{"inspect", "demo", "--agent-config", "prober.yaml"}, 64, "",
			[]string{"demo:1: it is not in the plugin cache\n", "prober: hint: `prober plugin pull --agent-config prober.yaml` pulls it\n"}},
		{"pulled", []string{"pull", "--agent-config", "prober.yaml"}, 0, pulled + "\n", nil},
		{"nothing to pull", []string{"pull", "--config", "none.yaml"}, 0, "", []string{"prober: none.yaml names no plugin of a registry\n"}},
		{"wrong", []string{"pull", "--config", "bad.yaml"}, 1, "", []string{
			`prober: error: plugin "demo": ` + host + "/demo:2: not found\n", `plugin "tls": ` + host + "/demo:3: the registry speaks plain HTTP, which must be allowed (plainHTTP: true allows it)\n",
		}},
		{"both", []string{"pull", host + "/demo:1", "extra"}, 64, "", []string{"usage: prober plugin pull REF"}},
		{"config and more", []string{"pull", host + "/demo:1", "--agent-config", "prober.yaml"}, 64, "", []string{"pull: --agent-config takes neither REF nor -o"}},
		{"no config", []string{"pull", "--config", "nosuch.yaml"}, 64, "", []string{"nosuch.yaml: no such file"}},
		{"locked", []string{"lock", "--agent-config", "prober.yaml"}, 0, "", []string{"prober: added demo 1.0.0, sha256:"}},
	}
	for _, s := range steps {
		code, stdout, stderr := clitest.Run(nil, append([]string{"plugin"}, s.args...)...)
		if code != s.code || stdout != s.out {
			t.Errorf("%s: exit code %d, want %d\n%s%s", s.name, code, s.code, stdout, stderr)
		}
		for _, want := range s.errs {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: no %q in\n%s", s.name, want, stderr)
			}
		}
	}
	lock, err := os.ReadFile("prober.plugins.lock")
	if err != nil || !strings.Contains(string(lock), "source: oci://"+pulled) {
		t.Errorf("%v\n%s", err, lock)
	}

	away.Store(true)
	code, stdout, stderr := clitest.Run(nil, "plugin", "inspect", "demo", "--agent-config", "prober.yaml")
	if code != 0 || !strings.Contains(stdout, "oci://"+pulled) {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr = clitest.Run(nil, "plugin", "run", "demo", "--agent-config", "prober.yaml", "--target", "127.0.0.1:1", "--timeout", "1m")
	if code != 0 || !strings.Contains(stdout, "success") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr = clitest.Run(nil, "plugin", "pull", "--agent-config", "prober.yaml")
	if code != 1 || stdout != pulled+"\n" || !strings.Contains(stderr, "the registry answered 410 Gone") {
		t.Errorf("exit code %d, want one that says that this is not the newest\n%s%s", code, stdout, stderr)
	}
	code, _, stderr = clitest.Run(nil, "plugin", "lock", "--agent-config", "prober.yaml")
	if code != 1 || !strings.Contains(stderr, "the registry answered 410 Gone") || !strings.Contains(stderr, "prober: hint: no lock was written\n") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}
