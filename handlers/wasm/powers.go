package wasm

import (
	"fmt"
	"slices"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/netaddr"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// powers is what a plugin may do: what it asks for in its manifest, as far as the
// operator grants it. It is read-only once the plugin is loaded.
type powers struct {
	granted  []plugin.Grant
	asked    map[string][]plugin.Grant // by capability
	optional map[string]bool           // capabilities without which the plugin does something useful
}

// The capabilities, each with its import module. Those of the network reach as far as
// the probe's target without any grant.
var capabilities = map[string]string{
	abi.ModuleNet: "net", abi.ModuleHTTP: "http", abi.ModuleDNS: "dns", abi.ModuleKV: "kv",
}

// ask reads what a manifest asks for, and refuses what nothing was granted of.
func (p *powers) ask(requests []plugin.Request) error {
	p.asked, p.optional = make(map[string][]plugin.Grant), make(map[string]bool)
	for _, r := range requests {
		allow := r.Allow
		if len(allow) == 0 && r.Capability == "dns" {
			allow = []string{"dns"}
		}
		patterns, err := plugin.ParseGrants(allow)
		if err != nil {
			return fmt.Errorf("requests: %s: %w", r.Capability, err)
		}
		p.asked[r.Capability] = append(p.asked[r.Capability], patterns...)
		p.optional[r.Capability] = p.optional[r.Capability] || r.Optional
		if !r.Optional && !p.has(r.Capability) {
			return notGranted("the capability %q is not granted", r.Capability)
		}
	}
	return nil
}

// check refuses the imports of capabilities that the plugin does not have, and that it
// cannot do without.
func (p *powers) check(imports []string) error {
	for _, module := range imports {
		capability := capabilities[module]
		if capability == "" || p.has(capability) || p.optional[capability] {
			continue
		}
		if _, asked := p.asked[capability]; !asked {
			return notGranted("it imports %s, and its manifest does not ask for the capability %q", module, capability)
		}
		return notGranted("it imports %s, and the capability %q is not granted", module, capability)
	}
	return nil
}

func notGranted(format string, args ...any) error {
	return &probe.Error{Reason: probe.ReasonDenied, Err: fmt.Errorf(format, args...)}
}

// has reports whether the plugin was granted anything of a capability.
func (p *powers) has(capability string) bool {
	switch capability {
	case "dns":
		return p.asked["dns"] != nil && slices.ContainsFunc(p.granted, func(g plugin.Grant) bool { return !g.Deny() && g.IsDNS() })
	case "kv":
		_, asked := p.asked["kv"]
		return asked && slices.ContainsFunc(p.granted, func(g plugin.Grant) bool { return g.Is("kv") })
	}
	return true
}

// features are the capabilities that a guest has in this host.
func (p *powers) features() []string {
	known := []string{"net", "http", "dns", "kv"}
	return slices.DeleteFunc(known, func(c string) bool { return !p.has(c) })
}

// denies returns the grant that takes d away, if one does. Without an address, d is held
// against denials by name only.
func (p *powers) denies(d plugin.Dial) (plugin.Grant, bool) {
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

// deniedNames returns the names that grants deny one by one.
func (p *powers) deniedNames() (names []string) {
	for _, g := range p.granted {
		if name, below := g.Name(); g.Deny() && name != "" && !below {
			names = append(names, name)
		}
	}
	return names
}

// deniesBelow reports whether a grant denies all names below some name to dials like d.
func (p *powers) deniesBelow(d plugin.Dial) bool {
	return slices.ContainsFunc(p.granted, func(g plugin.Grant) bool {
		name, below := g.Name()
		d.Name = "any." + name
		return below && g.Deny() && g.Matches(d)
	})
}

// allows reports whether d is asked for and granted.
func (p *powers) allows(capability string, d plugin.Dial) bool {
	match := func(g plugin.Grant) bool { return !g.Deny() && g.Matches(d) }
	return slices.ContainsFunc(p.granted, match) && slices.ContainsFunc(p.asked[capability], match)
}

// names reports whether a grant that allows d names its address.
func (p *powers) names(d plugin.Dial) bool {
	return slices.ContainsFunc(p.granted, func(g plugin.Grant) bool {
		return !g.Deny() && g.Names(d.Addr) && g.Matches(d)
	})
}

// mayName reports whether a name may be looked up to dial it.
func (p *powers) mayName(capability string, d plugin.Dial) bool {
	named := func(g plugin.Grant) bool { return g.MayName(d.Scheme, d.Name, d.Port) }
	ranged := func(g plugin.Grant) bool { return g.MayLead(d.Scheme, d.Port) }
	if !slices.ContainsFunc(p.asked[capability], func(g plugin.Grant) bool { return named(g) || ranged(g) }) {
		return false
	}
	return slices.ContainsFunc(p.granted, named) || p.mayLookUp(d.Name) && slices.ContainsFunc(p.granted, ranged)
}

// mayLookUp reports whether a name may be looked up for its own sake.
func (p *powers) mayLookUp(name string) bool {
	about := func(deny bool) func(plugin.Grant) bool {
		return func(g plugin.Grant) bool { return g.Deny() == deny && g.MayLookUp(name) }
	}
	return slices.ContainsFunc(p.granted, about(false)) && slices.ContainsFunc(p.asked["dns"], about(false)) &&
		!slices.ContainsFunc(p.granted, about(true))
}
