//go:build linux

package modes

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/test/kube/bed"
)

// Messages of events, with the kubelet's wording.
const (
	unhealthy = "Liveness probe failed: HTTP probe failed with statuscode: 503"
	killing   = "Container app failed liveness probe, will be restarted"
)

// restartPolite restarts an app that ends one second after SIGTERM.
func (r *rig) restartPolite(t *testing.T) {
	pod := probed("polite", strings.Replace(goodLiveness, "app: {", "app: {readiness: {httpGet: {path: /ready, port: 8080}, period: 200ms}, ", 1), "restart", map[string]string{"TERM_DELAY": "1s"})
	pod.Spec.TerminationGracePeriodSeconds = new(int64(60))
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/hook", Port: intstr.FromInt32(8080)}}}
	if code := container(r.restart(t, pod)).LastTerminationState.Terminated.ExitCode; code != 0 {
		t.Errorf("exit code %d, want 0: the app has 60 s to end", code)
	}
}

// restartStubborn restarts an app that ignores SIGTERM. The grace period of the pod is longer than tests
// wait.
func (r *rig) restartStubborn(t *testing.T) {
	pod := probed("stubborn", strings.Replace(goodLiveness, "liveness: {", "liveness: {terminationGracePeriodSeconds: 4, ", 1), "restart", map[string]string{"TERM_DELAY": "1h"})
	pod.Spec.TerminationGracePeriodSeconds = new(int64(600))
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/app", "hook"}}}}
	after := r.restart(t, pod)
	if code := container(after).LastTerminationState.Terminated.ExitCode; code != 137 {
		t.Errorf("exit code %d, want 137", code)
	}
	// Otherwise the deletion of the namespace would take ten minutes.
	if err := r.Client.CoreV1().Pods(after.Namespace).Delete(t.Context(), after.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}); err != nil {
		t.Error(err)
	}
}

// restart makes the app of a pod sick, waits until it was restarted and its probe has succeeded ten times,
// and returns the pod.
func (r *rig) restart(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	ns := r.namespace(t)
	sicken(t, r.run(t, ns, pod))
	sick := time.Now()
	r.awaitEvent(t, ns, pod.Name, "Unhealthy", unhealthy)
	r.awaitEvent(t, ns, pod.Name, "Killing", killing)
	r.AwaitPod(t, ns, pod.Name, "restarted, and ready", restarted)
	t.Logf("%s was ready %v after its app was sick", pod.Name, time.Since(sick).Round(time.Millisecond))
	r.awaitRun(t, ns, pod.Name, "success")
	after := r.AwaitPod(t, ns, pod.Name, "live again", bed.HasCondition(live, corev1.ConditionTrue))
	if !restarted(after) {
		t.Errorf("the new container was restarted too: %+v", after.Status)
	}
	if all := r.events(t, ns, pod.Name, "Killing"); len(all) != 1 || all[0].Count != 1 {
		t.Errorf("events about the end of the container: %+v", all)
	}
	log := r.previousLog(t, ns, pod.Name)
	if hook, term := strings.Index(log, "a hook runs"), strings.Index(log, "got terminated"); hook < 0 || term < hook {
		t.Errorf("the hook did not run before SIGTERM:\n%s", log)
	}
	return after
}

// refuse checks that the agent does not restart containers that the kubelet would not start again after
// SIGTERM.
func (r *rig) refuse(t *testing.T) {
	ns := r.namespace(t)
	pods := map[corev1.RestartPolicy]*corev1.Pod{}
	for _, policy := range []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever} {
		pod := probed(strings.ToLower(string(policy)), goodLiveness, "restart", nil)
		pod.Spec.RestartPolicy = policy
		pods[policy] = r.run(t, ns, pod)
	}
	job := probed("job", goodLiveness, "restart", nil)
	job.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	pods["Job"] = r.job(t, ns, job)
	for _, pod := range pods {
		sicken(t, pod)
	}
	for policy, pod := range pods {
		want := "The liveness probe of container app fails, and container app is not restarted: its restart policy does not start it again"
		if policy != corev1.RestartPolicyNever {
			want += " after each exit code"
		}
		r.awaitEvent(t, ns, pod.Name, "ProbeRestartRefused", want)
		r.awaitRun(t, ns, pod.Name, "failure")
		r.notRestarted(t, ns, pod.Name)
	}
}

// kill checks onFailure: kill. Containers that would complete after SIGTERM are killed, so that the kubelet
// starts them again. A container with the restart policy Never gets SIGTERM, as from the kubelet.
func (r *rig) kill(t *testing.T) {
	ns := r.namespace(t)
	alone, job := probed("alone", goodLiveness, "restart", nil), probed("job", goodLiveness, "restart", nil)
	alone.Spec.RestartPolicy, job.Spec.RestartPolicy = corev1.RestartPolicyOnFailure, corev1.RestartPolicyOnFailure
	never := probed("never", goodLiveness, "restart", nil)
	never.Spec.RestartPolicy = corev1.RestartPolicyNever
	sicken(t, r.run(t, ns, never))
	pods := []*corev1.Pod{r.run(t, ns, alone), r.job(t, ns, job)}
	for _, pod := range pods {
		sicken(t, pod)
	}
	for _, pod := range pods {
		after := r.AwaitPod(t, ns, pod.Name, "restarted, and ready", restarted)
		if ended := container(after).LastTerminationState.Terminated; ended.ExitCode != 137 {
			t.Errorf("pod %s: exit code %d, want 137", pod.Name, ended.ExitCode)
		}
		r.awaitEvent(t, ns, pod.Name, "Killing", killing)
		r.awaitRun(t, ns, pod.Name, "success")
	}
	r.AwaitPod(t, ns, "never", "ended with code 0", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
	r.awaitEvent(t, ns, "never", "Killing", "Container app failed liveness probe")
}
