package cri

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Overlay updates the container statuses of pod in status with newer states of the runtime: later starts and exits
// of containers. The status of a container that the runtime does not know, or that is newer than the runtime's last
// known state, does not change. status is changed in place, so it must not share memory with other statuses.
func (c *Client) Overlay(pod *v1.Pod, status *v1.PodStatus) {
	s := c.state.Load()
	overlayAll(s, pod, pod.Spec.InitContainers, &status.InitContainerStatuses)
	overlayAll(s, pod, pod.Spec.Containers, &status.ContainerStatuses)
}

func overlayAll(s *state, pod *v1.Pod, specs []v1.Container, statuses *[]v1.ContainerStatus) {
	for i := range specs {
		c, ok := s.newest[key{pod.UID, specs[i].Name}]
		if !ok {
			continue
		}
		status := named(*statuses, specs[i].Name)
		if status == nil { // the kubelet has published nothing yet
			*statuses = append(*statuses, v1.ContainerStatus{Name: specs[i].Name, Image: specs[i].Image, RestartCount: -1})
			status = &(*statuses)[len(*statuses)-1]
		}
		if newerThan(&c, status) {
			overlay(s, &c, status)
		}
	}
}

func named(statuses []v1.ContainerStatus, name string) *v1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}

// newerThan reports whether c is newer than status. The status of a container that waits for its restart has the ID
// of the exited container.
func newerThan(c *Container, status *v1.ContainerStatus) bool {
	switch {
	case c.Restarts != status.RestartCount:
		return c.Restarts > status.RestartCount
	case status.ContainerID == c.ID:
		return c.Exited && status.State.Running != nil
	case status.ContainerID == "":
		return true
	case status.State.Running != nil:
		return c.StartedAt.After(status.State.Running.StartedAt.Time)
	case status.State.Terminated != nil:
		return c.StartedAt.After(status.State.Terminated.FinishedAt.Time)
	default:
		return c.Running
	}
}

// overlay sets status from c.
func overlay(s *state, c *Container, status *v1.ContainerStatus) {
	if status.ContainerID != c.ID {
		if before, ok := s.all[bare(status.ContainerID)]; ok && before.Exited {
			status.LastTerminationState = v1.ContainerState{Terminated: terminated(&before)}
		} else if status.State.Terminated != nil {
			status.LastTerminationState = v1.ContainerState{Terminated: status.State.Terminated}
		}
	}
	status.ContainerID, status.RestartCount = c.ID, c.Restarts
	status.Ready, status.Started = false, new(false)
	if c.Running {
		status.State = v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(c.StartedAt)}}
		return
	}
	status.State = v1.ContainerState{Terminated: terminated(c)}
}

func terminated(c *Container) *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{
		ExitCode: c.ExitCode, Reason: c.Reason, ContainerID: c.ID,
		StartedAt: metav1.NewTime(c.StartedAt), FinishedAt: metav1.NewTime(c.FinishedAt),
	}
}
