//go:build linux

package peer

import (
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/daeace23/prober/test/kube/bed"
)

const page = "../../../docs/migration/podprobemarker.md"

// TestMigrationExample runs a pod of the Deployment that the page shows as the replacement for a
// PodProbeMarker.
func TestMigrationExample(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(text), "```yaml deployment.yaml\n")
	block, _, _ = strings.Cut(block, "```")
	var d appsv1.Deployment
	if err := yaml.UnmarshalStrict([]byte(block), &d); err != nil || !ok {
		t.Fatal(ok, err)
	}
	r := newRig(t)
	pod := bed.Pod("game-1", nil)
	container := d.Spec.Template.Spec.Containers[0]
	container.Image, container.ImagePullPolicy = bed.AppImage, corev1.PullNever
	pod.Annotations, pod.Labels = d.Spec.Template.Annotations, d.Spec.Template.Labels
	pod.Spec.ReadinessGates, pod.Spec.Containers = d.Spec.Template.Spec.ReadinessGates, []corev1.Container{container}
	r.Create(t, r.namespace, pod)
	pod = r.awaitCondition(t, "game-1", "prober.dev/readiness.server", corev1.ConditionTrue, "ProbeSucceeded")
	r.AwaitPod(t, r.namespace, "game-1", "ready", bed.HasCondition(corev1.PodReady, corev1.ConditionTrue))
	bed.HTTPStatus(t, "http://"+pod.Status.PodIP+":8080/sick")
	r.awaitCondition(t, "game-1", "prober.dev/readiness.server", corev1.ConditionFalse, "ProbeFailed")
	r.AwaitPod(t, r.namespace, "game-1", "not ready", bed.HasCondition(corev1.PodReady, corev1.ConditionFalse))
}
