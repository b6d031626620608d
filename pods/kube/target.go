package kube

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/internal/netaddr"
)

// targets decides which targets the probes of one pod may have: the agent must not reach addresses for the
// author of a pod that the author cannot reach.
type targets struct {
	allowed  []config.Target // kubernetes.targets of the operator
	own      []netip.Addr    // addresses of the pod
	loopback bool            // its probes are carried out in the network of the pod
}

func newTargets(allowed []config.Target, pod *v1.Pod, inPod bool) *targets {
	t := &targets{allowed: allowed, loopback: inPod && !pod.Spec.HostNetwork}
	for _, text := range addressesOf(&pod.Status) {
		if isOfPod(text) {
			t.own = append(t.own, netaddr.Plain(netip.MustParseAddr(text)))
		}
	}
	return t
}

// addressesOf returns the addresses of a pod without duplicates, PodIP first.
func addressesOf(status *v1.PodStatus) (all []string) {
	if status.PodIP != "" {
		all = append(all, status.PodIP)
	}
	for _, ip := range status.PodIPs {
		if ip.IP != "" && !slices.Contains(all, ip.IP) {
			all = append(all, ip.IP)
		}
	}
	return all
}

// checkProbe returns an error if a target of a probe is forbidden. own reports whether a target is an
// address of the pod.
func (t *targets) checkProbe(c *declared.Probe) (own bool, refusal *field.Error) {
	target := c.Path.Child("plugin", "target")
	if c.Target.Unix != "" {
		return false, field.Forbidden(target.Child("unix"), noSockets)
	}
	place, at, _ := c.Place()
	for i, host := range [...]string{place.Host, c.Target.Host} {
		if host == "" {
			continue
		}
		path := target.Child("host")
		if i == 0 {
			path = at.Child("host")
		}
		isOwn, why := t.check(host)
		if why != "" {
			return false, field.Forbidden(path, why)
		}
		own = own || isOwn
	}
	return own, nil
}

// check returns why a host is forbidden as a target; "" if it is allowed. own reports whether it is an address
// of the pod.
func (t *targets) check(host string) (own bool, why string) {
	bare := host
	if inside, ok := strings.CutPrefix(host, "["); ok && strings.HasSuffix(inside, "]") {
		bare = strings.TrimSuffix(inside, "]")
	}
	addr, err := netip.ParseAddr(bare)
	if err != nil {
		return false, t.checkName(strings.TrimSuffix(strings.ToLower(bare), "."))
	}
	plain, class := netaddr.Plain(addr), netaddr.Nearest(addr)
	switch {
	case class == netaddr.NoHost:
		return false, fmt.Sprintf("%.80q is not the address of a host", host)
	case slices.Contains(t.own, plain):
		return true, ""
	case class == netaddr.Loopback && t.loopback && netaddr.ClassOf(plain) == netaddr.Loopback:
		return false, ""
	case class == netaddr.Loopback:
		return false, fmt.Sprintf("%.80q would be the node itself; %s: pod carries out probes in the network of the pod", host, NetworkAnnotation)
	case t.listed(plain, class == netaddr.Metadata):
		return false, ""
	}
	return false, refused(host)
}

// CheckTarget is the Guard of a [pods.Source]. It checks against the newest object of the pod, not its plan. A
// host or socket in a probe must be allowed. No host name and no pod status may lead to the node itself or to
// a metadata address.
func (s *Source) CheckTarget(podUID string, to netns.To) error {
	s.mu.Lock()
	p := s.pods[types.UID(podUID)]
	if p == nil {
		s.mu.Unlock()
		return errors.New("the pod of the probe is not known")
	}
	latest, inPod := p.latest, p.inPod
	s.mu.Unlock()
	switch {
	case to.Socket != "":
		return errors.New(noSockets)
	case to.Host != "":
		if _, why := newTargets(s.cfg.Policy.Targets, latest, inPod).check(to.Host); why != "" {
			return errors.New(why)
		}
		return nil
	}
	t := targets{allowed: s.cfg.Policy.Targets}
	switch plain, class := netaddr.Plain(to.Addr), netaddr.Nearest(to.Addr); {
	case class == netaddr.NoHost:
		return fmt.Errorf("%s is not the address of a host", to.Addr)
	case class == netaddr.Loopback:
		return fmt.Errorf("%s would be the node itself", to.Addr)
	case class == netaddr.Metadata && !t.listed(plain, true):
		return fmt.Errorf("%s is a link-local or metadata address, and kubernetes.targets of the agent does not list it", to.Addr)
	}
	return nil
}

const noSockets = "a pod of a cluster must not name sockets of its node"

// isOfPod reports whether text is an address that a pod can have.
func isOfPod(text string) bool {
	addr, err := netip.ParseAddr(text)
	return err == nil && netaddr.Nearest(addr) <= netaddr.Private
}

func refused(host string) string {
	return fmt.Sprintf("%.80q is no address of the pod, and kubernetes.targets of the agent does not allow it", host)
}

func (t *targets) checkName(name string) (why string) {
	switch {
	case name == "localhost" || strings.HasSuffix(name, ".localhost"):
		if _, why = t.check("127.0.0.1"); why != "" {
			return strings.Replace(why, `"127.0.0.1"`, fmt.Sprintf("%.80q", name), 1)
		}
		return ""
	case slices.ContainsFunc(t.allowed, func(a config.Target) bool { return a.Host != "" && a.Host == name }):
		return ""
	}
	return refused(name)
}

// listed reports whether the operator allows an address. A metadata address needs an entry whose network has
// only metadata addresses.
func (t *targets) listed(addr netip.Addr, metadata bool) bool {
	return slices.ContainsFunc(t.allowed, func(a config.Target) bool {
		if a.Host != "" || !a.Prefix.Contains(addr) {
			return false
		}
		return !metadata || netaddr.Nearest(a.Prefix.Addr()) == netaddr.Metadata
	})
}
