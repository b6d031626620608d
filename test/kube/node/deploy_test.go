//go:build linux

package node

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/test/kube/bed"
)

const system = "prober-system"

// kubectl runs kubectl as an administrator, and returns its output.
func kubectl(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(filepath.Join(os.Getenv("PROBER_KUBE_TOOLS"), "kubectl"), append([]string{"--kubeconfig=" + bed.Kubeconfig("admin")}, args...)...)
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &out, append(os.Environ(), "HOME="+t.TempDir())
	err = cmd.Run()
	return out.String(), err
}

// install applies deploy/kubernetes with some components and keys of prober.yaml. It deletes the workloads at
// the end of the test.
func install(t *testing.T, config string, components ...string) {
	t.Helper()
	dir := t.TempDir()
	deploy, err := filepath.Abs("../../../deploy/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	if deploy, err = filepath.Rel(dir, deploy); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString("namespace: prober-system\nresources: [" + deploy + "/base]\n" +
		"images: [{name: localhost/prober, newTag: bed}]\n" +
		"configMapGenerator: [{name: prober, behavior: merge, files: [prober.yaml]}]\ncomponents:\n")
	for _, c := range components {
		text.WriteString("- " + deploy + "/components/" + c + "\n")
	}
	// The machine may be busy, and an open breaker would keep conditions from becoming false.
	config = "apiVersion: prober.dev/v1\nkind: AgentConfig\nkubernetes:\n  breaker: {lag: 1h, pressure: {cpu: 100, memory: 100, io: 100}}\n" + config
	for name, text := range map[string]string{"kustomization.yaml": text.String(), "prober.yaml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // other tests run their own agent
		out, err := kubectl(t, "-n", system, "delete", "daemonset,deployment", "--all", "--cascade=foreground", "--timeout=2m")
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	if out, err := kubectl(t, "apply", "-k", dir); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// cluster is a cluster with deploy/kubernetes.
type cluster struct{ *bed.Cluster }

// gatedPod creates the pod web with a readiness probe in a new namespace. It waits until the DaemonSet runs
// and the pod is ready.
func (c cluster) gatedPod(t *testing.T, probe string, annotations map[string]string) (namespace string) {
	t.Helper()
	ns := c.Namespace(t)
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, args := range [][]string{
			{"get", "pods", "-A", "-o", "wide"}, {"-n", system, "describe", "pods"},
			{"-n", system, "logs", "daemonset/prober", "--tail=50"}, {"-n", ns, "describe", "pods"},
		} {
			out, err := kubectl(t, args...)
			t.Logf("kubectl %q: %v\n%s", args, err, out)
		}
	})
	pod := bed.Pod("web", nil)
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	pod.Annotations = map[string]string{"prober.dev/probes": "app: {readiness: {" + probe + ", period: 200ms}}"}
	maps.Copy(pod.Annotations, annotations)
	c.Create(t, ns, pod)
	bed.Await(t, "the DaemonSet is rolled out", func() bool {
		d, err := c.Client.AppsV1().DaemonSets(system).Get(t.Context(), "prober", metav1.GetOptions{})
		return err == nil && d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedNumberScheduled == 1 && d.Status.NumberReady == 1
	})
	c.AwaitPod(t, ns, "web", "ready by its gate", bed.HasCondition(corev1.PodReady, corev1.ConditionTrue))
	return ns
}

// TestAgentLossMakesPodUnready deletes the DaemonSet. The lease of the agent expires after 40 s.
func TestAgentLossMakesPodUnready(t *testing.T) {
	c := cluster{bed.Up(t, bed.Node)}
	c.ImportProber(t)
	install(t, "", "agent-loss")
	bed.Await(t, "the Deployment is rolled out", func() bool {
		d, err := c.Client.AppsV1().Deployments(system).Get(t.Context(), "prober-agent-loss", metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == 1
	})
	ns := c.gatedPod(t, "tcpSocket: {port: 8080}", map[string]string{"prober.dev/on-agent-loss": "unready"})
	bed.Await(t, "the lease of the agent", func() bool {
		_, err := c.Client.CoordinationV1().Leases(system).Get(t.Context(), "prober-"+bed.NodeName, metav1.GetOptions{})
		return err == nil
	})
	if out, err := kubectl(t, "-n", system, "delete", "daemonset", "prober"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.AwaitPod(t, ns, "web", "unready because its agent is lost", func(pod *corev1.Pod) bool {
		return bed.HasCondition(corev1.PodReady, corev1.ConditionFalse)(pod) && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate && c.Reason == "AgentLost"
		})
	})
}

// TestDaemonSetRuns installs deploy/kubernetes without and with privileges, and runs a probe each time.
func TestDaemonSetRuns(t *testing.T) {
	c := cluster{bed.Up(t, bed.Node)}
	c.ImportProber(t)
	for _, test := range []struct {
		name, config, probe string
		components          []string
		annotations         map[string]string
	}{
		{name: "base", probe: "httpGet: {path: /healthz, port: 8080}"},
		{
			name: "exec by the runtime", config: "  liveness: {modes: [observe, restart]}\n", probe: "exec: {command: [/app, check, '0']}",
			components: []string{"cri"},
		},
		{
			name: "exec by the API server", config: "  apiExec: true\n", probe: "exec: {command: [/app, check, '0']}",
			components: []string{"exec-api"},
		},
		{
			name: "network of the pod", config: "  podNetwork: true\n", probe: "tcpSocket: {host: 127.0.0.1, port: 8080}",
			components: []string{"cri", "pod-network", "evict", "exec-api"}, annotations: map[string]string{"prober.dev/network": "pod"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			install(t, test.config, test.components...)
			ns := c.gatedPod(t, test.probe, test.annotations)
			for _, args := range [][]string{{"get", "probes"}, {"explain", ns + "/web/app", "readiness"}, {"pause", ns + "/web/app", "readiness", "--for", "10m"}} {
				out, err := kubectl(t, append([]string{"-n", system, "exec", "daemonset/prober", "--", "prober"}, args...)...)
				if err != nil {
					t.Errorf("prober %s: %v\n%s", strings.Join(args, " "), err, out)
				}
			}
		})
	}
}
