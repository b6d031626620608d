//go:build linux

package modes

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/test/kube/bed"
)

const (
	gate = "prober.dev/ready"
	live = "prober.dev/live"

	// goodLiveness is a liveness probe of the container app that fails at once when the app is sick. It waits
	// until the app listens.
	goodLiveness = "app: {startup: {tcpSocket: {port: 8080}, period: 100ms, failureThreshold: 600}, " +
		"liveness: {httpGet: {path: /healthz, port: 8080}, period: 200ms, failureThreshold: 2}}"
)

// rig is a cluster with an agent.
type rig struct {
	*bed.Cluster
	agent *bed.Agent
}

// parallel runs subtests in parallel, and waits for them.
func (r *rig) parallel(t *testing.T, tests map[string]func(*testing.T)) {
	t.Run("parallel", func(t *testing.T) {
		for _, name := range slices.Sorted(maps.Keys(tests)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				tests[name](t)
			})
		}
	})
}

// namespace creates a namespace. At the end of the test, it logs the agent's events and conditions in it.
func (r *rig) namespace(t *testing.T) string {
	ns := r.Namespace(t)
	t.Cleanup(func() {
		t.Logf("events and conditions of prober:\n%s", r.summary(t, ns))
	})
	return ns
}

// probed returns a pod with probes and a mode.
func probed(name, probes, mode string, environment map[string]string) *corev1.Pod {
	pod := bed.Pod(name, environment)
	pod.Annotations = map[string]string{"prober.dev/probes": probes, "prober.dev/liveness": mode}
	return pod
}

// deploy creates a Deployment with a pod as its template, and waits until its pods are ready.
func (r *rig) deploy(t *testing.T, ns string, pod *corev1.Pod, replicas int32) (pods []corev1.Pod) {
	t.Helper()
	_, err := r.Client.AppsV1().Deployments(ns).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: templateOf(pod),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bed.Await(t, "the pods of "+pod.Name+" to be ready", func() bool {
		pods = slices.DeleteFunc(r.pods(t, ns), func(p corev1.Pod) bool { return !bed.HasCondition(corev1.PodReady, corev1.ConditionTrue)(&p) })
		return len(pods) == int(replicas)
	})
	return pods
}

// templateOf returns a pod template. The scheduler binds its pods.
func templateOf(pod *corev1.Pod) corev1.PodTemplateSpec {
	pod.Spec.NodeName = ""
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec}
}

// job creates a Job with a pod as its template, waits until its pod is ready, and returns it.
func (r *rig) job(t *testing.T, ns string, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Spec: batchv1.JobSpec{Template: templateOf(pod)}}
	if _, err := r.Client.BatchV1().Jobs(ns).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var created *corev1.Pod
	bed.Await(t, "the pod of the job to be ready", func() bool {
		for _, p := range r.pods(t, ns) {
			if p.Labels["app"] == pod.Labels["app"] && bed.HasCondition(corev1.PodReady, corev1.ConditionTrue)(&p) {
				created = &p
			}
		}
		return created != nil
	})
	return created
}

// run creates a pod, waits until it is ready, and returns it.
func (r *rig) run(t *testing.T, ns string, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	r.Create(t, ns, pod)
	return r.AwaitPod(t, ns, pod.Name, "ready", bed.HasCondition(corev1.PodReady, corev1.ConditionTrue))
}

func (r *rig) pods(t testing.TB, ns string) []corev1.Pod {
	t.Helper()
	list, err := r.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// sicken makes the app of a pod sick.
func sicken(t *testing.T, pod *corev1.Pod) {
	bed.HTTPStatus(t, "http://"+pod.Status.PodIP+":8080/sick")
}

// container returns the status of the container app.
func container(pod *corev1.Pod) corev1.ContainerStatus {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == "app" {
			return s
		}
	}
	return corev1.ContainerStatus{}
}

// restarted reports whether the container app was restarted once and the pod is ready again.
func restarted(pod *corev1.Pod) bool {
	return container(pod).RestartCount == 1 && bed.HasCondition(corev1.PodReady, corev1.ConditionTrue)(pod)
}

// condition returns a condition of a pod; the zero value if there is none.
func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

// events returns the agent's events about a pod with a reason. If pod or reason is "", it matches all.
func (r *rig) events(t testing.TB, ns, pod, reason string) (some []corev1.Event) {
	t.Helper()
	list, err := r.Client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.ReportingController == "prober" && (e.InvolvedObject.Name == pod || pod == "") && (e.Reason == reason || reason == "") {
			some = append(some, e)
		}
	}
	return some
}

// summary returns all events of the agent in a namespace, and its conditions of pods, as text.
func (r *rig) summary(t testing.TB, ns string) string {
	var b strings.Builder
	list, err := r.Client.CoreV1().Events(ns).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, e := range list.Items {
		if e.ReportingController == "prober" {
			fmt.Fprintf(&b, "  %-8s %-22s x%d %s: %s\n", e.Type, e.Reason, e.Count, e.InvolvedObject.Name, e.Message)
		}
	}
	pods, err := r.Client.CoreV1().Pods(ns).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, p := range pods.Items {
		for _, c := range p.Status.Conditions {
			if strings.HasPrefix(string(c.Type), "prober.dev/") {
				fmt.Fprintf(&b, "  %s %s=%s %s %q\n", p.Name, c.Type, c.Status, c.Reason, c.Message)
			}
		}
	}
	return b.String()
}

// awaitEvent waits for an event of the agent about a pod, with a reason and a message that begins with text.
func (r *rig) awaitEvent(t *testing.T, ns, pod, reason, text string) {
	t.Helper()
	bed.Await(t, "the event "+reason+" of "+pod+": "+text, func() bool {
		return slices.ContainsFunc(r.events(t, ns, pod, reason), func(e corev1.Event) bool { return strings.HasPrefix(e.Message, text) })
	})
}

// probe returns a probe of a pod as the agent reports it; the zero value if there is none.
func (r *rig) probe(t *testing.T, ns, pod, container, kind string) api.ProbeStatus {
	for _, p := range r.agent.Probes(t, ns, pod) {
		if p.Container == container && p.Kind == kind {
			return p
		}
	}
	return api.ProbeStatus{}
}

// awaitRun waits until the last ten attempts of the liveness probe of a pod had a result. In this time, an
// agent with a fault would act on the pod.
func (r *rig) awaitRun(t *testing.T, ns, pod, result string) {
	t.Helper()
	bed.Await(t, "ten results in a row of "+pod+": "+result, func() bool {
		p := r.probe(t, ns, pod, "app", "liveness")
		return p.Result == result && p.Run >= 10
	})
}

// notRestarted checks that no container of a pod was restarted, and that the pod still runs.
func (r *rig) notRestarted(t *testing.T, ns, name string) {
	t.Helper()
	pod, err := r.Client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
	switch {
	case err != nil:
		t.Error(err)
	case container(pod).RestartCount != 0 || container(pod).State.Running == nil || pod.DeletionTimestamp != nil:
		t.Errorf("pod %s was acted on: %+v", name, pod.Status)
	}
}

// previousLog returns the log of the container app before its last restart.
func (r *rig) previousLog(t *testing.T, ns, pod string) string {
	t.Helper()
	log, err := r.Client.CoreV1().Pods(ns).GetLogs(pod, &corev1.PodLogOptions{Container: "app", Previous: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	text, err := io.ReadAll(log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
