package cri

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Overlay sets in status what the runtime knows better than the kubelet has published: a newer start
// of a container, and its exit. pod has the containers. A status that is newer than what the runtime
// has told stays as it is, and so does that of a container of which the runtime knows nothing. status is
// changed in place: it must not share memory with others.
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

// newerThan reports whether c is newer than status. A container that waits to be restarted has the ID
// of the one that has exited in its status.
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

// overlay makes status that of c.
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
