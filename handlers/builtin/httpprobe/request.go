package httpprobe

import (
	"cmp"
	"net/netip"
	"net/url"
	"strings"

	"github.com/daeace23/prober/handlers/builtin/internal/network"
)

// withHost returns base with the host of one attempt. If the host is invalid in a URL, the error has the
// kubelet's text.
func withHost(base url.URL, at network.Endpoint) (*url.URL, error) {
	if base.Opaque == "" {
		base.Host = at.Address()
	}
	if at.Unix != "" {
		base.Host = hostOfSocket(at)
		return &base, nil
	}
	if isPlainHost(at.Host) {
		return &base, nil
	}
	return url.Parse(base.String())
}

// isPlainHost reports whether host is a name or an IP address that needs no escaping in a URL. An address
// with a zone does.
func isPlainHost(host string) bool {
	if strings.Contains(host, ":") {
		addr, err := netip.ParseAddr(host)
		return err == nil && addr.Zone() == ""
	}
	for i := range len(host) {
		if !isHostByte(host[i]) {
			return false
		}
	}
	return true
}

func isHostByte(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '.' || c == '-' || c == '_'
}

// hostOfSocket returns the host in the URL of a probe of a socket.
func hostOfSocket(at network.Endpoint) string { return cmp.Or(at.Host, "localhost") }
