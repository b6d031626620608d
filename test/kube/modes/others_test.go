//go:build linux

package modes

import (
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/daeace23/prober/test/kube/bed"
)

// sidecar runs examples/kubernetes/sidecar.yaml with the images of the tests and shorter periods of the
// kubelet's probes. The kubelet restarts the container; the agent of the node must not.
func (r *rig) sidecar(t *testing.T) {
	r.ImportProber(t)
	data, err := os.ReadFile("../../../examples/kubernetes/sidecar.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(data, pod); err != nil {
		t.Fatal(err)
	}
	pod.Annotations["prober.dev/liveness"] = "sidecar"
	pod.Spec.AutomountServiceAccountToken = new(bool)
	pod.Spec.TerminationGracePeriodSeconds = new(int64(600)) // longer than tests wait
	prober, web := &pod.Spec.InitContainers[0], &pod.Spec.Containers[0]
	prober.Image, prober.ImagePullPolicy = bed.ProberImage, corev1.PullNever
	web.Image, web.ImagePullPolicy = bed.AppImage, corev1.PullNever
	web.Env = []corev1.EnvVar{{Name: "RESP_ADDR", Value: ":6379"}}
	web.LivenessProbe.PeriodSeconds, web.LivenessProbe.FailureThreshold = 1, 2
	ns := r.namespace(t)
	sicken(t, r.run(t, ns, pod))
	after := r.AwaitPod(t, ns, pod.Name, "restarted by the kubelet, and ready", func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].RestartCount == 1 && bed.HasCondition(corev1.PodReady, corev1.ConditionTrue)(pod)
	})
	if n := after.Status.InitContainerStatuses[0].RestartCount; n != 0 {
		t.Errorf("the sidecar was restarted %d times", n)
	}
	if all := r.events(t, ns, pod.Name, "Killing"); len(all) != 0 {
		t.Errorf("the agent has acted: %+v", all)
	}
	deleted := time.Now()
	if err := r.Client.CoreV1().Pods(ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.awaitGone(t, after)
	t.Logf("the pod was gone %v after it was deleted", time.Since(deleted).Round(time.Millisecond))
}

// awaitGone waits until a pod does not exist.
func (r *rig) awaitGone(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	bed.Await(t, "the end of pod "+pod.Name, func() bool {
		_, err := r.Client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// evict checks that a pod is evicted only when its PodDisruptionBudget allows it.
func (r *rig) evict(t *testing.T) {
	ns := r.namespace(t)
	old := r.deploy(t, ns, probed("web", goodLiveness, "evict", nil), 1)[0]
	budgets := r.Client.PolicyV1().PodDisruptionBudgets(ns)
	_, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bed.Await(t, "the budget to know the pod", func() bool {
		b, err := budgets.Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && b.Status.ObservedGeneration > 0 && b.Status.ExpectedPods == 1 && b.Status.CurrentHealthy == 1
	})
	sicken(t, &old)
	r.awaitEvent(t, ns, old.Name, "ProbeEvictWithheld", "The liveness probe of container app fails, and the pod is not evicted: ")
	r.awaitRun(t, ns, old.Name, "failure")
	r.notRestarted(t, ns, old.Name)

	if err := budgets.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.awaitEvent(t, ns, old.Name, "ProbeEvicted", "Container app failed liveness probe, the pod is evicted")
	r.awaitGone(t, &old)
	bed.Await(t, "another pod to be ready", func() bool {
		pods := r.pods(t, ns)
		return len(pods) == 1 && pods[0].UID != old.UID && bed.HasCondition(corev1.PodReady, corev1.ConditionTrue)(&pods[0])
	})
}

// observe checks that the agent does not act on a pod in the mode observe.
func (r *rig) observe(t *testing.T) {
	ns := r.namespace(t)
	sicken(t, r.run(t, ns, probed("web", goodLiveness, "observe", nil)))
	pod := r.AwaitPod(t, ns, "web", "not live", bed.HasCondition(live, corev1.ConditionFalse))
	if c := condition(pod, live); c.Reason != "ProbeFailed" || c.Message != "app liveness: HTTP probe failed with statuscode: 503" {
		t.Errorf("condition: %+v", c)
	}
	r.awaitEvent(t, ns, "web", "Unhealthy", unhealthy)
	r.awaitRun(t, ns, "web", "failure")
	r.notRestarted(t, ns, "web")
	if all := r.events(t, ns, "web", ""); len(all) != 1 || all[0].Count != 1 {
		t.Errorf("%d events of the agent, want one: %+v", len(all), all)
	}
}

// dryRun checks that the agent writes events about a restart and an eviction, but acts on no pod and writes
// no condition.
func (r *rig) dryRun(t *testing.T) {
	ns := r.namespace(t)
	for mode, want := range map[string][2]string{
		"restart": {"ProbeWouldRestart", killing + " (dry run: nothing is done)"},
		"evict":   {"ProbeWouldEvict", "Container app failed liveness probe, the pod is evicted (dry run: nothing is done)"},
	} {
		sicken(t, r.run(t, ns, probed(mode, goodLiveness, mode, nil)))
		r.awaitEvent(t, ns, mode, "Unhealthy", unhealthy)
		r.awaitEvent(t, ns, mode, want[0], want[1])
		r.awaitRun(t, ns, mode, "failure")
		r.notRestarted(t, ns, mode)
	}
	for _, pod := range r.pods(t, ns) {
		if c := condition(&pod, live); c.Type != "" {
			t.Errorf("pod %s has a condition: %+v", pod.Name, c)
		}
	}
}

// noRuntime checks that the agent refuses restarts without a container runtime.
func (r *rig) noRuntime(t *testing.T) {
	ns := r.namespace(t)
	sicken(t, r.run(t, ns, probed("web", goodLiveness, "restart", nil)))
	r.awaitEvent(t, ns, "web", "ProbeRestartRefused", "The liveness probe of container app fails, and container app is not restarted: the agent has no access to the container runtime")
	r.awaitRun(t, ns, "web", "failure")
	r.notRestarted(t, ns, "web")
}
