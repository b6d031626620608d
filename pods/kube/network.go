package kube

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NetworkOf returns the path of the network namespace in which the probes of a pod are carried out. ok
// is false for a pod whose probes are carried out in the network of the node. It answers from memory.
// No probe of a pod in its own network runs before the path is known. The network of a pod that is not
// known is none: a last attempt must not reach the node.
func (s *Source) NetworkOf(podUID string) (path string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[types.UID(podUID)]
	switch {
	case p == nil:
		return "", true
	case !p.inPod:
		return "", false
	}
	return p.network, true
}

// findNetwork asks the runtime for the network namespace of a pod. It reports false if that is not
// known: the probes of a new pod wait for it, and those that run fail in the old namespace.
func (s *Source) findNetwork(ctx context.Context, p *pod, latest *v1.Pod) bool {
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	path, err := s.cfg.Runtime.NetworkNamespace(ctx, latest.UID)
	if err != nil {
		s.log.Debug("the network of a pod is not known", "namespace", latest.Namespace, "pod", latest.Name, "error", err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.waits = err != nil || path == ""; p.waits {
		return false
	}
	p.network = path
	return true
}
