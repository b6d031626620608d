package secrets_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/daeace23/prober/agent/secrets"
)

// secretPod returns a pod with the secret hunter2 in every field that may have one.
const secretPod = `
metadata:
  name: shop
  annotations:
    team: shop
    kubectl.kubernetes.io/last-applied-configuration: hunter2
    prober.dev/probes: |
      web: {readiness: {plugin: {name: demo, config: {password: hunter2}}}}
spec:
  initContainers:
  - {name: init, env: [{name: A, value: hunter2}]}
  containers:
  - name: web
    env: [{name: A, value: hunter2}, {name: EMPTY}]
    livenessProbe: {httpGet: {port: 80, httpHeaders: [{name: Cookie, value: hunter2}, {name: Accept, value: text/html}]}}
    readinessProbe: {httpGet: {port: 80, httpHeaders: [{name: Cookie, value: hunter2}]}}
    startupProbe: {httpGet: {port: 80, httpHeaders: [{name: Cookie, value: hunter2}]}}
    lifecycle:
      postStart: {httpGet: {port: 80, httpHeaders: [{name: Cookie, value: hunter2}]}}
      preStop: {httpGet: {port: 80, httpHeaders: [{name: Cookie, value: hunter2}]}}
  ephemeralContainers:
  - {name: debug, env: [{name: A, value: hunter2}]}
`

func TestMask(t *testing.T) {
	var pod v1.Pod
	if err := yaml.UnmarshalStrict([]byte(secretPod), &pod); err != nil {
		t.Fatal(err)
	}
	before := pod.DeepCopy()
	masked := secrets.Mask(&pod)
	if diff := cmp.Diff(before, &pod); diff != "" {
		t.Errorf("the pod was modified (-before +after):\n%s", diff)
	}
	text, err := json.Marshal(masked)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hunter2") || !strings.Contains(string(text), "text/html") {
		t.Errorf("got %s", text)
	}
	if got := strings.Count(string(text), "[redacted]"); got != 10 {
		t.Errorf("%d values are masked, want 10: %s", got, text)
	}
}
