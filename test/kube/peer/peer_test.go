//go:build linux

package peer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/test/kube/bed"
)

// oneFails has two probes of a container. The liveness probe fails.
const oneFails = `{"app": {"readiness": {"httpGet": {"path": "/healthz", "port": 8080}, "period": "100ms"},
	"liveness": {"httpGet": {"path": "/missing", "port": 8080}, "period": "100ms"}}}`

func (r *rig) twoProbes(t *testing.T) {
	r.run(t, "two", oneFails, nil)
	r.awaitCondition(t, "two", "prober.dev/readiness.app", corev1.ConditionTrue, "ProbeSucceeded")
	pod := r.awaitCondition(t, "two", "prober.dev/liveness.app", corev1.ConditionFalse, "ProbeFailed")
	r.awaitTicks(t, "two", 50)
	if now := r.awaitCondition(t, "two", "prober.dev/readiness.app", corev1.ConditionTrue, "ProbeSucceeded"); !slices.Equal(ours(now), ours(pod)) {
		t.Errorf("conditions %v have become %v", ours(pod), ours(now))
	}
}

// ours returns the conditions of prober.
func ours(pod *corev1.Pod) (all []string) {
	for _, c := range pod.Status.Conditions {
		if strings.HasPrefix(string(c.Type), "prober.dev/") {
			all = append(all, fmt.Sprint(c.Type, c.Status, c.LastTransitionTime))
		}
	}
	slices.Sort(all)
	return all
}

// writesOnlyChanges checks that prober does not write while no result changes, by the times in
// managedFields.
func (r *rig) writesOnlyChanges(t *testing.T) {
	r.run(t, "rest", oneFails, nil)
	r.awaitCondition(t, "rest", "prober.dev/liveness.app", corev1.ConditionFalse, "ProbeFailed")
	before := r.AwaitPod(t, r.namespace, "rest", "ready", bed.HasCondition(corev1.PodReady, corev1.ConditionTrue))
	r.awaitTicks(t, "rest", 100)
	after := r.AwaitPod(t, r.namespace, "rest", "is there", func(*corev1.Pod) bool { return true })
	if !slices.Equal(managed(before), managed(after)) {
		t.Errorf("prober has written without a change: %v, then %v", managed(before), managed(after))
	}
}

// managed returns the times of prober's last writes to a pod, from managedFields.
func managed(pod *corev1.Pod) (times []string) {
	for _, m := range pod.ManagedFields {
		if strings.HasPrefix(m.Manager, "prober") {
			times = append(times, m.Subresource+" "+m.Time.String())
		}
	}
	return times
}

func (r *rig) oneWarning(t *testing.T) {
	r.run(t, "warned", oneFails, nil)
	r.awaitCondition(t, "warned", "prober.dev/liveness.app", corev1.ConditionFalse, "ProbeFailed")
	r.awaitTicks(t, "warned", 50)
	events := r.events(t, "warned")
	// The readiness probe has events if it failed before the app listened.
	events = slices.DeleteFunc(events, func(e corev1.Event) bool { return strings.HasPrefix(e.Message, "Readiness ") && e.Count == 1 })
	if len(events) != 1 || events[0].Type != corev1.EventTypeWarning || events[0].Reason != "Unhealthy" || events[0].Count != 1 {
		t.Errorf("events: %+v", events)
	}
}

func (r *rig) deadContainer(t *testing.T) {
	r.run(t, "dead", `{"app": {"readiness": {"exec": {"command": ["/app", "check", "0"]}, "period": "100ms"}}}`, func(pod *corev1.Pod) {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Spec.Containers[0].Args = []string{"sleep", "5s"}
		other := *pod.Spec.Containers[0].DeepCopy()
		other.Name, other.Args = "other", []string{"sleep", "10m"}
		pod.Spec.Containers = append(pod.Spec.Containers, other)
	})
	r.AwaitPod(t, r.namespace, "dead", "has ended", func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Terminated != nil })
	})
	r.run(t, "clock", oneFails, nil)
	r.awaitTicks(t, "clock", 40) // time for the agent to notice the end
	before := r.ticks(t, "dead")
	r.awaitTicks(t, "clock", 40)
	if after := r.ticks(t, "dead"); after != before {
		t.Errorf("%d ticks of a container that has ended", after-before)
	}
}

func (r *rig) errorIsUnknown(t *testing.T) {
	r.run(t, "error", `{"app": {"readiness": {"exec": {"command": ["/missing"]}, "period": "200ms"}}}`, nil)
	bed.Await(t, "an attempt that could not be made", func() bool {
		probes := r.agent.Probes(t, r.namespace, "error")
		return len(probes) == 1 && probes[0].Last != nil && probes[0].Last.Result == "unknown" && probes[0].Last.Error != ""
	})
}

func (r *rig) warning(t *testing.T) {
	r.run(t, "slow", `{"app": {"readiness": {"plugin": {"name": "expect", "target": {"port": 8080}, "config": {"latency": {"warn": "0.000001ms"}}}, "period": "200ms"}}}`, nil)
	r.awaitCondition(t, "slow", "prober.dev/readiness.app", corev1.ConditionTrue, "ProbeWarning")
}

func (r *rig) startupHolds(t *testing.T) {
	r.run(t, "held", `{"app": {"startup": {"tcpSocket": {"port": 1}, "period": "100ms", "failureThreshold": 100000}, "readiness": {"tcpSocket": {"port": 8080}, "period": "100ms"}}}`, nil)
	r.awaitTicks(t, "held", 20, `probe_type="Startup"`)
	if n := r.ticks(t, "held", `probe_type="Readiness"`); n != 0 {
		t.Errorf("%d ticks of readiness before the container has started", n)
	}
}

func (r *rig) changedPeriod(t *testing.T) {
	probes := func(period string) string {
		return `{"app": {"readiness": {"tcpSocket": {"port": 8080}, "period": "` + period + `"}}}`
	}
	pod := r.run(t, "changed", probes("1h"), nil)
	bed.Await(t, "the agent to know the probe", func() bool { return len(r.agent.Probes(t, r.namespace, "changed")) == 1 })
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{"prober.dev/probes": probes("100ms")}}})
	if _, err := r.Client.CoreV1().Pods(r.namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.awaitTicks(t, "changed", 20)
}

func (r *rig) hostIsRefused(t *testing.T) {
	r.run(t, "ssrf", `{"app": {"readiness": {"httpGet": {"port": 10250, "host": "`+bed.NodeIP+`"}}}}`, nil)
	bed.Await(t, "an event", func() bool { return len(r.events(t, "ssrf")) > 0 })
	if e := r.events(t, "ssrf")[0]; e.Reason != "ProbeInvalid" || !strings.Contains(e.Message, "httpGet.host") {
		t.Errorf("%s: %s", e.Reason, e.Message)
	}
}

// fewCalls checks that ticks need no calls of the runtime. The agent lists the containers once a second.
func (r *rig) fewCalls(t *testing.T) {
	for i := range 5 {
		r.run(t, fmt.Sprint("calls-", i), oneFails, nil)
	}
	r.awaitTicks(t, "calls-4", 20)
	calls, ticks := r.calls.Load(), 0
	for i := range 5 {
		ticks -= r.ticks(t, fmt.Sprint("calls-", i))
	}
	r.awaitTicks(t, "calls-4", 100)
	calls = r.calls.Load() - calls
	for i := range 5 {
		ticks += r.ticks(t, fmt.Sprint("calls-", i))
	}
	t.Logf("%d calls of the runtime in %d ticks", calls, ticks)
	if calls*5 > int64(ticks) {
		t.Errorf("%d calls of the runtime in %d ticks", calls, ticks)
	}
}

// ownsConditionsOnly checks in managedFields that prober has written only its conditions.
func (r *rig) ownsConditionsOnly(t *testing.T) {
	r.run(t, "owned", oneFails, nil)
	pod := r.awaitCondition(t, "owned", "prober.dev/liveness.app", corev1.ConditionFalse, "ProbeFailed")
	found := false
	for _, m := range pod.ManagedFields {
		if !strings.HasPrefix(m.Manager, "prober") {
			continue
		}
		found = true
		var fields map[string]map[string]map[string]any
		if err := json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields); err != nil {
			t.Fatalf("%v: %s", err, m.FieldsV1.GetRawBytes())
		}
		if len(fields) != 1 || len(fields["f:status"]) != 1 {
			t.Errorf("prober has written %s", m.FieldsV1.GetRawBytes())
		}
		for key := range fields["f:status"]["f:conditions"] {
			if key != "." && !strings.Contains(key, `"type":"prober.dev/`) {
				t.Errorf("prober has written the condition %s", key)
			}
		}
	}
	if !found {
		t.Errorf("prober has written nothing: %+v", pod.ManagedFields)
	}
}

func (r *rig) stockCluster(t *testing.T) {
	if out := r.Kubectl(t, "api-resources", "--no-headers"); strings.Contains(out, "prober.dev") || strings.Contains(out, "kruise") {
		t.Errorf("resources of the cluster: %s", out)
	}
	r.run(t, "measured", oneFails, nil)
	r.awaitTicks(t, "measured", 1, `probe_type="Readiness"`, `result="successful"`)
	r.awaitTicks(t, "measured", 1, `probe_type="Liveness"`, `result="failed"`)
}

// newAddress deletes a pod and creates another one with the same name, which gets another address.
func (r *rig) newAddress(t *testing.T) {
	const probes = `{"app": {"readiness": {"tcpSocket": {"port": 8080}, "period": "200ms"}}}`
	first := r.run(t, "moved", probes, nil)
	r.awaitCondition(t, "moved", "prober.dev/readiness.app", corev1.ConditionTrue, "ProbeSucceeded")
	if err := r.Client.CoreV1().Pods(r.namespace).Delete(t.Context(), "moved", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	bed.Await(t, "the end of the pod", func() bool {
		_, err := r.Client.CoreV1().Pods(r.namespace).Get(t.Context(), "moved", metav1.GetOptions{})
		return err != nil
	})
	second := r.run(t, "moved", probes, nil)
	if first.Status.PodIP == second.Status.PodIP {
		t.Fatalf("the address is the same: %s", first.Status.PodIP)
	}
	r.awaitCondition(t, "moved", "prober.dev/readiness.app", corev1.ConditionTrue, "ProbeSucceeded")
}

func (r *rig) restarts(t *testing.T) {
	pod := r.run(t, "wedged", `{"app": {"liveness": {"httpGet": {"path": "/healthz", "port": 8080}, "period": "200ms"}}}`, func(pod *corev1.Pod) {
		pod.Annotations["prober.dev/liveness"] = "restart"
	})
	r.awaitCondition(t, "wedged", "prober.dev/live", corev1.ConditionTrue, "ProbeSucceeded")
	bed.HTTPStatus(t, "http://"+pod.Status.PodIP+":8080/sick")
	r.AwaitPod(t, r.namespace, "wedged", "restarted and live", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount == 1 && bed.HasCondition("prober.dev/live", corev1.ConditionTrue)(p)
	})
	reasons := make(map[string]bool)
	for _, e := range r.events(t, "wedged") {
		reasons[e.Reason] = true
	}
	if !reasons["Unhealthy"] || !reasons["Killing"] {
		t.Errorf("events %v", slices.Sorted(maps.Keys(reasons)))
	}
}
