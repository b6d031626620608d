package plugins

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/probe"
)

// networks has the open network namespaces in which pods are probed.
type networks struct {
	pathOf func(podUID string) (path string, ok bool) // see pods.Source
	guard  func(podUID string, to netns.To) error     // see pods.Source; nil: no guard
	own    func(podUID, host string) bool             // OwnName of pods.Source; nil: no names

	mu   sync.Mutex
	open map[string]*shared // by path
}

// shared is an open namespace. It is closed when the last probe stops using it.
type shared struct {
	namespace *netns.Namespace
	users     int // guarded by networks.mu
}

// SetNetworks sets the network namespaces and the guard for the attempts of pods. pathOf returns the path of
// a pod's namespace, see NetworkOf of pods.Source; nil: all pods use the network of the agent. guard limits
// the destinations of a pod's attempts, see Guard of pods.Source; nil: no limits. ownName is OwnName of
// pods.Source; nil: never. SetNetworks must be called before the first probe begins.
func (s *Set) SetNetworks(pathOf func(podUID string) (path string, ok bool), guard func(podUID string, to netns.To) error, ownName func(podUID, host string) bool) {
	if pathOf == nil {
		pathOf = func(string) (string, bool) { return "", false }
	}
	s.networks.Store(&networks{pathOf: pathOf, guard: guard, own: ownName, open: make(map[string]*shared)})
}

// inNetwork returns a handler for one probe that makes the attempts of h in the namespace of the probe's pod.
func (s *Set) inNetwork(h probe.Handler) probe.Handler {
	if n := s.networks.Load(); n != nil {
		return &networkHandler{inside: h, networks: n}
	}
	return h
}

// networkHandler is the handler of one probe of an agent whose pods have network namespaces, or a guard. It
// does not embed the inner handler: a promoted Probe method would bypass both.
type networkHandler struct {
	inside   probe.Handler
	networks *networks

	mu       sync.Mutex
	at       *shared // nil until an attempt needs it
	released bool
}

var (
	_ probe.Wrapper  = (*networkHandler)(nil)
	_ probe.Releaser = (*networkHandler)(nil)
)

// Unwrap implements [probe.Wrapper].
func (p *networkHandler) Unwrap() probe.Handler { return p.inside }

// Probe implements [probe.Handler].
func (p *networkHandler) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	if req.Pod == nil {
		return p.inside.Probe(ctx, req)
	}
	if guard, uid := p.networks.guard, req.Pod.UID; guard != nil {
		ctx = netns.WithGuard(ctx, func(to netns.To) error { return guard(uid, to) })
	}
	if own, uid := p.networks.own, req.Pod.UID; own != nil {
		ctx = netns.WithOwnNames(ctx, func(host string) bool { return own(uid, host) })
	}
	path, ok := p.networks.pathOf(req.Pod.UID)
	if !ok {
		return p.inside.Probe(ctx, req)
	}
	namespace, err := p.enter(path)
	if err != nil {
		return probe.Outcome{}, podError(req.Pod, err)
	}
	out, err := p.inside.Probe(netns.With(ctx, namespace), req)
	if _, ok := errors.AsType[*netns.Error](err); ok {
		err = podError(req.Pod, err)
	}
	return out, err
}

// podError returns err with the name of the pod.
func podError(pod *probe.Pod, err error) error {
	return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
}

var (
	errNoNetwork = &probe.Error{Reason: probe.ReasonHostResources, Err: errors.New("its network namespace is not known yet")}
	errOwn       = &probe.Error{Reason: probe.ReasonHostResources, Err: errors.New("its network namespace is the agent's")}
	errReleased  = &probe.Error{Reason: probe.ReasonHostResources, Err: errors.New("the probe has ended")}
)

// enter returns the open namespace at path. The probe keeps it open until it ends or enters another
// namespace.
func (p *networkHandler) enter(path string) (*netns.Namespace, error) {
	if path == "" {
		return nil, errNoNetwork
	}
	p.mu.Lock()
	at := p.at
	p.mu.Unlock()
	if at != nil && at.namespace.Path() == path && at.namespace.Current() == nil {
		return at.namespace, nil
	}
	at, err := p.networks.acquire(path)
	if err != nil {
		p.keep(nil)
		return nil, err
	}
	if !p.keep(at) {
		return nil, errReleased
	}
	return at.namespace, nil
}

// keep replaces the namespace of the probe by at. It returns false, and closes at, if the probe has ended.
func (p *networkHandler) keep(at *shared) (ok bool) {
	p.mu.Lock()
	before := p.at
	if ok = !p.released; ok {
		p.at = at
	} else {
		before = at
	}
	p.mu.Unlock()
	if before != nil {
		p.networks.leave(before)
	}
	return ok
}

// Release implements [probe.Releaser].
func (p *networkHandler) Release() {
	probe.Release(p.inside)
	p.mu.Lock()
	at := p.at
	p.at, p.released = nil, true
	p.mu.Unlock()
	if at != nil {
		p.networks.leave(at)
	}
}

// acquire returns the namespace at path for an additional probe.
func (n *networks) acquire(path string) (*shared, error) {
	n.mu.Lock()
	at := n.open[path]
	if at != nil {
		at.users++
	}
	n.mu.Unlock()
	if at != nil {
		if at.namespace.Current() == nil {
			return at, nil
		}
		n.leave(at) // the path leads to another namespace, or nowhere
	}
	namespace, err := netns.Open(path) // without a lock
	if err != nil {
		return nil, err
	}
	if namespace.IsOwn() { // for example after a PID was reused: its loopback is not the pod's
		_ = namespace.Close()
		return nil, errOwn
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if other := n.open[path]; other != nil && other.namespace.Same(namespace) { // opened by another probe meanwhile
		_ = namespace.Close()
		other.users++
		return other, nil
	}
	at = &shared{namespace: namespace, users: 1}
	n.open[path] = at
	return at, nil
}

// leave releases the namespace, and closes it after its last probe.
func (n *networks) leave(at *shared) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at.users--; at.users > 0 {
		return
	}
	if path := at.namespace.Path(); n.open[path] == at {
		delete(n.open, path)
	}
	_ = at.namespace.Close()
}
