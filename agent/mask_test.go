package agent_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/pods/local/manifest"
)

const planted = "hunter2-hunter2"

// secretive returns a pod with a secret in every field that may have one.
func secretive(w *target) string {
	return strings.NewReplacer("PORT", fmt.Sprint(w.port()), "SECRET", planted).Replace(`apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations:
    example.com/team: shop
    kubectl.kubernetes.io/last-applied-configuration: |
      {"spec":{"containers":[{"env":[{"name":"A","value":"SECRET"}]}]}}
    prober.dev/probes: |
      web: # SECRET
        readiness:
          httpGet: {path: /, port: PORT, httpHeaders: [{name: X-Api-Key, value: SECRET}, {name: Accept, value: text/html}]}
          period: 20ms
        startup:
          plugin: {name: demo, target: {port: PORT}, config: {password: SECRET, list: [SECRET, "${env:REF}", "a${env:B}SECRET"], pin: 1234}}
          period: 20ms
spec:
  containers:
  - name: web
    env:
    - {name: PASSWORD, value: SECRET}
    - {name: EMPTY}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    readinessProbe: {httpGet: {path: /, port: PORT, httpHeaders: [{name: authorization, value: Bearer SECRET}]}}
    livenessProbe: {httpGet: {path: /, port: PORT, httpHeaders: [{name: Cookie, value: SECRET}]}}
  - name: api
    env: [{name: PASSWORD, value: SECRET}]
    startupProbe: {httpGet: {path: /, port: PORT, httpHeaders: [{name: X-Token, value: SECRET}]}}
`)
}

// The test searches for a secret in the responses of all GET routes, in the stream and in the log.
func TestSecretsOfPodsAreMasked(t *testing.T) {
	t.Parallel()
	w := newTarget(t)
	path, state := filepath.Join(t.TempDir(), "pod.yaml"), t.TempDir()
	write(t, path, secretive(w))
	r := start(t, "", func(c *agent.Config) {
		c.LogLevel = -4
		c.LookupEnv = func(string) (string, bool) { return planted, true }
		c.Source = (&files{Source: manifest.Source{Paths: []string{path}, AllowUnsupported: true}}).open
		dir := t.TempDir()
		put(t, dir+"/demo.wasm", guestSpec{text: "v1"}.plugin("demo", "1.0.0"))
		c.PluginDirs, c.StateDir = []string{dir}, state
	})
	events := r.stream()
	pod := awaitEvent(t, events, "pod", "a ready pod", func(p *v1.Pod) bool { return leak(t, "stream", p) && podHas(p, "web") })
	awaitProbe(t, events, "ready", func(p *streamedProbe) bool { return leak(t, "stream", p) && ready(p) })
	_, index := r.do("GET", "/")
	asked := 0
	for line := range strings.Lines(index) {
		rest, ok := strings.CutPrefix(line, "GET ")
		for path := range strings.FieldsSeq(rest) {
			if !ok || path[0] != '/' || path == "/api/v1/stream" || path == "/probe" {
				break
			}
			asked++
			status, body := r.do("GET", probePath.Replace(path)+map[bool]string{true: "?verbose"}[strings.HasSuffix(path, "z")])
			if status != http.StatusOK && status != http.StatusServiceUnavailable {
				t.Errorf("%s: %d", path, status)
			}
			leak(t, path, body)
		}
	}
	if asked < 8 {
		t.Errorf("asked for %d paths of\n%s", asked, index)
	}
	var list v1.PodList
	r.get("/api/v1/pods", &list)
	for _, got := range []*v1.Pod{&pod, &list.Items[0]} {
		web := got.Spec.Containers[0]
		if len(web.Env) != 3 || web.Env[0] != (v1.EnvVar{Name: "PASSWORD", Value: "[redacted]"}) || web.Env[1].Value != "" || web.Env[2].ValueFrom == nil {
			t.Errorf("env: %+v", web.Env)
		}
		for _, want := range []string{
			"name: X-Api-Key\n        value: '[redacted]'", "name: Accept\n        value: text/html", "password: '[redacted]'",
			"pin: '[redacted]'", "- ${env:REF}\n", "- '[redacted]${env:B}[redacted]'", "port: " + fmt.Sprint(w.port()),
		} {
			if !strings.Contains(got.Annotations["prober.dev/probes"], want) {
				t.Errorf("no %q in\n%s", want, got.Annotations["prober.dev/probes"])
			}
		}
		if got.Annotations["example.com/team"] != "shop" {
			t.Errorf("annotations: %v", got.Annotations)
		}
	}
	r.lines.mu.Lock()
	defer r.lines.mu.Unlock()
	leak(t, "log", strings.Join(r.lines.text, ""))
}

func podHas(p *v1.Pod, container string) bool {
	return len(p.Status.ContainerStatuses) > 0 && p.Spec.Containers[0].Name == container
}

// leak fails the test if shown contains the secret. It returns true.
func leak(t *testing.T, where string, shown any) bool {
	t.Helper()
	text, err := json.Marshal(shown)
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{planted, base64.StdEncoding.EncodeToString([]byte(planted))} {
		if strings.Contains(string(text), form) {
			t.Errorf("%s has %s: %s", where, form, text)
		}
	}
	return true
}
