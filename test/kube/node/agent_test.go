//go:build linux

package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/test/kube/bed"
)

// TestAgentSetsGate runs an agent and a pod with a readiness gate. The kubelet reports the pod as ready while
// the probe succeeds, and as not ready while it fails.
func TestAgentSetsGate(t *testing.T) {
	c := bed.Up(t, bed.Node)
	ns := c.Namespace(t)
	agent := c.StartAgent(t, bed.AgentConfig{Namespace: ns, Flags: []string{"--cri-socket=" + bed.CRISocket}})
	pod := bed.Pod("web", nil)
	pod.Annotations = map[string]string{"prober.dev/probes": `app: {readiness: {httpGet: {path: /healthz, port: 8080}, period: 200ms, failureThreshold: 1}}`}
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	c.Create(t, ns, pod)
	pod = c.AwaitPod(t, ns, "web", "ready", bed.HasCondition(corev1.PodReady, corev1.ConditionTrue))
	bed.HTTPStatus(t, "http://"+pod.Status.PodIP+":8080/sick")
	c.AwaitPod(t, ns, "web", "not ready", bed.HasCondition(corev1.PodReady, corev1.ConditionFalse))
	if probes := agent.Probes(t, ns, "web"); len(probes) != 1 || probes[0].Result != "failure" {
		t.Errorf("probes: %+v", probes)
	}
	agent.Kill(t)
	if probes := agent.Probes(t, ns, "web"); len(probes) != 0 {
		t.Errorf("probes of an agent that was killed: %+v", probes)
	}
	agent.Start(t)
	bed.Await(t, "the agent to know the pod again", func() bool { return len(agent.Probes(t, ns, "web")) == 1 })
}
