package attempt

import (
	"net/netip"
	"slices"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Plugin has the values that all requests of one plugin share.
type Plugin struct {
	Manifest    *plugin.Manifest
	Digest      string
	HostVersion string
	Features    []string // the plugin's capabilities
}

// Request returns the request document of an attempt.
func (p *Plugin) Request(req *probe.Request, config []byte) []byte {
	return p.AppendRequest(nil, req, config)
}

// AppendRequest appends the request document of an attempt to b.
func (p *Plugin) AppendRequest(b []byte, req *probe.Request, config []byte) []byte {
	doc := p.document(config, req.Target)
	doc.Probe = abi.Probe{
		Kind: req.Kind, Attempt: req.Attempt, PeriodMs: req.Spec.Period.Milliseconds(), TimeoutMs: req.Spec.Timeout.Milliseconds(),
		FailureThreshold: req.Spec.FailureThreshold, LastResult: req.LastResult,
	}
	doc.Container.ID = req.ContainerID
	if req.Pod != nil {
		doc.Pod = abi.Pod{Namespace: req.Pod.Namespace, Name: req.Pod.Name, UID: req.Pod.UID, Labels: req.Pod.Labels}
	}
	if req.Container != nil {
		doc.Container.Name, doc.Container.Ports = req.Container.Name, req.Container.Ports
	}
	return abi.AppendRequest(slices.Grow(b, 1024), &doc)
}

// ConfigRequest returns the request document for the validation of a config.
func (p *Plugin) ConfigRequest(config []byte, target probe.Target) []byte {
	doc := p.document(config, target)
	return abi.AppendRequest(nil, &doc)
}

func (p *Plugin) document(config []byte, target probe.Target) abi.Request {
	return abi.Request{
		ABI: abi.Version, Plugin: abi.Plugin{Name: p.Manifest.Name, Version: p.Manifest.Version, Digest: p.Digest},
		Target: targetOf(target), Config: config, Host: abi.Host{Version: p.HostVersion, Features: p.Features},
	}
}

// targetOf returns the target as a plugin sees it. IP is set if the host is an IP address.
func targetOf(t probe.Target) abi.Target {
	out := abi.Target{Host: t.Host, Port: t.Port, Unix: t.Unix}
	if addr, err := netip.ParseAddr(t.Host); err == nil {
		out.IP = addr.String()
	}
	return out
}
