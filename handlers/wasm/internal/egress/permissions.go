package egress

import (
	"fmt"
	"slices"

	"github.com/daeace23/prober/internal/netaddr"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Permissions has the requests of a plugin's manifest and the grants of the operator. It is
// read-only.
type Permissions struct {
	granted   []plugin.Grant
	requested map[string][]plugin.Grant // by capability
	optional  map[string]bool           // capabilities that the plugin works without
	features  []string
}

// NewPermissions returns permissions for requests and grants. If a required capability is not
// granted, it returns an error with the reason "denied".
func NewPermissions(requests []plugin.Request, grants []plugin.Grant) (*Permissions, error) {
	p := &Permissions{granted: grants, requested: make(map[string][]plugin.Grant), optional: make(map[string]bool)}
	for _, r := range requests {
		patterns, err := plugin.ParseGrants(r.Patterns())
		if err != nil {
			return nil, fmt.Errorf("requests: %s: %w", r.Capability, err)
		}
		p.requested[r.Capability] = append(p.requested[r.Capability], patterns...)
		p.optional[r.Capability] = p.optional[r.Capability] || r.Optional
		if !r.Optional && !p.Has(r.Capability) {
			return nil, notGranted("the capability %q is not granted", r.Capability)
		}
	}
	p.features = slices.DeleteFunc(plugin.CapabilityNames(), func(name string) bool { return !p.Has(name) })
	return p, nil
}

// CheckImports returns an error if the plugin imports the module of a capability that it does not
// have, unless the capability is optional.
func (p *Permissions) CheckImports(modules []string) error {
	for _, module := range modules {
		capability, ok := plugin.CapabilityOfModule(module)
		if !ok || p.Has(capability.Name) || p.optional[capability.Name] {
			continue
		}
		if _, requested := p.requested[capability.Name]; !requested {
			return notGranted("it imports %s, and its manifest does not ask for the capability %q", module, capability.Name)
		}
		return notGranted("it imports %s, and the capability %q is not granted", module, capability.Name)
	}
	return nil
}

func notGranted(format string, args ...any) error {
	return &probe.Error{Reason: probe.ReasonDenied, Err: fmt.Errorf(format, args...)}
}

// Has reports whether at least a part of a capability is both requested and granted.
func (p *Permissions) Has(name string) bool {
	capability, _ := plugin.CapabilityNamed(name)
	if capability.Grant == "" {
		return true
	}
	_, requested := p.requested[name]
	return requested && capability.GrantedBy(p.granted)
}

// Features returns the capabilities that the plugin has. The list must not be changed.
func (p *Permissions) Features() []string { return p.features }

// denies returns the grant that denies d, if there is one. If d has no address, only denials by name
// match.
func (p *Permissions) denies(d plugin.Dial) (plugin.Grant, bool) {
	for _, form := range netaddr.Forms(d.Addr) {
		d.Addr = form
		for _, g := range p.granted {
			if g.Deny() && g.Matches(d) {
				return g, true
			}
		}
	}
	return plugin.Grant{}, false
}

// deniedNames returns the names that grants deny, without wildcards.
func (p *Permissions) deniedNames() (names []string) {
	for _, g := range p.granted {
		if name, below := g.Name(); g.Deny() && name != "" && !below {
			names = append(names, name)
		}
	}
	return names
}

// deniesBelow reports whether a grant denies dials like d to all subdomains of some name.
func (p *Permissions) deniesBelow(d plugin.Dial) bool {
	return slices.ContainsFunc(p.granted, func(g plugin.Grant) bool {
		name, below := g.Name()
		d.Name = "any." + name
		return below && g.Deny() && g.Matches(d)
	})
}

// allows reports whether d is requested and granted.
func (p *Permissions) allows(capability string, d plugin.Dial) bool {
	match := func(g plugin.Grant) bool { return !g.Deny() && g.Matches(d) }
	return slices.ContainsFunc(p.granted, match) && slices.ContainsFunc(p.requested[capability], match)
}

// spellsOut reports whether a grant that allows d spells out its address. A literal address does. A
// name or a range does for loopback addresses only. A wildcard never does.
func (p *Permissions) spellsOut(d plugin.Dial) bool {
	return slices.ContainsFunc(p.granted, func(g plugin.Grant) bool {
		return !g.Deny() && g.Names(d.Addr) && g.Matches(d)
	})
}

// mayResolve reports whether a name may be looked up to dial it.
func (p *Permissions) mayResolve(capability string, d plugin.Dial) bool {
	named := func(g plugin.Grant) bool { return g.MayName(d.Scheme, d.Name, d.Port) }
	ranged := func(g plugin.Grant) bool { return g.MayLead(d.Scheme, d.Port) }
	if !slices.ContainsFunc(p.requested[capability], func(g plugin.Grant) bool { return named(g) || ranged(g) }) {
		return false
	}
	return slices.ContainsFunc(p.granted, named) || p.mayLookUp(d.Name) && slices.ContainsFunc(p.granted, ranged)
}

// mayLookUp reports whether a name may be looked up by prober_v1_dns.
func (p *Permissions) mayLookUp(name string) bool {
	about := func(deny bool) func(plugin.Grant) bool {
		return func(g plugin.Grant) bool { return g.Deny() == deny && g.MayLookUp(name) }
	}
	return slices.ContainsFunc(p.granted, about(false)) && slices.ContainsFunc(p.requested[plugin.CapabilityDNS], about(false)) &&
		!slices.ContainsFunc(p.granted, about(true))
}

// File returns the grant that allows a file. It returns a [Denied] error unless the file is requested and
// granted, and no grant denies it.
func (p *Permissions) File(path string) (plugin.Grant, error) {
	allows := func(g plugin.Grant) bool { return !g.Deny() && g.MatchesFile(path) }
	at := slices.IndexFunc(p.granted, allows)
	denies := slices.IndexFunc(p.granted, func(g plugin.Grant) bool { return g.Deny() && g.MatchesFile(path) })
	switch {
	case denies >= 0:
		return plugin.Grant{}, denyf("denied by the grant %s", p.granted[denies])
	case at < 0:
		return plugin.Grant{}, denyf("file://%.200s is not granted", path)
	case !slices.ContainsFunc(p.requested[plugin.CapabilityFiles], allows):
		return plugin.Grant{}, denyf("file://%.200s is granted, but the manifest does not request it", path)
	}
	return p.granted[at], nil
}
