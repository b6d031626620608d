package plugins

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/probe"
)

// networks are the open network namespaces in which pods are probed.
type networks struct {
	of    func(podUID string) (path string, ok bool) // see pods.Source
	guard func(podUID string, to netns.To) error     // see pods.Source; nil: there is none

	mu   sync.Mutex
	open map[string]*shared // by path
}

// shared is an open namespace. It is closed when no probe uses it any more.
type shared struct {
	namespace *netns.Namespace
	users     int // guarded by networks.mu
}

// SetNetworks has the attempts of pods made in network namespaces. of returns the path of a pod's, see
// NetworkOf of pods.Source; nil: all pods are in the network of the agent. guard limits what the attempts of a
// pod connect to, see Guard of pods.Source; nil: nothing does. SetNetworks is called before the first probe
// begins.
func (s *Set) SetNetworks(of func(podUID string) (path string, ok bool), guard func(podUID string, to netns.To) error) {
	if of == nil {
		of = func(string) (string, bool) { return "", false }
	}
	s.networks.Store(&networks{of: of, guard: guard, open: make(map[string]*shared)})
}

// placed returns the handler of one probe, whose attempts are made in the namespace of its pod.
func (s *Set) placed(c counted) probe.Handler {
	if n := s.networks.Load(); n != nil {
		return &placed{inside: c, networks: n}
	}
	return c
}

// placed is the handler of one probe of an agent whose pods have network namespaces, or a guard. It embeds no
// other handler, whose Probe would be made without both if this one had another name.
type placed struct {
	inside   counted
	networks *networks

	mu       sync.Mutex
	at       *shared // nil until an attempt needs one
	released bool
}

var (
	_ probe.Inheritor     = (*placed)(nil)
	_ probe.Releaser      = (*placed)(nil)
	_ probe.SecretHolder  = (*placed)(nil)
	_ probe.SecretKeeper  = (*placed)(nil)
	_ probe.SecretChecker = (*placed)(nil)
)

// Inherit implements [probe.Inheritor] for the handler inside.
func (p *placed) Inherit(from probe.Handler) { p.inside.Inherit(from) }

// Secrets implements [probe.SecretHolder] for the handler inside.
func (p *placed) Secrets() []string { return p.inside.Secrets() }

// CheckSecrets implements [probe.SecretChecker] for the handler inside.
func (p *placed) CheckSecrets(fields []string) error { return p.inside.CheckSecrets(fields) }

// KeepSecret implements [probe.SecretKeeper] for the handler inside.
func (p *placed) KeepSecret(redact func(string) string) { p.inside.KeepSecret(redact) }

// Probe implements [probe.Handler].
func (p *placed) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	if req.Pod == nil {
		return p.inside.Probe(ctx, req)
	}
	if guard, uid := p.networks.guard, req.Pod.UID; guard != nil {
		ctx = netns.WithGuard(ctx, func(to netns.To) error { return guard(uid, to) })
	}
	path, ok := p.networks.of(req.Pod.UID)
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
	errOwn       = &probe.Error{Reason: probe.ReasonHostResources, Err: errors.New("its network namespace is that of the agent")}
	errReleased  = &probe.Error{Reason: probe.ReasonHostResources, Err: errors.New("the probe has ended")}
)

// enter returns the open namespace at path, which the probe keeps open until it has ended or has another.
func (p *placed) enter(path string) (*netns.Namespace, error) {
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

// keep makes at the namespace of the probe, in place of the one before. It returns false if the probe has
// ended.
func (p *placed) keep(at *shared) (ok bool) {
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
func (p *placed) Release() {
	p.inside.Release()
	p.mu.Lock()
	at := p.at
	p.at, p.released = nil, true
	p.mu.Unlock()
	if at != nil {
		p.networks.leave(at)
	}
}

// acquire returns the namespace at path for one more probe.
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
		n.leave(at) // its path leads to another one, or nowhere
	}
	namespace, err := netns.Open(path) // with no lock held
	if err != nil {
		return nil, err
	}
	if namespace.IsOwn() { // such as by a number of a process that was used again: its loopback is not the pod's
		_ = namespace.Close()
		return nil, errOwn
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if other := n.open[path]; other != nil && other.namespace.Same(namespace) { // opened meanwhile
		_ = namespace.Close()
		other.users++
		return other, nil
	}
	at = &shared{namespace: namespace, users: 1}
	n.open[path] = at
	return at, nil
}

// leave closes the namespace after its last probe.
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
