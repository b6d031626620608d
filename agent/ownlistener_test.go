package agent_test

import (
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
)

// dialGuest is a module that dials the URL in its config, and returns 0 or the error number. EACCES, 2, is a
// Failure. Its text is in abi_grants_test.go.
const dialGuest = "AGFzbQEAAAABFANgBH9/f38Bf2ADf39/AX9gAAF/Ai0CCXByb2Jlcl92MQpjb25maWdfZ2V0AAANcHJvYmVyX3YxX25ldARkaWFsAAED" +
	"AgECBQMBAAEHEgIGbWVtb3J5AgAFcHJvYmUAAgoqASgBAX9BAEEDQRBBgAgQACEAQRAgAEF/EAEhAEEAQQAgAGsgAEEAShsLCwkBAEEACwN1cmw="

// dialFolder returns a folder with the plugin "dial", which requests all addresses.
func dialFolder(t *testing.T) string {
	t.Helper()
	module, err := base64.StdEncoding.DecodeString(dialGuest)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "dial"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "dial", "dial.wasm"), string(module))
	write(t, filepath.Join(folder, "dial", "plugin.yaml"), `apiVersion: prober.dev/v1
name: dial
version: 1.0.0
requests: [{capability: net, allow: ["tcp://*:*", "tcp://0.0.0.0/0:*", "tcp://[::/0]:*"], reason: to try}]
`)
	return folder
}

// A plugin with the widest grants can dial a port of the host only if the pod declares it, and never the
// agent's API.
func TestPluginCannotDialAgent(t *testing.T) {
	t.Parallel()
	folder := dialFolder(t)
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	declared, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer declared.Close()
	config := filepath.Join(t.TempDir(), "prober.yaml")
	write(t, config, `apiVersion: prober.dev/v1
kind: AgentConfig
plugins:
- name: dial
  grants: ["tcp://*:*", "tcp://0.0.0.0/0:*", "tcp://[::/0]:*"]
`)
	r := start(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: idle}\nspec: {containers: [{name: none}]}\n", func(c *agent.Config) {
		c.PluginDirs, c.ConfigFile = []string{folder}, config
	})
	path := r.manifest
	_, ownPort, _ := net.SplitHostPort(strings.TrimPrefix(r.url, "http://"))
	_, otherPort, _ := net.SplitHostPort(other.Addr().String())
	_, declaredPort, _ := net.SplitHostPort(declared.Addr().String())
	urls := map[string]string{
		"agent":    "tcp://127.0.0.1:" + ownPort,
		"mapped":   "tcp://[::ffff:127.0.0.1]:" + ownPort,
		"other":    "tcp://127.0.0.1:" + otherPort,
		"declared": "tcp://127.0.0.1:" + declaredPort,
	}
	var probes, containers strings.Builder
	for name, url := range urls {
		fmt.Fprintf(&probes, "%s: {readiness: {plugin: {name: dial, config: {url: %q}}, period: 20ms, timeout: 1m}}, ", name, url)
		port := ownPort // the agent's port must not be declared
		if name == "declared" {
			port = declaredPort
		}
		fmt.Fprintf(&containers, "  - name: %s\n    ports: [{containerPort: %s}]\n", name, port)
	}
	manifest := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: shop\n  annotations:\n    prober.dev/probes: '{%s}'\nspec:\n  containers:\n%s",
		strings.TrimSuffix(probes.String(), ", "), containers.String())
	events := r.stream()
	write(t, path, manifest)
	for name := range urls {
		want := "failure"
		if name == "declared" {
			want = "success"
		}
		got := awaitProbe(t, events, "a tick of "+name, func(p *streamedProbe) bool { return p.Container == name && p.Last != nil })
		if got.Last.Result != want {
			t.Errorf("%s, %s: got %+v, want %s", name, urls[name], got.Last, want)
		}
	}
	_, text := r.do("GET", "/metrics")
	if !strings.Contains(text, `prober_plugin_denied_total{capability="net",plugin="dial"} `) {
		t.Errorf("the denials are not counted:\n%s", text)
	}
}
