package manager_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
)

func readyStatus(name string) v1.ContainerStatus { return v1.ContainerStatus{Name: name, Ready: true} }
func unreadyStatus(name string) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name}
}

type conditionCase struct {
	name       string
	spec       v1.PodSpec
	statuses   []v1.ContainerStatus
	phase      v1.PodPhase
	conditions []v1.PodCondition
	status     v1.ConditionStatus
	reason     string
	message    string
}

// containerCases are the test cases that both conditions share.
func containerCases() []conditionCase {
	two := v1.PodSpec{Containers: []v1.Container{{Name: "a"}, {Name: "b"}}}
	sidecars := v1.PodSpec{InitContainers: []v1.Container{sidecar("s1"), {Name: "init"}, sidecar("s2")}, Containers: []v1.Container{{Name: "a"}}}
	up := []v1.ContainerStatus{readyStatus("a"), readyStatus("b")}
	return []conditionCase{
		{"no statuses yet", v1.PodSpec{}, nil, v1.PodRunning, nil, v1.ConditionFalse, "UnknownContainerStatuses", ""},
		{"no containers", v1.PodSpec{}, []v1.ContainerStatus{}, v1.PodRunning, nil, v1.ConditionTrue, "", ""},
		{"one container without a status", v1.PodSpec{Containers: []v1.Container{{Name: "a"}}}, []v1.ContainerStatus{}, v1.PodRunning, nil, v1.ConditionFalse, "ContainersNotReady", "containers with unknown status: [a]"},
		{"two ready", two, up, v1.PodRunning, nil, v1.ConditionTrue, "", ""},
		{"one ready, one unknown", two, up[:1], v1.PodRunning, nil, v1.ConditionFalse, "ContainersNotReady", "containers with unknown status: [b]"},
		{"one ready, one unready", two, []v1.ContainerStatus{readyStatus("a"), unreadyStatus("b")}, v1.PodRunning, nil, v1.ConditionFalse, "ContainersNotReady", "containers with unready status: [b]"},
		{"one unknown, one unready", two, []v1.ContainerStatus{unreadyStatus("b")}, v1.PodRunning, nil, v1.ConditionFalse, "ContainersNotReady", "containers with unknown status: [a], containers with unready status: [b]"},
		{"two unready", two, []v1.ContainerStatus{unreadyStatus("a"), unreadyStatus("b")}, v1.PodRunning, nil, v1.ConditionFalse, "ContainersNotReady", "containers with unready status: [a b]"},
		{"succeeded", two, []v1.ContainerStatus{unreadyStatus("a"), unreadyStatus("b")}, v1.PodSucceeded, nil, v1.ConditionFalse, "PodCompleted", ""},
		{"succeeded, one unknown", two, up[:1], v1.PodSucceeded, nil, v1.ConditionFalse, "ContainersNotReady", "containers with unknown status: [b]"},
		{"failed", two, up, v1.PodFailed, nil, v1.ConditionFalse, "PodFailed", ""},
		{"sidecar unknown", sidecars, []v1.ContainerStatus{readyStatus("s1"), readyStatus("a")}, v1.PodRunning, nil, v1.ConditionFalse, "ContainersNotReady", "containers with unknown status: [s2]"},
		{"sidecar unready", sidecars, []v1.ContainerStatus{unreadyStatus("s1"), readyStatus("s2"), readyStatus("a")}, v1.PodRunning, nil, v1.ConditionFalse, "ContainersNotReady", "containers with unready status: [s1]"},
		{"sidecars ready; plain init containers do not count", sidecars, []v1.ContainerStatus{readyStatus("s1"), readyStatus("s2"), readyStatus("a"), unreadyStatus("init")}, v1.PodRunning, nil, v1.ConditionTrue, "", ""},
	}
}

func TestContainersReadyCondition(t *testing.T) {
	for _, tc := range containerCases() {
		t.Run("#173 "+tc.name, func(t *testing.T) {
			got := manager.ContainersReadyCondition(&v1.Pod{Spec: tc.spec}, tc.statuses, tc.phase)
			want := v1.PodCondition{Type: v1.ContainersReady, Status: tc.status, Reason: tc.reason, Message: tc.message}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPodReadyCondition(t *testing.T) {
	gates := func(names ...v1.PodConditionType) (spec v1.PodSpec) {
		for _, n := range names {
			spec.ReadinessGates = append(spec.ReadinessGates, v1.PodReadinessGate{ConditionType: n})
		}
		return spec
	}
	yes := func(n v1.PodConditionType) v1.PodCondition { return v1.PodCondition{Type: n, Status: v1.ConditionTrue} }
	no := func(n v1.PodConditionType) v1.PodCondition {
		return v1.PodCondition{Type: n, Status: v1.ConditionFalse}
	}
	none := []v1.ContainerStatus{}
	gated := gates("g1")
	gated.Containers = []v1.Container{{Name: "a"}}
	missing := `corresponding condition of pod readiness gate "g1" does not exist.`
	notTrue := `the status of pod readiness gate "g2" is not "True", but False`
	for _, tc := range append(containerCases(),
		conditionCase{"gate missing", gates("g1"), none, v1.PodRunning, nil, v1.ConditionFalse, "ReadinessGatesNotReady", missing},
		conditionCase{"gate not true", gates("g2"), none, v1.PodRunning, []v1.PodCondition{no("g2")}, v1.ConditionFalse, "ReadinessGatesNotReady", notTrue},
		conditionCase{"gate true", gates("g1"), none, v1.PodRunning, []v1.PodCondition{yes("g1")}, v1.ConditionTrue, "", ""},
		conditionCase{"one gate missing, one not true", gates("g1", "g2"), none, v1.PodRunning, []v1.PodCondition{no("g2")}, v1.ConditionFalse, "ReadinessGatesNotReady", missing + ", " + notTrue},
		conditionCase{"two gates true", gates("g1", "g2"), none, v1.PodRunning, []v1.PodCondition{yes("g1"), yes("g2")}, v1.ConditionTrue, "", ""},
		conditionCase{"an unready container comes before a gate", gated, []v1.ContainerStatus{unreadyStatus("a")}, v1.PodRunning, nil, v1.ConditionFalse, "ContainersNotReady", "containers with unready status: [a]"},
	) {
		t.Run("#174 "+tc.name, func(t *testing.T) {
			got := manager.PodReadyCondition(&v1.Pod{Spec: tc.spec}, tc.conditions, tc.statuses, tc.phase)
			want := v1.PodCondition{Type: v1.PodReady, Status: tc.status, Reason: tc.reason, Message: tc.message}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
