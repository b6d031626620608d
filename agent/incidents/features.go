package incidents

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/probe"
)

// Key identifies a probe.
type Key struct {
	Namespace, Pod, UID, Container string
	Kind                           probe.Kind
}

func (k *Key) compare(o *Key) int {
	return cmp.Or(cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Pod, o.Pod), cmp.Compare(k.UID, o.UID),
		cmp.Compare(k.Container, o.Container), cmp.Compare(k.Kind, o.Kind))
}

// Probe is the present state of a probe. A healthy one only needs the fields from Plugin to Group.
type Probe struct {
	Key
	State   states.State
	Since   time.Time // begin of State
	Cause   states.Cause
	Handler string
	Plugin  bool   // Handler is no built-in handler
	Target  string // description for people, such as "GET http://10.0.3.7:8080/healthz"
	Address string // address or name of the host of the target; "" if it is unknown
	Labels  map[string]string
	Group   string // name of its group of targets, push or endpoint; "" for none

	DependsOn []string // groups that may be why it fails; empty unless a failed dependency is its cause
	Behind    []Key    // probes that may be why it fails
}

// depends reports whether p fails because of other probes.
func (p *Probe) depends() bool { return len(p.DependsOn) > 0 || len(p.Behind) > 0 }

// class is a kind of feature. The order is the order of preference among equally frequent features. The numbers are
// in the file of [Watch.Open].
type class uint8

const (
	byPod class = iota
	byAddress
	byCause
	byRange
	byPlugin
	byGroup
	byLabel
	byPath // only for titles
	byRest // of more incidents than [MaxIncidents]
)

// feature is something that probes share.
type feature struct {
	class      class
	name, text string
	addr       netip.Addr
}

func (f *feature) compare(o *feature) int {
	return cmp.Or(cmp.Compare(f.class, o.class), f.addr.Compare(o.addr), cmp.Compare(f.name, o.name), cmp.Compare(f.text, o.text))
}

// least returns the minimum number of probes with a feature of class c that are an incident.
func (c class) least() int {
	switch c {
	case byCause:
		return 1
	case byPod, byAddress:
		return minMembers
	default:
		return minSpots
	}
}

// MaxLabels is the maximum number of labels of a probe that count, the first ones by name.
const MaxLabels = 8

// places appends the features of p other than its cause.
func (p *Probe) places(all []feature) []feature {
	all = append(all, feature{class: byPod, name: p.UID, text: p.Namespace + "/" + p.Pod})
	addr, err := netip.ParseAddr(p.Address)
	switch addr = addr.Unmap().WithZone(""); {
	case err != nil && p.Address != "" && p.Address != "localhost":
		all = append(all, feature{class: byAddress, text: p.Address})
	case err == nil && !addr.IsLoopback() && !addr.IsUnspecified():
		all = append(all, feature{class: byAddress, addr: addr}, feature{class: byRange, addr: rangeOf(addr).Addr()})
	}
	if p.Plugin {
		all = append(all, feature{class: byPlugin, text: p.Handler})
	}
	if p.Group != "" {
		all = append(all, feature{class: byGroup, text: p.Group})
	}
	if path := pathOf(p.Target); path != "" {
		all = append(all, feature{class: byPath, text: path})
	}
	if len(p.Labels) <= MaxLabels {
		for name, value := range p.Labels {
			all = append(all, feature{class: byLabel, name: name, text: value})
		}
		return all
	}
	for _, name := range slices.Sorted(maps.Keys(p.Labels))[:MaxLabels] {
		all = append(all, feature{class: byLabel, name: name, text: p.Labels[name]})
	}
	return all
}

// rangeOf returns the network of an address: /24, or /64 for IPv6.
func rangeOf(addr netip.Addr) netip.Prefix {
	bits := 24
	if addr.Is6() {
		bits = 64
	}
	network, _ := addr.Prefix(bits) // an error is impossible for these lengths
	return network
}

// pathOf returns the path of the URL in the description of a target; "" if it has none.
func pathOf(target string) string {
	_, rest, _ := strings.Cut(target, "://")
	_, path, ok := strings.Cut(rest, "/")
	if !ok || path == "" {
		return ""
	}
	path, _, _ = strings.Cut(path, " ")
	path, _, _ = strings.Cut(path, "?")
	return "/" + path
}

// causeFeature returns the feature for the cause of a failure.
func (p *failure) causeFeature() feature {
	f := feature{class: byCause, name: p.cause.Reason}
	switch reason := probe.Reason(p.cause.Reason); {
	case isPluginFault(reason):
		f.text = p.Handler
	case reason == probe.ReasonDependency && len(p.DependsOn) > 0:
		f.text = p.DependsOn[0]
	case !saysEnough(reason):
		f.text = states.Pattern(p.cause.Text)
	}
	return f
}

// isPluginFault reports whether r is a fault of a plugin itself, for all of its probes.
func isPluginFault(r probe.Reason) bool {
	return r == probe.ReasonTrap || r == probe.ReasonMemory || r == probe.ReasonInstantiate
}

// saysEnough reports whether failures with the reason r have the same cause whatever their texts are. The texts
// of such reasons have names of hosts.
func saysEnough(r probe.Reason) bool {
	switch r {
	case probe.ReasonDNS, probe.ReasonConnectRefused, probe.ReasonConnectTimeout, probe.ReasonTLS, probe.ReasonDeadline, probe.Reason(results.NotRunning):
		return true
	}
	return r.OfHost()
}

// hasPlace reports whether the address of a target may be why it fails with the reason r.
func hasPlace(r probe.Reason) bool {
	return r != probe.ReasonDNS && r != probe.ReasonDependency && !r.OfHost() && !isPluginFault(r)
}
