package manager

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A status as set by `prober run` is stored in compact form, also after a restart.
func TestUsualStatusIsCompact(t *testing.T) {
	start := metav1.NewTime(time.Now())
	ended := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 1, FinishedAt: start, ContainerID: "local://0"}}
	usual := v1.PodStatus{
		Phase: v1.PodRunning, PodIP: "127.0.0.1", PodIPs: []v1.PodIP{{IP: "127.0.0.1"}}, StartTime: &start,
		Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: start}},
		ContainerStatuses: []v1.ContainerStatus{{
			Name: "a", ContainerID: "local://1", Started: new(true), Ready: true, RestartCount: 1, LastTerminationState: ended,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: start}},
		}, {Name: "b", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}}},
	}
	if kept, _ := compact(&usual); kept.whole != nil {
		t.Error("it is kept whole")
	}
	usual.HostIP = "127.0.0.2"
	if kept, _ := compact(&usual); kept.whole == nil {
		t.Error("a status with a field that has no room is not kept whole")
	}
}
