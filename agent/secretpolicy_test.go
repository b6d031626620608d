package agent_test

import (
	"testing"

	"github.com/daeace23/prober/agent"
)

// secretPod returns a pod whose probe prints a secret.
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

func TestManifestsAreAppliedOnceSecretIsAllowed(t *testing.T) {
	t.Parallel()
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
	r.lines.await(t, next, "pods applied")
}

// prober.yaml stops allowing the secret of a running pod.
func TestSecretNoLongerAllowedIsReported(t *testing.T) {
	t.Parallel()
	config := allowing(t, "env:TOKEN")
	r := start(t, newGuarded(t).pod("${env:TOKEN}", "20ms"), func(c *agent.Config) {
		c.ConfigFile = config
		c.LookupEnv = func(string) (string, bool) { return "secret", true }
	})
	_, next := r.lines.await(t, 0, "pods applied", "cause=start")
	write(t, config, "apiVersion: prober.dev/v1\nkind: AgentConfig\nsecrets: {allow: [\"env:OTHER\"]}\n")
	_, next = r.lines.await(t, next, "pods were applied in part", "env:TOKEN", "not allowed")
	write(t, config, "apiVersion: prober.dev/v1\nkind: AgentConfig\nsecrets: {allow: [\"env:TOKEN\"]}\n")
	r.lines.await(t, next, "pods applied")
}
