//go:build linux

package deploytest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/policy"
	"github.com/daeace23/prober/test/kube/bed"
)

// apply runs kubectl apply on a text, and returns its stderr if it fails.
func apply(t *testing.T, namespace, text string) (refusal string) {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("PROBER_KUBE_TOOLS"), "kubectl"), "apply", "-n", namespace, "-f", "-", "--kubeconfig="+bed.Kubeconfig("admin"))
	cmd.Stdin, cmd.Stderr, cmd.Env = strings.NewReader(text), &errs, append(os.Environ(), "HOME="+t.TempDir())
	if err := cmd.Run(); err != nil {
		return errs.String()
	}
	return ""
}

const policyHead = "apiVersion: prober.dev/v1alpha1\nkind: ProbePolicy\nmetadata: {name: cache}\nspec:\n"

func probePolicy(probes string) string {
	return policyHead + "  selector: {matchLabels: {app: cache}}\n  probes: [" + probes + "]\n"
}

// TestPoliciesAreValidated checks what the API server refuses before a controller sees it.
func TestPoliciesAreValidated(t *testing.T) {
	bed.Up(t, bed.API)
	kubectl(t, "apply", "-f", "../../../deploy/kubernetes/components/policies/crds.yaml")
	kubectl(t, "wait", "--for=condition=Established", "crd/probepolicies.prober.dev", "crd/nodeprobes.prober.dev", "--timeout=60s")
	const ping = "{name: ping, container: redis, kind: Readiness, plugin: {name: redis, target: {port: redis}, config: {ping: true, deep: [{a: 1}]}}, period: 500ms}"
	const live = "{name: live, container: redis, kind: Liveness, tcpSocket: {port: 6379}}"
	for _, c := range []struct{ name, text, want string }{
		{"valid", probePolicy(ping + ", " + live), ""},
		{"combined", probePolicy("{name: a, container: c, kind: Startup, atLeast: {min: 2, of: {x: {httpGet: {port: web, path: /}, weight: 2}, y: {exec: {command: [x]}}}}}"), ""},
		{"no probes", probePolicy(""), "spec.probes"},
		{"two handlers", probePolicy("{name: a, container: c, kind: Startup, httpGet: {port: 1}, tcpSocket: {port: 1}}"), "a probe has one of"},
		{"no handler", probePolicy("{name: a, container: c, kind: Startup}"), "a probe has one of"},
		{"kind", probePolicy("{name: a, container: c, kind: startup, tcpSocket: {port: 1}}"), `supported values: "Liveness", "Readiness", "Startup"`},
		{"no container", probePolicy("{name: a, kind: Startup, tcpSocket: {port: 1}}"), "container: Required"},
		{"name", probePolicy("{name: A_b, container: c, kind: Startup, tcpSocket: {port: 1}}"), "spec.probes[0].name"},
		{"same name", probePolicy(ping + ", " + strings.ReplaceAll(live, "live", "ping")), "Duplicate"},
		{"same container and kind", probePolicy(ping + ", " + strings.NewReplacer("Liveness", "Readiness").Replace(live)), "a container has one probe of a kind"},
		{"unknown field", probePolicy("{name: a, container: c, kind: Startup, tcpSocket: {port: 1}, periode: 1s}"), `unknown field "spec.probes[0].periode"`},
		{"duration", probePolicy("{name: a, container: c, kind: Startup, tcpSocket: {port: 1}, period: soon}"), "spec.probes[0].period"},
		{"liveness", probePolicy(ping) + "  liveness: kill\n", "spec.liveness"},
		{"other selector", strings.ReplaceAll(probePolicy(ping), "app: cache", "app: db"), "cannot be changed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			refusal := apply(t, "default", c.text)
			if c.want == "" && refusal != "" || !strings.Contains(refusal, c.want) || c.want != "" && refusal == "" {
				t.Errorf("got %q, want %q", refusal, c.want)
			}
		})
	}
}

// TestAgentReadsPolicies checks that the account of an agent may read the policies of its node, and nothing else of
// prober.dev, and that a probe comes back as it was written.
func TestAgentReadsPolicies(t *testing.T) {
	y := newYard(t)
	kubectl(t, "apply", "-k", kustomization(t, "evict", "exec-api", "agent-loss", "policies"))
	kubectl(t, "wait", "--for=condition=Established", "crd/probepolicies.prober.dev", "crd/nodeprobes.prober.dev", "--timeout=60s")
	text := "apiVersion: prober.dev/v1alpha1\nkind: NodeProbes\nmetadata: {name: NODE}\nspec: {policies: [{namespace: shop, name: cache, uid: u, generation: 3, created: '2026-01-02T03:04:05Z', " +
		"selector: {matchLabels: {app: cache}}, probes: [{name: ping, container: c, kind: Liveness, plugin: {name: redis, config: {count: 12345678901, s: \"a\\u2028b\"}}}]}]}\n"
	for _, node := range []string{"node-a", "node-b"} {
		if refusal := apply(t, "default", strings.ReplaceAll(text, "NODE", node)); refusal != "" {
			t.Fatal(refusal)
		}
	}
	kubeconfig := y.Kubeconfig(t, y.token(t, render(t, kustomization(t, "policies")).pods["prober"], "node-a"))
	client, err := api.New(api.Config{Kubeconfig: kubeconfig, Node: "node-a"})
	if err != nil {
		t.Fatal(err)
	}
	source := cache.ToListerWatcherWithContext(client.NodeProbes())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var list *policy.NodeProbesList
	bed.Await(t, "the agent may list", func() bool {
		o, err := source.ListWithContext(ctx, metav1.ListOptions{})
		list, _ = o.(*policy.NodeProbesList)
		return err == nil && list != nil
	})
	if len(list.Items) != 1 || list.Items[0].Name != "node-a" || len(list.Items[0].Spec.Policies) != 1 {
		t.Fatalf("got %+v", list.Items)
	}
	got := list.Items[0].Spec.Policies[0]
	const want = `{"plugin":{"config":{"count":12345678901,"s":"a\u2028b"},"name":"redis"}}`
	if string(got.Probes[0].Text) != want || got.Probes[0].Kind != "Liveness" || got.Generation != 3 || got.Created.Year() != 2026 || got.Selector.MatchLabels["app"] != "cache" {
		t.Errorf("got %+v with %s", got, got.Probes[0].Text)
	}
}
