package access

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/daeace23/prober/internal/clip"
)

// Hosts are the allowed values of the Host header. The zero value allows localhost and IP addresses, which
// DNS rebinding cannot use.
type Hosts struct{ patterns []hostPattern }

// hostPattern matches a name, or all names below it.
type hostPattern struct {
	name  string // in lower case; for a wildcard, with the leading dot
	below bool
	port  string // "": any
}

// ParseHosts returns Hosts that also allow the patterns, of the form HOST, HOST:PORT, *.SUFFIX or
// *.SUFFIX:PORT.
func ParseHosts(patterns []string) (Hosts, error) {
	var h Hosts
	for _, text := range patterns {
		p, err := parseHost(text)
		if err != nil {
			return Hosts{}, err
		}
		h.patterns = append(h.patterns, p)
	}
	return h, nil
}

func parseHost(text string) (hostPattern, error) {
	var p hostPattern
	p.name, p.port = splitHost(text)
	if suffix, ok := strings.CutPrefix(p.name, "*"); ok {
		p.name, p.below = suffix, true
	}
	if _, err := strconv.ParseUint(p.port, 10, 16); p.port != "" && err != nil ||
		p.below != strings.HasPrefix(p.name, ".") || !isHostName(strings.TrimPrefix(p.name, ".")) {
		return hostPattern{}, fmt.Errorf("%q: must be HOST, HOST:PORT, *.SUFFIX or *.SUFFIX:PORT", text)
	}
	return p, nil
}

// isHostName reports whether name is an IP address or a valid DNS name.
func isHostName(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	other := func(c rune) bool {
		return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z')
	}
	return !slices.ContainsFunc(strings.Split(name, "."), func(label string) bool {
		return label == "" || strings.ContainsFunc(label, other)
	})
}

// Allow reports whether a request with this Host header may be answered.
func (h Hosts) Allow(hostport string) bool {
	name, port := splitHost(hostport)
	if _, err := netip.ParseAddr(name); err == nil || name == "localhost" {
		return true
	}
	return slices.ContainsFunc(h.patterns, func(p hostPattern) bool {
		matches := name == p.name
		if p.below {
			matches = strings.HasSuffix(name, p.name) && len(name) > len(p.name)
		}
		return matches && (p.port == "" || p.port == port)
	})
}

// splitHost returns the name or address in hostport, in lower case and without the trailing dot,
// and the port, "" for none.
func splitHost(hostport string) (name, port string) {
	name, port, err := net.SplitHostPort(hostport)
	if err != nil {
		name, port = hostport, ""
		if inside, ok := strings.CutSuffix(hostport, "]"); ok {
			name = strings.TrimPrefix(inside, "[")
		}
	}
	return strings.TrimSuffix(strings.ToLower(name), "."), port
}

func wrongHost(host string) string {
	return fmt.Sprintf("host %q is not allowed: ask for localhost, an IP address or a name of --allowed-hosts", clip.Marked(host, maxShown, "…"))
}
