//go:build linux

package attacks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/test/kube/bed"
)

// newNode starts an agent for the real node, with the socket of the runtime and podNetwork.
func newNode(t *testing.T) *yard {
	t.Helper()
	y := &yard{Cluster: bed.Up(t, bed.Node)}
	y.namespace = y.Namespace(t)
	y.network(t)
	y.owner = y.newOwner(t)
	y.agent = y.StartAgent(t, bed.AgentConfig{
		Namespace: y.Namespace(t), Config: bed.AgentYAML + "  podNetwork: true\n", Flags: []string{"--listen=" + agentAt, "--cri-socket=" + bed.CRISocket},
	})
	return y
}

// createPod creates a pod on the real node, as the owner.
func (y *yard) createPod(t *testing.T, name, probes string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := bed.Pod(name, nil)
	pod.Annotations = map[string]string{"prober.dev/probes": probes}
	if change != nil {
		change(pod)
	}
	pod, err := y.owner.CoreV1().Pods(y.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// TestNewPodsReachNoLoopback starts pods whose probes have no host. By the runtime, the agent knows that
// their containers run before the kubelet has published the addresses of the pods.
func TestNewPodsReachNoLoopback(t *testing.T) {
	y := newNode(t)
	const pods = 8
	for i := range pods {
		y.createPod(t, fmt.Sprint("a", i), `{"app": {"readiness": {"tcpSocket": {"port": 8080}, "period": "100ms"}, "liveness": {"httpGet": {"port": 8080, "path": "/healthz"}, "period": "100ms"}}}`, nil)
	}
	for i := range pods {
		y.awaitTicks(t, fmt.Sprint("a", i), 10)
	}
	y.nothingReached(t)
}

// TestExecInAnotherContainer writes the ID of another pod's container into the status of a pod. The agent
// must not run a command there.
func TestExecInAnotherContainer(t *testing.T) {
	y := newNode(t)
	victims := y.Namespace(t)
	y.Create(t, victims, bed.Pod("victim", nil))
	running := func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Running != nil
	}
	victim := y.AwaitPod(t, victims, "victim", "runs", running)
	id := victim.Status.ContainerStatuses[0].ContainerID
	y.createPod(t, "thief", `{"app": {"readiness": {"exec": {"command": ["/app", "touch", "/tmp/sick"]}, "period": "100ms"}}}`, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Image = "prober.test/missing:1" // it never runs, so the kubelet seldom writes its status
	})
	thief := y.AwaitPod(t, y.namespace, "thief", "waits", func(p *corev1.Pod) bool { return len(p.Status.ContainerStatuses) == 1 })
	status := map[string]any{"phase": "Running", "podIP": victim.Status.PodIP, "podIPs": victim.Status.PodIPs, "containerStatuses": []any{map[string]any{
		"name": "app", "image": "x", "imageID": "x", "containerID": id, "started": true, "ready": true, "restartCount": 7,
		"state": map[string]any{"running": map[string]any{"startedAt": metav1.Now()}},
	}}}
	y.createPod(t, "benign", `{"app": {"readiness": {"tcpSocket": {"port": 8080}, "period": "100ms"}}}`, nil)
	for range 10 {
		y.status(t, thief, status) // the kubelet may have overwritten it
		y.awaitTicks(t, "benign", 2)
	}
	if code := bed.HTTPStatus(t, "http://"+victim.Status.PodIP+":8080/healthz"); code != 200 {
		t.Errorf("the command has run in the container of another pod: %d", code)
	}
	if succeeded(y.metrics(t), "thief") {
		t.Error("the command has succeeded")
	}
}

// succeeded reports whether metrics count a success of a pod.
func succeeded(text, pod string) bool {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "prober_probe_total{") && strings.Contains(line, `pod="`+pod+`"`) && strings.Contains(line, `result="successful"`) && !strings.HasSuffix(line, " 0\n") {
			return true
		}
	}
	return false
}

// TestPodNetworkLoopback requests probes of the loopback address in the network of the pod. They are refused
// if the pod uses the network of its node, and otherwise reach the loopback of the pod.
func TestPodNetworkLoopback(t *testing.T) {
	y := newNode(t)
	const probes = `{"app": {"readiness": {"tcpSocket": {"port": 8080, "host": "127.0.0.1"}, "period": "100ms"}}}`
	in := func(pod *corev1.Pod) { pod.Annotations["prober.dev/network"] = "pod" }
	y.createPod(t, "host", probes, func(pod *corev1.Pod) {
		in(pod)
		pod.Spec.HostNetwork = true
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "ADDR", Value: "127.0.0.2:18080"})
	})
	bed.Await(t, "an event of the pod in the network of its node", func() bool { return len(y.events(t)["host"]) > 0 && hasReason(y.events(t)["host"], "ProbeInvalid") })
	for _, e := range y.events(t)["host"] {
		if e.Reason == "ProbeInvalid" && !strings.Contains(e.Message, "the pod is in the network of its node") {
			t.Errorf("event: %s", e.Message)
		}
	}
	y.createPod(t, "own", probes, in)
	bed.Await(t, "a success in the network of a pod", func() bool { return succeeded(y.metrics(t), "own") })
	y.nothingReached(t)
	// Without the annotation, the loopback would be the node's, and is refused.
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{"prober.dev/network": nil}}})
	if _, err := y.owner.CoreV1().Pods(y.namespace).Patch(t.Context(), "own", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	bed.Await(t, "an event about the loopback", func() bool { return hasReason(y.events(t)["own"], "ProbeInvalid") })
	y.nothingReached(t)
}

func hasReason(events []corev1.Event, reason string) bool {
	for _, e := range events {
		if e.Reason == reason {
			return true
		}
	}
	return false
}
