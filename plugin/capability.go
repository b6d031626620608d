package plugin

import (
	"slices"
	"strings"

	"github.com/daeace23/prober/internal/abi"
)

// The names of the capabilities in manifests, metrics and requests.
const (
	CapabilityNet   = "net"
	CapabilityHTTP  = "http"
	CapabilityDNS   = "dns"
	CapabilityKV    = "kv"
	CapabilityICMP  = "icmp"
	CapabilityFiles = "files"
)

// Capability is a permission that a manifest requests by name. It covers the functions of
// one import module.
type Capability struct {
	Name    string
	Summary string // one line for operators
	Module  string // the import module; internal/abi lists its functions

	// Target reports whether the target of the probe is always granted, as it is for net, http and icmp.
	// A plugin needs a request and a grant only to reach anything else.
	Target bool
	// Waits reports whether a call may wait for an answer from the network, or for a disk.
	Waits bool
	// Grant is the pattern for the whole capability, such as "dns". A request without patterns
	// asks for it. Without a grant of its scheme, the functions return that they are denied. It is
	// "" if Target is true.
	Grant string
	// Patterns are the forms of the patterns that a request may list, for messages.
	Patterns []string
	// Widest are the grants that together allow the most, with wildcards. Unix sockets are not
	// among them: each is granted by its path.
	Widest []string
}

// capabilities is the list of capabilities. CONTRIBUTING.md lists the other changes for a new one beside its
// entry here.
var capabilities = []Capability{
	{
		Name: CapabilityNet, Module: abi.ModuleNet, Summary: "connections of TCP, UDP, TLS and unix sockets",
		Target: true, Waits: true,
		Patterns: []string{targetGrant, "tcp://HOST:PORTS", "udp://HOST:PORTS", "tls://HOST:PORTS", "unix:///PATH"},
		Widest:   []string{"tcp://*:*", "udp://*:*"},
	},
	{
		Name: CapabilityHTTP, Module: abi.ModuleHTTP, Summary: "HTTP requests",
		Target: true, Waits: true,
		Patterns: []string{targetGrant, "http://HOST:PORTS/PATH", "https://HOST:PORTS/PATH", "tcp://HOST:PORTS", "tls://HOST:PORTS"},
		Widest:   []string{"http://*:*", "https://*:*"},
	},
	{
		Name: CapabilityDNS, Module: abi.ModuleDNS, Summary: "DNS look-ups",
		Waits: true, Grant: "dns",
		Patterns: []string{"dns", "dns://NAME"},
		Widest:   []string{"dns"},
	},
	{
		Name: CapabilityKV, Module: abi.ModuleKV, Summary: "values that a probe keeps from attempt to attempt",
		Grant:    "kv",
		Patterns: []string{"kv"},
		Widest:   []string{"kv"},
	},
	{
		Name: CapabilityICMP, Module: abi.ModuleICMP, Summary: "ICMP echo requests: ping",
		Target: true, Waits: true,
		Patterns: []string{targetGrant, "icmp://HOST"},
		Widest:   []string{"icmp://*"},
	},
	{
		Name: CapabilityFiles, Module: abi.ModuleFiles, Summary: "reading files of the host",
		Waits: true, Grant: "file:///**",
		Patterns: []string{"file:///PATH", "file:///PATH/**"},
		Widest:   []string{"file:///**"},
	},
}

// targetGrant is the grant that every plugin has.
const targetGrant = "target"

// Capabilities returns all capabilities. The caller must not change the elements of their slices.
func Capabilities() []Capability { return slices.Clone(capabilities) }

// CapabilityNames returns the names of all capabilities, in the order of [Capabilities].
func CapabilityNames() []string {
	names := make([]string, len(capabilities))
	for i, c := range capabilities {
		names[i] = c.Name
	}
	return names
}

// CapabilityNamed returns the capability of that name; ok is false if there is none.
func CapabilityNamed(name string) (c Capability, ok bool) {
	return findCapability(func(c Capability) bool { return c.Name == name })
}

// CapabilityOfModule returns the capability that covers an import module; ok is false for
// modules that need none, and for unknown ones.
func CapabilityOfModule(module string) (c Capability, ok bool) {
	return findCapability(func(c Capability) bool { return c.Module == module })
}

func findCapability(match func(Capability) bool) (Capability, bool) {
	if at := slices.IndexFunc(capabilities, match); at >= 0 {
		return capabilities[at], true
	}
	return Capability{}, false
}

// GrantedBy reports whether grants allow at least a part of c to a plugin that requests it.
func (c Capability) GrantedBy(grants []Grant) bool {
	scheme, _, _ := strings.Cut(c.Grant, "://")
	return c.Grant == "" || slices.ContainsFunc(grants, func(g Grant) bool { return g.Is(scheme) })
}

// Patterns returns the patterns that r requests: Allow, with the target if the capability
// includes it, or the grant of the whole capability if Allow is empty.
func (r Request) Patterns() []string {
	c, _ := CapabilityNamed(r.Capability)
	switch {
	case c.Target && !slices.Contains(r.Allow, targetGrant):
		return append([]string{targetGrant}, r.Allow...)
	case c.Grant != "" && len(r.Allow) == 0:
		return []string{c.Grant}
	}
	return r.Allow
}

// WidestGrants returns the grants that allow everything except unix sockets, which need a grant each.
func WidestGrants() []string {
	grants := []string{targetGrant}
	for _, c := range capabilities {
		grants = append(grants, c.Widest...)
	}
	return grants
}

// patternForms returns the distinct forms of all patterns.
func patternForms() (forms []string) {
	for _, c := range capabilities {
		for _, form := range c.Patterns {
			if !slices.Contains(forms, form) {
				forms = append(forms, form)
			}
		}
	}
	return forms
}
