package config

import (
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/daeace23/prober/internal/yamlpos"
)

// Blackbox restricts the scrapes of /probe. A relative path is relative to the folder of the file.
type Blackbox struct {
	// TokenFile is the file of the token that each scrape over TCP needs; "" means no token.
	TokenFile string
	// Targets lists the hosts that may be probed; empty means all. A Host may begin with "*.".
	Targets []Target
}

// Allows reports whether a scrape may name a target with that host. It does not resolve a host name: the
// name itself must be listed.
func (b *Blackbox) Allows(host string) bool {
	if b == nil || len(b.Targets) == 0 {
		return true
	}
	addr, err := netip.ParseAddr(host)
	if err == nil {
		addr = addr.Unmap().WithZone("")
		return slices.ContainsFunc(b.Targets, func(t Target) bool { return t.Host == "" && t.Prefix.Contains(addr) })
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	return slices.ContainsFunc(b.Targets, func(t Target) bool {
		suffix, below := strings.CutPrefix(t.Host, "*")
		return t.Host != "" && (name == t.Host || below && strings.HasSuffix(name, suffix) && len(name) > len(suffix))
	})
}

func (d *decoder) blackbox(a *Agent) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		b := new(Blackbox)
		d.Mapping(n, path, yamlpos.Fields{
			"tokenFile": d.NonEmpty(&b.TokenFile),
			"targets": d.ListOf(func(n *yamlpos.Node, path string) {
				var t Target
				yamlpos.Parsed(&d.Decoder, &t, parseScraped)(n, path)
				b.Targets = append(b.Targets, t)
			}),
		})
		if targets := yamlpos.Field(n, "targets"); targets != nil && len(b.Targets) == 0 {
			d.Errorf(targets, path+".targets", "must not be empty: without it, all hosts may be probed")
		}
		a.Blackbox = b
	}
}

// parseScraped parses an entry of blackbox.targets.
func parseScraped(text string) (Target, error) {
	rest, below := strings.CutPrefix(text, "*.")
	t, err := parseTarget(rest)
	if below && err == nil {
		if t.Host == "" {
			return Target{}, errors.New("must have a domain name after the asterisk")
		}
		t.Host = "*." + t.Host
	}
	return t, err
}
