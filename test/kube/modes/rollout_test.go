//go:build linux

package modes

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/test/kube/bed"
)

// versionProbe checks the version of an app by a plugin. The kubelet's probe does not check it.
const versionProbe = `app: {readiness: {plugin: {name: httpcheck, target: {port: 8080}, config: {url: /version, failIfBodyNotMatchesRegexp: ["^v[12]"]}}, period: 200ms, failureThreshold: 25}}`

// rollout rolls out a version that passes the probe, one with a warning, and one that fails. The last one
// must not become ready.
func (r *rig) rollout(t *testing.T) {
	ns := r.namespace(t)
	pod := probed("web", versionProbe, "observe", map[string]string{"VERSION": "v1"})
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		PeriodSeconds: 1,
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8080)}},
	}
	for _, p := range r.deploy(t, ns, pod, 2) {
		if c := condition(&p, gate); c.Status != corev1.ConditionTrue || c.Reason != "ProbeSucceeded" {
			t.Errorf("condition of the first version: %+v", c)
		}
	}

	slow := strings.Replace(versionProbe, `"^v[12]"]`, `"^v[12]"], latency: {warn: 0.001ms}`, 1)
	r.update(t, ns, "v2", slow)
	bed.Await(t, "the second version to be rolled out", func() bool {
		pods := r.pods(t, ns)
		return len(pods) == 2 && !slices.ContainsFunc(pods, func(p corev1.Pod) bool {
			return versionOf(&p) != "v2" || !bed.HasCondition(corev1.PodReady, corev1.ConditionTrue)(&p)
		})
	})
	second := r.pods(t, ns)
	for _, p := range second {
		if c := condition(&p, gate); c.Status != corev1.ConditionTrue || c.Reason != "ProbeWarning" {
			t.Errorf("condition of the second version: %+v", c)
		}
	}
	r.awaitEvent(t, ns, second[0].Name, "ProbeWarning", "Readiness probe warning: ")

	r.update(t, ns, "v3", versionProbe)
	var third corev1.Pod
	bed.Await(t, "the third version to be refused", func() bool {
		for _, p := range r.pods(t, ns) {
			if versionOf(&p) == "v3" && bed.HasCondition(corev1.ContainersReady, corev1.ConditionTrue)(&p) && bed.HasCondition(gate, corev1.ConditionFalse)(&p) {
				third = p
			}
		}
		return third.Name != ""
	})
	// 25 failures take 5 s, and the app listens much earlier. So the message is not about a refused
	// connection.
	if c := condition(&third, gate); c.Reason != "ProbeFailed" || !strings.HasPrefix(c.Message, `app readiness: the body does not match "^v[12]"`) {
		t.Errorf("condition of the third version: %+v", c)
	}
	r.awaitEvent(t, ns, third.Name, "Unhealthy", "Readiness probe failed: ") // the first failure may be an app that does not listen yet
	bed.Await(t, "20 attempts of the third version", func() bool { return r.probe(t, ns, third.Name, "app", "readiness").Run >= 20 })
	old := 0
	for _, p := range r.pods(t, ns) {
		switch ready := bed.HasCondition(corev1.PodReady, corev1.ConditionTrue)(&p); {
		case versionOf(&p) == "v2" && ready && p.DeletionTimestamp == nil:
			old++
		case versionOf(&p) == "v3" && ready:
			t.Errorf("pod %s of the third version is ready", p.Name)
		}
	}
	if old != 2 {
		t.Errorf("%d pods of the second version are left, want 2", old)
	}
}

// update changes the version and the probes of the Deployment web.
func (r *rig) update(t *testing.T, ns, version, probes string) {
	t.Helper()
	patch, _ := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{ // cannot fail
		"metadata": map[string]any{"annotations": map[string]string{"prober.dev/probes": probes}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "app", "env": []any{map[string]string{"name": "VERSION", "value": version}}}}},
	}}})
	if _, err := r.Client.AppsV1().Deployments(ns).Patch(t.Context(), "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func versionOf(pod *corev1.Pod) string { return pod.Spec.Containers[0].Env[0].Value }
