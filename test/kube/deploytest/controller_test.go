//go:build linux

package deploytest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/controller"
	"github.com/daeace23/prober/pods/kube/policy"
	"github.com/daeace23/prober/test/kube/bed"
)

// controlled has probes whose JSON an API server could write differently.
const controlled = `
apiVersion: prober.dev/v1alpha1
kind: ProbePolicy
metadata: {name: NAME}
spec:
  selector: {matchLabels: LABELS}
  probes:
  - {name: a, container: c, kind: Readiness, plugin: {name: redis, config: {z: 1.50, n: 12345678901, s: "a<b>", list: [{b: 1, a: null}]}}, period: 500ms}
  - {name: b, container: c, kind: Liveness, httpGet: {port: web, path: "/?a=b&c"}, timeoutSeconds: 3}
`

// read decodes what kubectl prints.
func read[T any](t *testing.T, args ...string) (object T) {
	t.Helper()
	text, _ := kubectl(t, append([]string{"get", "-o", "json"}, args...)...)
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// TestControllerProgramsNodes runs two controllers with the account of the Deployment. Their rights suffice, and at
// rest they write nothing but the lease.
func TestControllerProgramsNodes(t *testing.T) {
	y := newYard(t)
	kubectl(t, "apply", "-k", kustomization(t, "evict", "exec-api", "agent-loss", "policies"))
	kubectl(t, "wait", "--for=condition=Established", "crd/probepolicies.prober.dev", "crd/nodeprobes.prober.dev", "--timeout=60s")
	kubectl(t, "label", "pod", "-n", y.namespace, "own", "asks", "tier=web")
	for name, labels := range map[string]string{"web": "{tier: web}", "none": "{tier: none}"} {
		file := filepath.Join(t.TempDir(), name+".yaml")
		if err := os.WriteFile(file, []byte(strings.NewReplacer("NAME", name, "LABELS", labels).Replace(controlled)), 0o600); err != nil {
			t.Fatal(err)
		}
		kubectl(t, "apply", "-n", y.namespace, "-f", file)
	}
	kubeconfig := y.Kubeconfig(t, y.token(t, render(t, kustomization(t, "policies")).pods["prober-controller"], "node-a"))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range 2 {
		client, err := api.New(api.Config{Kubeconfig: kubeconfig})
		if err != nil {
			t.Fatal(err)
		}
		log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})).With("replica", i)
		running.Go(func() {
			controller.New(controller.Config{Cluster: client, Namespace: system, Identity: fmt.Sprint("replica-", i), Logger: log}).Run(ctx)
		})
	}
	defer running.Wait()
	defer cancel()
	policies := func() map[string]policy.ProbePolicy {
		all := make(map[string]policy.ProbePolicy)
		for _, p := range read[policy.ProbePolicyList](t, "probepolicies", "-n", y.namespace).Items {
			all[p.Name] = p
		}
		return all
	}
	status := func(matched, healthy int, conditions string) {
		t.Helper()
		bed.Await(t, fmt.Sprintf("%d of %d pods are healthy, %s", healthy, matched, conditions), func() bool {
			p := policies()["web"]
			var got []string
			for _, c := range p.Status.Conditions {
				got = append(got, c.Type+"="+string(c.Status))
			}
			return p.Status.Pods.Matched == matched && p.Status.Pods.Healthy == healthy && strings.Join(got, " ") == conditions
		})
	}
	status(2, 0, "Accepted=True Programmed=True Healthy=Unknown")
	nodes := read[policy.NodeProbesList](t, "nodeprobes").Items
	web := policies()["web"]
	if len(nodes) != 2 || len(nodes[0].Spec.Policies) != 1 || nodes[0].Spec.Policies[0].UID != web.UID || string(nodes[0].Spec.Policies[0].Probes[0].Text) != string(web.Spec.Probes[0].Text) {
		t.Fatalf("NodeProbes %+v", nodes)
	}
	for _, pod := range []string{"own", "asks"} {
		if _, err := y.Client.CoreV1().Pods(y.namespace).Patch(t.Context(), pod, types.StrategicMergePatchType, []byte(ready("True", "ProbeSucceeded")), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	status(2, 2, "Accepted=True Programmed=True Healthy=True")
	kubectl(t, "delete", "pod", "-n", y.namespace, "asks", "--grace-period=0", "--force")
	status(1, 1, "Accepted=True Programmed=True Healthy=True")
	versions := func() string {
		var all []string
		for _, n := range read[policy.NodeProbesList](t, "nodeprobes").Items {
			all = append(all, n.Name+" "+n.ResourceVersion)
		}
		for name, p := range policies() {
			all = append(all, name+" "+p.ResourceVersion)
		}
		slices.Sort(all)
		return fmt.Sprint(len(all), " ", all)
	}
	before := versions()
	if !strings.HasPrefix(before, "3 ") {
		t.Errorf("a NodeProbes of a node without pods is left: %s", before)
	}
	time.Sleep(8 * time.Second) // more than the time between two writes of a status
	if after := versions(); after != before {
		t.Errorf("at rest: %s, then %s", before, after)
	}
	kubectl(t, "delete", "probepolicies", "-n", y.namespace, "--all")
	bed.Await(t, "no node has policies", func() bool { return len(read[policy.NodeProbesList](t, "nodeprobes").Items) == 0 })
}
