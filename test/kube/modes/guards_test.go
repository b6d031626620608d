//go:build linux

package modes

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/test/kube/bed"
)

// budget makes the pods of a workload sick one after the other. Only the first three may be restarted.
func (r *rig) budget(t *testing.T) {
	ns := r.namespace(t)
	pods := r.deploy(t, ns, probed("web", goodLiveness, "restart", nil), 4)
	for i := range pods {
		sicken(t, &pods[i])
		if i < 3 {
			r.AwaitPod(t, ns, pods[i].Name, "restarted, and ready", restarted)
			continue
		}
		r.awaitEvent(t, ns, pods[i].Name, "ProbeRestartWithheld",
			"The liveness probe of container app fails, and container app is not restarted: the budget of its workload is used up; it is tried again at ")
		r.awaitRun(t, ns, pods[i].Name, "failure")
		r.notRestarted(t, ns, pods[i].Name)
		if all := r.events(t, ns, pods[i].Name, "ProbeRestartWithheld"); len(all) != 1 || all[0].Count != 1 {
			t.Errorf("more than one event: %+v", all)
		}
	}
}

// badProbe gives 20 healthy pods a wrong liveness probe, and then corrects it. The default breaker must stop
// the restarts, although all other probes of the pods succeed.
func (r *rig) badProbe(t *testing.T) {
	const replicas = 20
	ns := r.namespace(t)
	slower := strings.Replace(goodLiveness, "period: 200ms", "period: 2s", 1)
	slower = strings.Replace(slower, "app: {", "app: {readiness: {httpGet: {path: /ready, port: 8080}, period: 2s}, ", 1)
	pods := r.deploy(t, ns, probed("web", slower, "restart", nil), replicas)
	for _, pod := range pods {
		r.AwaitPod(t, ns, pod.Name, "live", bed.HasCondition(live, corev1.ConditionTrue))
	}

	r.annotate(t, pods, strings.Replace(slower, "/healthz", "/health", 1))
	for _, pod := range pods {
		r.awaitEvent(t, ns, pod.Name, "Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 404")
		r.awaitEvent(t, ns, pod.Name, "ProbeRestartWithheld",
			"The liveness probe of container app fails, and container app is not restarted: the breaker is open (")
		r.AwaitPod(t, ns, pod.Name, "not live, although the breaker is open", bed.HasCondition(live, corev1.ConditionFalse))
	}

	r.annotate(t, pods, slower)
	for _, pod := range pods {
		r.awaitRun(t, ns, pod.Name, "success")
		r.AwaitPod(t, ns, pod.Name, "live", func(p *corev1.Pod) bool {
			c := condition(p, live)
			return c.Status == corev1.ConditionTrue && c.Reason == "ProbeSucceeded"
		})
		r.notRestarted(t, ns, pod.Name)
	}
}

// annotate changes the probes of pods, at the same time.
func (r *rig) annotate(t *testing.T, pods []corev1.Pod, probes string) {
	t.Helper()
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{"prober.dev/probes": probes}}}) // cannot fail
	var all sync.WaitGroup
	for _, pod := range pods {
		all.Go(func() {
			if _, err := r.Client.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
