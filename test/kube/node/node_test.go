//go:build linux

// Package node has tests that need a node with a kubelet.
package node

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/test/kube/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

const gate = "prober.dev/ready"

// TestGateHoldsRollout rolls out a Deployment. Its pods are ready only after their gates are True.
func TestGateHoldsRollout(t *testing.T) {
	c := bed.Up(t, bed.Node)
	ns := c.Namespace(t)
	pod := bed.Pod("web", nil)
	pod.Spec.NodeName = "" // the scheduler sets it
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	deployments := c.Client.AppsV1().Deployments(ns)
	_, err := deployments.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)),
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods := func() []corev1.Pod {
		list, err := c.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	bed.Await(t, "two pods to run", func() bool {
		running := 0
		for _, p := range pods() {
			if bed.HasCondition(corev1.ContainersReady, corev1.ConditionTrue)(&p) {
				running++
			}
		}
		return running == 2
	})
	for _, p := range pods() {
		if bed.HasCondition(corev1.PodReady, corev1.ConditionTrue)(&p) {
			t.Errorf("pod %s is ready before its gate", p.Name)
		}
		c.SetCondition(t, &p, gate, corev1.ConditionTrue)
	}
	patched := time.Now()
	bed.Await(t, "the Deployment to have two pods that are ready", func() bool {
		d, err := deployments.Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && d.Status.ReadyReplicas == 2
	})
	t.Logf("two pods were ready %v after the patch", time.Since(patched).Round(time.Millisecond))
}

// TestKubeletRestarts checks that a liveness probe of the kubelet restarts a sick app.
func TestKubeletRestarts(t *testing.T) {
	c := bed.Up(t, bed.Node)
	ns := c.Namespace(t)
	pod := bed.Pod("web", nil)
	pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{
		PeriodSeconds: 1, FailureThreshold: 1,
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)}},
	}
	c.Create(t, ns, pod)
	ready := c.AwaitPod(t, ns, "web", "ready", bed.HasCondition(corev1.PodReady, corev1.ConditionTrue))
	bed.HTTPStatus(t, "http://"+ready.Status.PodIP+":8080/sick")
	c.AwaitPod(t, ns, "web", "restarted, and ready", func(pod *corev1.Pod) bool {
		return restarts(pod) == 1 && bed.HasCondition(corev1.PodReady, corev1.ConditionTrue)(pod)
	})
}

func restarts(pod *corev1.Pod) int32 {
	if len(pod.Status.ContainerStatuses) != 1 {
		return -1
	}
	return pod.Status.ContainerStatuses[0].RestartCount
}

// TestPodReachesAPIServer runs a pod with a token that sends a request to the Service of the API server. It
// uses the IP address: the cluster has no name server.
func TestPodReachesAPIServer(t *testing.T) {
	c := bed.Up(t, bed.Node)
	ns := c.Namespace(t)
	pod := bed.Pod("client", nil)
	pod.Spec.AutomountServiceAccountToken = nil
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Containers[0].Args = []string{"get", "https://" + bed.ServiceIP + "/version"}
	c.Create(t, ns, pod)
	c.AwaitPod(t, ns, "client", "succeeded", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
}

// TestFaults drops packets, stops the runtime and the kubelet, and reboots the node, while a pod runs.
func TestFaults(t *testing.T) {
	c := bed.Up(t, bed.Node)
	ns := c.Namespace(t)
	c.Create(t, ns, bed.Pod("web", nil))
	before := c.AwaitPod(t, ns, "web", "ready", bed.HasCondition(corev1.PodReady, corev1.ConditionTrue))
	answers := func(pod *corev1.Pod) bool {
		client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get("http://" + pod.Status.PodIP + ":8080/healthz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}

	undo := bed.Drop(t, "ip daddr "+before.Status.PodIP+" tcp dport 8080")
	if answers(before) {
		t.Error("the app answers though its packets are dropped")
	}
	undo()
	bed.Await(t, "the app to answer", func() bool { return answers(before) })

	c.Kubelet.Stop(t)
	c.Containerd.Stop(t)
	if !answers(before) {
		t.Error("the app has ended with the runtime")
	}
	c.Containerd.Start(t)
	c.Kubelet.Start(t)
	if pod := c.AwaitPod(t, ns, "web", "ready", bed.HasCondition(corev1.PodReady, corev1.ConditionTrue)); restarts(pod) != 0 {
		t.Errorf("%d restarts of the container after a restart of the runtime", restarts(pod))
	}

	boot := bootID(t)
	rebooted := time.Now()
	c.RebootNode(t)
	t.Logf("the node was ready %v after the reboot began", time.Since(rebooted).Round(time.Millisecond))
	after := c.AwaitPod(t, ns, "web", "started again, and ready", func(pod *corev1.Pod) bool {
		return restarts(pod) == 1 && bed.HasCondition(corev1.PodReady, corev1.ConditionTrue)(pod)
	})
	bed.Await(t, "the app to answer", func() bool { return answers(after) })
	node, err := c.Client.CoreV1().Nodes().Get(t.Context(), bed.NodeName, metav1.GetOptions{})
	if err != nil || node.Status.NodeInfo.BootID == boot || node.Status.NodeInfo.BootID != bootID(t) {
		t.Errorf("boot %q after %q: %v", node.Status.NodeInfo.BootID, boot, err)
	}
}

func bootID(t *testing.T) string {
	t.Helper()
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(id))
}

// TestProberImage runs the image of a release in a pod.
func TestProberImage(t *testing.T) {
	c := bed.Up(t, bed.Node)
	ns := c.Namespace(t)
	c.ImportProber(t)
	pod := bed.Pod("prober", nil)
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Containers[0].Image, pod.Spec.Containers[0].Args = bed.ProberImage, []string{"version"}
	c.Create(t, ns, pod)
	c.AwaitPod(t, ns, "prober", "succeeded", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
}
