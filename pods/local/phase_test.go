package local

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestPhase(t *testing.T) {
	up := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	waits := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}
	ended := func(code int32) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}
	}
	for _, c := range []struct {
		name         string
		policy       v1.RestartPolicy
		init, a, b   v1.ContainerState
		ended, again bool
		want         v1.PodPhase
	}{
		{"init container waits", v1.RestartPolicyAlways, waits, waits, waits, false, false, v1.PodPending},
		{"init container runs", v1.RestartPolicyAlways, up, waits, waits, false, false, v1.PodPending},
		{"init container failed, again", v1.RestartPolicyAlways, ended(1), waits, waits, false, false, v1.PodPending},
		{"init container failed for good", v1.RestartPolicyNever, ended(1), waits, waits, false, false, v1.PodFailed},
		{"one waits", v1.RestartPolicyAlways, ended(0), up, waits, false, false, v1.PodPending},
		{"all run", v1.RestartPolicyAlways, ended(0), up, up, false, false, v1.PodRunning},
		{"one ended", v1.RestartPolicyNever, ended(0), up, ended(1), false, false, v1.PodRunning},
		{"all ended, Always", v1.RestartPolicyAlways, ended(0), ended(0), ended(1), false, false, v1.PodRunning},
		{"all ended, Always, for good", v1.RestartPolicyAlways, ended(0), ended(0), ended(1), true, false, v1.PodFailed},
		{"all succeeded, OnFailure", v1.RestartPolicyOnFailure, ended(0), ended(0), ended(0), false, false, v1.PodSucceeded},
		{"all succeeded, one killed to be restarted", v1.RestartPolicyOnFailure, ended(0), ended(0), ended(0), false, true, v1.PodRunning},
		{"one failed, OnFailure", v1.RestartPolicyOnFailure, ended(0), ended(0), ended(1), false, false, v1.PodRunning},
		{"one failed, Never", v1.RestartPolicyNever, ended(0), ended(0), ended(1), false, false, v1.PodFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := testPod(c.policy, "i", "a b")
			s := &v1.PodStatus{
				InitContainerStatuses: []v1.ContainerStatus{{Name: "i", State: c.init}},
				ContainerStatuses:     []v1.ContainerStatus{{Name: "a", State: c.a}, {Name: "b", State: c.b}},
			}
			if got := phaseOf(pod, s, c.ended, true, map[string]bool{"a": c.again}); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestPhaseSidecar(t *testing.T) {
	running := func(started bool) v1.ContainerStatus {
		return v1.ContainerStatus{Name: "s", Started: &started, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
	}
	regular := v1.ContainerStatus{Name: "c", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
	for _, c := range []struct {
		name        string
		sidecar     v1.ContainerStatus
		initialized bool
		want        v1.PodPhase
	}{
		{"not started", running(false), false, v1.PodPending},
		{"restarting in an initialized pod", running(false), true, v1.PodRunning},
		{"started", running(true), true, v1.PodRunning},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{c.sidecar}, ContainerStatuses: []v1.ContainerStatus{regular}}
			if got := phaseOf(testPod(v1.RestartPolicyAlways, "s*", "c"), s, false, c.initialized, nil); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
