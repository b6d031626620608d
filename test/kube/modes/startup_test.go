//go:build linux

package modes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/test/kube/bed"
)

// startedPod returns a pod for startup probes that succeed when the file /data/started exists. The file
// survives restarts of the container.
func startedPod(name, probes string) *corev1.Pod {
	pod := probed(name, probes, "restart", nil)
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	return pod
}

// begin creates the file /data/started in a pod.
func (r *rig) begin(t *testing.T, ns, pod string) {
	t.Helper()
	r.Kubectl(t, "-n", ns, "exec", pod, "--", "/app", "touch", "/data/started")
}

// startup checks a startup probe that fails until the container is restarted. The liveness probe would
// succeed, but must wait for the startup probe.
func (r *rig) startup(t *testing.T) {
	ns := r.namespace(t)
	r.run(t, ns, startedPod("web", `app: {
		startup: {exec: {command: [/app, cat, /data/started]}, period: 200ms, timeout: 10s, failureThreshold: 10},
		liveness: {httpGet: {path: /healthz, port: 8080}, period: 200ms}}`))
	r.awaitEvent(t, ns, "web", "Unhealthy", "Startup probe failed: ")
	r.awaitEvent(t, ns, "web", "Killing", "Container app failed startup probe, will be restarted")
	r.AwaitPod(t, ns, "web", "restarted", func(pod *corev1.Pod) bool {
		return container(pod).RestartCount > 0 && container(pod).State.Running != nil
	})
	if p := r.probe(t, ns, "web", "app", "liveness"); p.Last != nil {
		t.Errorf("the liveness probe did not wait for the startup probe: %+v", p.Last)
	}
	r.begin(t, ns, "web")
	r.awaitRun(t, ns, "web", "success")
	r.AwaitPod(t, ns, "web", "live", bed.HasCondition(live, corev1.ConditionTrue))
}

// kubeletStartup checks that the agent's liveness probe waits for a startup probe of the kubelet.
func (r *rig) kubeletStartup(t *testing.T) {
	ns := r.namespace(t)
	pod := startedPod("web", goodLiveness)
	pod.Spec.Containers[0].StartupProbe = &corev1.Probe{
		PeriodSeconds: 1, TimeoutSeconds: 10, FailureThreshold: 1000,
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/app", "cat", "/data/started"}}},
	}
	r.Create(t, ns, pod)
	r.AwaitPod(t, ns, "web", "running", func(pod *corev1.Pod) bool { return container(pod).State.Running != nil })
	bed.Await(t, "the liveness probe to be held", func() bool { return r.probe(t, ns, "web", "app", "liveness").Gate != "" })
	if p := r.probe(t, ns, "web", "app", "liveness"); p.Last != nil {
		t.Errorf("the liveness probe did not wait for the startup probe of the kubelet: %+v", p.Last)
	}
	r.begin(t, ns, "web")
	r.awaitRun(t, ns, "web", "success")
	r.notRestarted(t, ns, "web")
}
