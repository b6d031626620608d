package agent_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
)

// secretPod is a pod whose probe shows a secret.
func secretPod(reference string) string {
	return `apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations:
    prober.dev/probes: '{web: {readiness: {exec: {command: [echo, "` + reference + `"]}, period: 20ms, timeout: 5s}}}'
spec:
  containers:
  - name: web
`
}

func TestSecretsThatAreAllowed(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"allowed/..data", "other", "homes/a", "homes/b"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"allowed/plain", "allowed/..data/password", "other/private", "other/listed", "homes/a/token", "homes/b/private"} {
		write(t, filepath.Join(dir, file), "secret")
	}
	for name, to := range map[string]string{
		"allowed/password": "..data/password", "allowed/out": "../other/private", "allowed/listed": "../other/listed",
		"link": "allowed", "homes/b/token": "../a/token", "homes/c": "b", "homes/b/mine": "private", "homes/a/mine": "token",
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	config := allowing(t, "file:"+dir+"/allowed/*", "file:"+dir+"/link/*", "file:"+dir+"/other/listed", "file:"+dir+"/homes/*/token",
		"file:"+dir+"/homes/*/mine", "env:PG_*", "env:TOKEN")
	const allowed = ""
	for reference, want := range map[string]string{
		"${file:" + dir + "/allowed/plain}":            allowed,
		"${file:" + dir + "/allowed/password}":         allowed, // as Kubernetes has it
		"${file:" + dir + "/link/plain}":               allowed,
		"${file:" + dir + "/allowed/listed}":           allowed,
		"${file:" + dir + "/homes/a/token}":            allowed,
		"${file:" + dir + "/homes/b/token}":            allowed, // which homes/*/token allows by itself
		"${file:" + dir + "/homes/a/mine}":             allowed,
		"${file:" + dir + "/homes/c/mine}":             `not allowed: it leads to ` + dir + `/homes/b/private: add "file:` + dir + `/homes/b/private" to secrets.allow in ` + config,
		"${file:" + dir + "/other/private}":            `not allowed: add "file:` + dir + `/other/private" to secrets.allow in ` + config,
		"${file:" + dir + "/allowed/..data/password}":  `not allowed: add "file:` + dir + `/allowed/..data/password" to secrets.allow in ` + config,
		"${file:" + dir + "/allowed/../other/private}": "not allowed: the path must not have .. in it",
		"${file:" + dir + "/allowed/out}":              `not allowed: it leads to ` + dir + `/other/private: add "file:` + dir + `/other/private" to secrets.allow in ` + config,
		"${file:" + dir + "/allowed/missing}":          "no such file or directory",
		"${env:PG_PASSWORD}":                           allowed,
		"${env:TOKEN}":                                 allowed,
		"${env:TOKENS}":                                `${env:TOKENS}: not allowed: add "env:TOKENS" to secrets.allow in ` + config,
		"${env:PATH}":                                  `${env:PATH}: not allowed: add "env:PATH" to secrets.allow in ` + config,
	} {
		path := filepath.Join(t.TempDir(), "pod.yaml")
		write(t, path, secretPod(reference))
		a, err := agent.New(t.Context(), agent.Config{
			Source: fromFiles(0, path), Listen: "127.0.0.1:0", Stderr: io.Discard, ConfigFile: config,
			LookupEnv: func(string) (string, bool) { return "secret", true },
		})
		if a != nil {
			agent.Close(a)
		}
		if want == allowed && err != nil || want != allowed && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", reference, err, want)
		}
	}
}

// TestSecretsThatAreAllowedLater has a manifest that was refused, and a prober.yaml that is
// mended then.
func TestSecretsThatAreAllowedLater(t *testing.T) {
	web := newTarget(t)
	config := allowing(t, "env:OTHER")
	r := start(t, web.external("one"), func(c *agent.Config) {
		c.ConfigFile = config
		c.LookupEnv = func(string) (string, bool) { return "secret", true }
	})
	path := r.manifest
	write(t, path, secretPod("${env:TOKEN}"))
	_, next := r.lines.await(t, 0, "manifests cannot be used", "not allowed: add")
	write(t, config, "apiVersion: prober.dev/v1\nkind: AgentConfig\nsecrets: {allow: [\"env:TOKEN\"]}\n")
	r.lines.await(t, next, "manifests applied")
}

// TestSecretsThatAreAllowedNoLonger has a pod that runs, and a prober.yaml that takes its
// secret away.
func TestSecretsThatAreAllowedNoLonger(t *testing.T) {
	config := allowing(t, "env:TOKEN")
	r := start(t, newGuarded(t).pod("${env:TOKEN}", "20ms"), func(c *agent.Config) {
		c.ConfigFile = config
		c.LookupEnv = func(string) (string, bool) { return "secret", true }
	})
	_, next := r.lines.await(t, 0, "manifests applied", "cause=start")
	write(t, config, "apiVersion: prober.dev/v1\nkind: AgentConfig\nsecrets: {allow: [\"env:OTHER\"]}\n")
	_, next = r.lines.await(t, next, "manifests were not applied as a whole", "env:TOKEN", "not allowed")
	write(t, config, "apiVersion: prober.dev/v1\nkind: AgentConfig\nsecrets: {allow: [\"env:TOKEN\"]}\n")
	r.lines.await(t, next, "manifests applied")
}
