package plugin

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Grant is a pattern of permitted network addresses and functions. A manifest requests some, and the
// operator grants some. These are the patterns:
//
//	target                        the probe's own target
//	tcp://db.internal:5432        one host and port
//	tcp://*.internal:5432         every name below it
//	tcp://10.0.0.0/8:5432,6000-6010
//	udp://*:53                    every host
//	tls://host:443                connections on which the host makes the TLS
//	https://api.example.com/v1/*  HTTP requests; http:// too
//	unix:///run/x.sock            one socket
//	dns  dns://*.internal         look-ups of every name, or of some
//	kv                            the key-value store of a probe
//	icmp://10.0.0.0/8             echo requests to a host, or to a range
//	file:///proc/loadavg          one file or folder of the host, to read
//	file:///proc/*/stat           a * stands for any characters of one segment
//	file:///var/backups/**        a folder and all below it
//	!10.0.0.0/8  !tcp://db:22     a denial, which wins over all grants
//
// A port is a number, a range, a list of both, or *. tcp covers tls and HTTP to the
// same host and port, and tls covers https.
type Grant struct {
	text   string
	deny   bool
	scheme string // "target", "kv", "tcp", …; "" in a denial for all schemes of the network
	host   hostPattern
	ports  []portRange // all ports if empty
	path   string      // of http, https, unix and file
}

// String returns the source of the pattern.
func (g Grant) String() string { return g.text }

// Equal reports whether g and other have the same source.
func (g Grant) Equal(other Grant) bool { return g.text == other.text }

type portRange struct{ first, last uint16 }

// hostPattern matches one name, all names below one, an address, a range of addresses, or all.
type hostPattern struct {
	any    bool
	suffix string // ".internal"
	name   string
	prefix netip.Prefix // of one or more addresses
}

// The schemes of patterns that have a host.
var hostSchemes = []string{"tcp", "udp", "tls", "http", "https"}

// ParseGrant parses a pattern.
func ParseGrant(text string) (Grant, error) {
	g, err := parseGrant(text)
	if err != nil {
		return Grant{}, fmt.Errorf("grant %.200q: %w", text, err)
	}
	g.text = text
	return g, nil
}

// ParseGrants parses patterns, and joins their errors.
func ParseGrants(texts []string) ([]Grant, error) {
	var grants []Grant
	var errs []error
	for _, text := range texts {
		g, err := ParseGrant(text)
		errs = append(errs, err)
		grants = append(grants, g)
	}
	return grants, errors.Join(errs...)
}

func parseGrant(text string) (Grant, error) {
	rest, deny := strings.CutPrefix(text, "!")
	g := Grant{deny: deny}
	scheme, rest, ok := strings.Cut(rest, "://")
	if !ok {
		rest = scheme
		return g.withoutScheme(rest)
	}
	g.scheme = scheme
	switch {
	case scheme == "unix":
		if !path.IsAbs(rest) || path.Clean(rest) != rest {
			return g, errors.New("must be unix:///path, without . and .. in it")
		}
		if strings.Contains(rest, "*") {
			return g, errors.New("a socket must be named whole: paths have no wildcards")
		}
		g.path = rest
		return g, nil
	case scheme == fileScheme:
		g.path = rest
		return g, checkFilePattern(rest)
	case scheme == "dns":
		return g, g.host.parse(rest, false)
	case scheme == "icmp":
		return g, g.withoutPort(rest)
	case slices.Contains(hostSchemes, scheme):
		return g, g.address(rest)
	}
	return g, fmt.Errorf("unknown scheme %.40q; known: %s", scheme, strings.Join(patternForms(), ", "))
}

// withoutScheme parses a pattern without a scheme.
func (g Grant) withoutScheme(text string) (Grant, error) {
	whole := func(c Capability) bool { return c.Grant != "" && c.Grant == text }
	switch {
	case slices.ContainsFunc(capabilities, whole):
		g.scheme, g.host.any = text, true
	case text == targetGrant && !g.deny:
		g.scheme = text
	case !g.deny:
		return g, fmt.Errorf("unknown; known: %s", strings.Join(patternForms(), ", "))
	default:
		return g, g.address(text)
	}
	return g, nil
}

// address parses HOST, HOST:PORTS, or HOST:PORTS/PATH for http and https.
func (g *Grant) address(text string) error {
	web := g.scheme == "http" || g.scheme == "https"
	host, ports, path := split(text)
	switch {
	case path != "" && !web:
		return errors.New("only http and https have a path")
	case strings.ContainsAny(path, "?#"):
		return errors.New("a path ends before ? and #")
	case path != "" && !isPlain(path):
		return errors.New("the path is ambiguous: write it without escapes, \";\", empty segments and segments of dots")
	case ports == "" && web && !g.deny:
		ports = map[string]string{"http": "80", "https": "443"}[g.scheme]
	case ports == "" && g.scheme != "" && !g.deny:
		return errors.New("the port is missing; * means all ports")
	}
	g.path = path
	if err := g.host.parse(host, true); err != nil {
		return err
	}
	return g.parsePorts(ports)
}

// withoutPort parses HOST.
func (g *Grant) withoutPort(text string) error {
	host, ports, path := split(text)
	if ports != "" || path != "" {
		return errors.New("must be icmp://HOST, without a port and a path")
	}
	return g.host.parse(host, true)
}

// split splits HOST:PORTS/path, where HOST may be 10.0.0.0/8 or [fd00::/8].
func split(text string) (host, ports, path string) {
	host = text
	if inner, rest, ok := strings.Cut(strings.TrimPrefix(text, "["), "]"); ok && text[0] == '[' {
		host, ports = inner, rest
		if at := strings.IndexByte(ports, '/'); at >= 0 {
			ports, path = ports[:at], ports[at:]
		}
		return host, strings.TrimPrefix(ports, ":"), path
	}
	if _, err := netip.ParsePrefix(text); err == nil {
		return text, "", ""
	}
	if _, err := netip.ParseAddr(text); err == nil {
		return text, "", ""
	}
	if at := strings.LastIndexByte(text, ':'); at >= 0 && !strings.Contains(text[at:], "/") {
		if _, err := netip.ParsePrefix(text[:at]); err == nil {
			return text[:at], text[at+1:], ""
		}
	}
	if at := strings.IndexByte(text, '/'); at >= 0 {
		host, path = text[:at], text[at:]
	}
	host, ports, _ = strings.Cut(host, ":")
	return host, ports, path
}

func (g *Grant) parsePorts(text string) error {
	if text == "" || text == "*" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		first, err := strconv.ParseUint(low, 10, 16)
		last, err2 := strconv.ParseUint(high, 10, 16)
		if err != nil || err2 != nil || first == 0 || last < first {
			return fmt.Errorf("%.40q is not a port: must be 1 to 65535, a range, a list or *", part)
		}
		g.ports = append(g.ports, portRange{uint16(first), uint16(last)})
	}
	return nil
}

// parse parses a host. addresses reports whether an address or a prefix is allowed.
func (h *hostPattern) parse(text string, addresses bool) error {
	text = strings.ToLower(strings.TrimSuffix(text, "."))
	if text == "*" {
		h.any = true
		return nil
	}
	if addr, err := netip.ParseAddr(text); err == nil && addresses {
		addr = addr.Unmap().WithZone("")
		h.prefix = netip.PrefixFrom(addr, addr.BitLen())
		return nil
	}
	if prefix, err := netip.ParsePrefix(text); err == nil && addresses {
		if prefix.Addr().Is4In6() || prefix.Masked() != prefix {
			return fmt.Errorf("%s is not the first address of its range", text)
		}
		h.prefix = prefix
		return nil
	}
	name, below := strings.CutPrefix(text, "*.")
	if !ValidHost(name) {
		return fmt.Errorf("%.80q is neither a name nor an address; a * stands alone or before the first dot", text)
	}
	if below {
		h.suffix = "." + name
	} else {
		h.name = name
	}
	return nil
}

// ValidHost reports whether name is a host name in lower case, without a final dot. It rejects names
// that some resolvers parse as an address, such as 0x7f.1, 0177.0.0.1 and 2130706433.
func ValidHost(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if strings.HasPrefix(last, "0x") || strings.Trim(last, "0123456789") == "" {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}
