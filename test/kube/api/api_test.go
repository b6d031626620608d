//go:build linux

// Package api has tests that need the API server of Kubernetes, but no node.
package api

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/daeace23/prober/test/kube/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

const gate = "prober.dev/ready"

// gated returns a pod with a readiness gate.
func gated(name string) *corev1.Pod {
	pod := bed.Pod(name, nil)
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	return pod
}

// TestConditionIsPatched patches conditions of a pod on a node without a kubelet.
func TestConditionIsPatched(t *testing.T) {
	c := bed.Up(t, bed.API)
	ns := c.Namespace(t)
	pod := c.Create(t, ns, gated("web"))
	c.SetCondition(t, pod, corev1.PodReady, corev1.ConditionFalse) // as a kubelet does
	c.SetCondition(t, pod, gate, corev1.ConditionTrue)
	got := c.AwaitPod(t, ns, "web", "condition", bed.HasCondition(gate, corev1.ConditionTrue))
	if !bed.HasCondition(corev1.PodReady, corev1.ConditionFalse)(got) || len(got.Status.Conditions) != 2 {
		t.Errorf("conditions: %+v", got.Status.Conditions)
	}
	list, err := c.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=another"})
	if err != nil || len(list.Items) != 0 {
		t.Errorf("pods of another node: %d, %v", len(list.Items), err)
	}
	other := pod.DeepCopy()
	other.UID = "another"
	_, err = c.Client.CoreV1().Pods(ns).Patch(t.Context(), "web", types.StrategicMergePatchType, bed.ConditionPatch(other, gate, corev1.ConditionFalse), metav1.PatchOptions{}, "status")
	if !apierrors.IsInvalid(err) { // although a conflict would be expected
		t.Errorf("patch of a pod with another UID: %v, want that it is invalid", err)
	}
}

// TestServiceAccountNeedsRole patches a condition as a service account, before and after a role allows it.
func TestServiceAccountNeedsRole(t *testing.T) {
	c := bed.Up(t, bed.API)
	ns := c.Namespace(t)
	pod := c.Create(t, ns, gated("web"))
	client, err := kubernetes.NewForConfig(c.ServiceAccount(t, ns, "default", nil))
	if err != nil {
		t.Fatal(err)
	}
	patch := func() error {
		_, err := client.CoreV1().Pods(ns).Patch(t.Context(), "web", types.StrategicMergePatchType, bed.ConditionPatch(pod, gate, corev1.ConditionTrue), metav1.PatchOptions{}, "status")
		return err
	}
	if err := patch(); !apierrors.IsForbidden(err) {
		t.Errorf("patch without a role: %v, want that it is forbidden", err)
	}
	c.Allow(t, ns, "default", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}})
	bed.Await(t, "the role to allow the patch", func() bool { return patch() == nil })
	if _, err := client.CoreV1().Pods(ns).Get(t.Context(), "web", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("get: %v, want that it is forbidden", err)
	}
}

// TestTokenIsBoundToNode checks that the API server sees the name of the node to which a token is bound.
func TestTokenIsBoundToNode(t *testing.T) {
	c := bed.Up(t, bed.API)
	ns := c.Namespace(t)
	node := c.FakeNode(t, "node-2")
	who := c.WhoIs(t, c.ServiceAccount(t, ns, "default", node))
	if got := who.Extra["authentication.kubernetes.io/node-name"]; who.Username != "system:serviceaccount:"+ns+":default" || len(got) != 1 || got[0] != "node-2" {
		t.Errorf("user: %+v", who)
	}
}

// TestAPIServerRestarts stops the API server and starts it again.
func TestAPIServerRestarts(t *testing.T) {
	c := bed.Up(t, bed.API)
	ns := c.Namespace(t)
	c.Create(t, ns, gated("web"))
	c.APIServer.Stop(t)
	if _, err := c.Client.CoreV1().Pods(ns).Get(t.Context(), "web", metav1.GetOptions{}); err == nil {
		t.Error("the API server answers after its end")
	}
	c.APIServer.Start(t)
	if _, err := c.Client.CoreV1().Pods(ns).Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
