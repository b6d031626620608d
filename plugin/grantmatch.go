package plugin

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Dial describes a connection to one address, before it is made, for comparison with grants.
type Dial struct {
	Scheme string     // "tcp", "udp", "tls", "http", "https", "unix" or "icmp"
	Name   string     // the dialled name, in lower case; "" if an address is dialled
	Addr   netip.Addr // the address, unmapped and without a zone
	Port   uint16     // 0 for icmp
	Path   string     // of the socket, or of the URL, escaped
}

// Matches reports whether the pattern matches d. [Grant.Deny] reports whether it denies d then.
func (g Grant) Matches(d Dial) bool {
	if g.scheme == fileScheme {
		return false
	}
	if d.Scheme == "unix" || g.scheme == "unix" {
		return g.scheme == d.Scheme && g.path == d.Path
	}
	if g.scheme != "" && !covers(g.scheme, d.Scheme) {
		return false
	}
	return g.host.matches(d) && g.port(d.Port) && g.matchesPath(d)
}

// Deny reports whether g is a denial.
func (g Grant) Deny() bool { return g.deny }

// Name returns the host name in the pattern; below reports whether the pattern matches the
// names below it. name is "" if the pattern has an address, or matches every name.
func (g Grant) Name() (name string, below bool) {
	if g.host.suffix != "" {
		return g.host.suffix[1:], true
	}
	return g.host.name, false
}

// Is reports whether g is a grant of this kind: "target", "kv", "dns" or "file". For "dns" the grant may be
// for some names only, and for "file" for some files.
func (g Grant) Is(name string) bool { return g.scheme == name && !g.deny }

// Names reports whether g names exactly this address. For a loopback address, a range of loopback
// addresses or localhost is enough. Addresses of the host itself and of cloud metadata services need
// such a grant; wildcards do not allow them.
func (g Grant) Names(addr netip.Addr) bool {
	p := g.host.prefix
	if addr.IsLoopback() && (g.host.name == "localhost" || p.IsValid() && p.Addr().IsLoopback() && p.Bits() >= 8) {
		return true
	}
	return p.IsValid() && p.IsSingleIP() && p.Addr() == addr
}

// MayName reports whether a dial of a name could match. The host looks up no other names, since a
// look-up reveals the name to DNS servers.
func (g Grant) MayName(scheme, name string, port uint16) bool {
	if g.deny || !covers(g.scheme, scheme) || !g.port(port) || g.host.prefix.IsValid() {
		return false
	}
	return g.host.matches(Dial{Name: name})
}

// MayLead reports whether g grants addresses, so that the address of a name could match on this port.
func (g Grant) MayLead(scheme string, port uint16) bool {
	return !g.deny && covers(g.scheme, scheme) && g.port(port) && g.host.prefix.IsValid()
}

// MayLookUp reports whether g matches look-ups of a name.
func (g Grant) MayLookUp(name string) bool {
	return g.scheme == "dns" && g.host.matches(Dial{Name: name})
}

// covers reports whether a pattern of one scheme matches dials of another.
func covers(pattern, dial string) bool {
	switch pattern {
	case dial:
		return true
	case "tcp":
		return dial == "tls" || dial == "http" || dial == "https"
	case "tls":
		return dial == "https"
	}
	return false
}

func (h hostPattern) matches(d Dial) bool {
	switch {
	case h.any:
		return true
	case h.prefix.IsValid():
		return h.prefix.Contains(d.Addr)
	case h.suffix != "":
		return strings.HasSuffix(d.Name, h.suffix)
	default:
		return d.Name != "" && d.Name == h.name
	}
}

func (g Grant) port(port uint16) bool {
	return len(g.ports) == 0 || slices.ContainsFunc(g.ports, func(r portRange) bool { return r.first <= port && port <= r.last })
}

// matchesPath compares the path of a URL with the pattern's. If a server may interpret the path as
// another one, it matches the pattern for all paths, no other grant, and every denial. Denials ignore
// case.
func (g Grant) matchesPath(d Dial) bool {
	if g.path == "" || g.path == "/*" {
		return true
	}
	plain, ok := plainPath(cmp.Or(d.Path, "/"))
	if !ok {
		return g.deny
	}
	pattern := g.path
	if g.deny {
		pattern, plain = strings.ToLower(pattern), strings.ToLower(plain)
	}
	if below, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(plain, below)
	}
	return plain == pattern
}

// plainPath returns a URL's path without its escapes. ok reports whether every server interprets it in
// the same way. Such a path is absolute, and has only the characters that RFC 3986 allows without an
// escape, except ";", which begins the parameters of a segment. Thus decoding it again changes nothing.
// Only the last segment may be empty, and no segment consists of dots.
func plainPath(escaped string) (plain string, ok bool) {
	plain, err := url.PathUnescape(escaped)
	if err != nil || plain == "" || plain[0] != '/' || strings.Contains(strings.ToLower(escaped), "%2f") {
		return "", false
	}
	for _, c := range []byte(plain) {
		if !isPathByte(c) {
			return "", false
		}
	}
	segments := strings.Split(plain[1:], "/")
	for i, segment := range segments {
		if segment == "" && i < len(segments)-1 || segment != "" && strings.Trim(segment, ".") == "" {
			return "", false
		}
	}
	return plain, true
}

// isPlain reports whether [plainPath] can return path.
func isPlain(path string) bool {
	_, ok := plainPath(path)
	return ok && !strings.Contains(path, "%")
}

func isPathByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~!$&'()*+,=:@/", c) >= 0
}
