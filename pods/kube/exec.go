package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/pods/kube/api"
)

// exitError is the error of a command that has ended with another exit code than 0.
type exitError int

// Error implements error.
func (e exitError) Error() string { return fmt.Sprintf("command terminated with exit code %d", int(e)) }

// ExitStatus returns the exit code.
func (e exitError) ExitStatus() int { return int(e) }

// RunInContainer implements [builtin.CommandRunner], by the runtime, or else by the API server. The container
// must belong to a pod of this source, also according to the runtime: whoever may write the status of a pod must
// not choose where its commands run.
func (s *Source) RunInContainer(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error) {
	uid, pod, container, err := s.containerOf(containerID)
	if err != nil {
		return nil, err
	}
	if s.cfg.Runtime != nil {
		owner, ok := s.cfg.Runtime.Owner(containerID)
		if !ok {
			return nil, fmt.Errorf("container %q is not known to the runtime yet, or any more", containerID)
		}
		if owner != uid {
			return nil, fmt.Errorf("container %q does not belong to pod %s/%s in the container runtime", containerID, pod.Namespace, pod.Name)
		}
		return s.cfg.Runtime.RunInContainer(ctx, containerID, cmd, timeout)
	}
	if !s.cfg.canExec() {
		return nil, errors.New("the agent can run no commands in containers: it needs --cri-socket, or kubernetes.apiExec")
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	output, code, err := s.cfg.Exec(ctx, api.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: uid}, container, cmd)
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		if _, trouble := s.watched.trouble(); trouble != nil { // the command may not have begun
			return output, fmt.Errorf("exec through the API server: %w", trouble)
		}
		return output, &builtin.CommandTimeoutError{Command: cmd, Timeout: timeout}
	case err != nil && ctx.Err() != nil:
		return output, context.Cause(ctx)
	case err != nil:
		return output, err
	case code != 0:
		return output, exitError(code)
	}
	return output, nil
}

// containerOf returns the pod and the name of a container. It returns an error if the ID is in the status of more
// than one pod.
func (s *Source) containerOf(id string) (uid types.UID, pod *v1.Pod, container string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for podUID, p := range s.pods {
		name, ok := p.ids[id]
		switch {
		case !ok || p.gone:
		case pod != nil:
			return "", nil, "", fmt.Errorf("container %q is in the status of more than one pod", id)
		default:
			uid, pod, container = podUID, p.latest, name
		}
	}
	if pod == nil {
		err = fmt.Errorf("container %q does not belong to a pod of this node", id)
	}
	return uid, pod, container, err
}
