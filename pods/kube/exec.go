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

// exitError is the exit code of a command that could be run.
type exitError int

// Error implements error.
func (e exitError) Error() string { return fmt.Sprintf("command terminated with exit code %d", int(e)) }

// ExitStatus returns the exit code.
func (e exitError) ExitStatus() int { return int(e) }

// RunInContainer runs a command as a [builtin.CommandRunner] does: by the runtime, or else by the API server. The
// container must be one of a pod of this source, and the runtime must agree: who may write the status
// of a pod must not choose where its commands run.
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
			return nil, fmt.Errorf("container %q is not of the pod %s/%s, as the runtime has it", containerID, pod.Namespace, pod.Name)
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
		if _, trouble := s.watched.trouble(); trouble != nil { // the command has perhaps not begun
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

// containerOf returns the pod and the name of a container. The ID of a container that is in the status of two pods
// is an error: one of them has a command that is not the other's.
func (s *Source) containerOf(id string) (uid types.UID, pod *v1.Pod, container string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, p := range s.pods {
		name, ok := p.ids[id]
		switch {
		case !ok || p.gone:
		case pod != nil:
			return "", nil, "", fmt.Errorf("container %q is in the status of more than one pod", id)
		default:
			uid, pod, container = of, p.latest, name
		}
	}
	if pod == nil {
		err = fmt.Errorf("container %q is of no pod of this node", id)
	}
	return uid, pod, container, err
}
