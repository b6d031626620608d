package kube

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NetworkOf returns the path of the network namespace in which the probes of a pod are carried out. ok
// is false for a pod whose probes are carried out in the network of the node. It does not block.
// A pod's probes in its own network start after the path is known. For an unknown pod it returns "" and
// true: a last attempt must not reach the node.
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

// findNetwork asks the runtime for the network namespace of a pod, and sets the path in p. It returns false if
// the path is not known. Then the probes of a new pod wait, and running probes fail in the old namespace.
func (s *Source) findNetwork(ctx context.Context, p *pod, latest *v1.Pod) bool {
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	path, err := s.cfg.Runtime.NetworkNamespace(ctx, latest.UID)
	if err != nil {
		s.log.Debug("the network of a pod is not known", "namespace", latest.Namespace, "pod", latest.Name, "error", err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.awaitsNetwork = err != nil || path == ""; p.awaitsNetwork {
		return false
	}
	p.network = path
	return true
}
