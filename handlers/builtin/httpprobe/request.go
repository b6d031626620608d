package httpprobe

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/daeace23/prober/handlers/builtin/internal/network"
)

// baseURL returns the URL of scheme and path without its host, so that an attempt has nothing to
// parse.
func baseURL(scheme, path string) (*url.URL, error) {
	scheme = strings.ToLower(cmp.Or(scheme, "http"))
	if scheme != "http" && scheme != "https" {
		return nil, fmt.Errorf("scheme: unknown scheme %q; known: HTTP, HTTPS", scheme)
	}
	// Parsing it again gives "healthz" its slash.
	u, err := url.Parse(formatURL(scheme, "host:1", path).String())
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	return u, nil
}

// formatURL returns the URL of path, which may have a query, at host. It ignores a scheme and host
// in path, so that no path leads to another target. A path that cannot be parsed is used as it is.
func formatURL(scheme, host, path string) *url.URL {
	u, err := url.Parse(path)
	if err != nil {
		u = &url.URL{Path: path}
	}
	u.Scheme, u.Host = scheme, host
	return u
}

// withHost returns base with the host of one attempt. A host that is invalid in a URL is an error,
// with the kubelet's text.
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

// isPlainHost reports whether host is a name or an IP address that needs no escape in a URL. An
// address with a zone needs one.
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

// withDefaults returns h with defaults for Accept and User-Agent, which are left out if they are
// given as "".
func withDefaults(h http.Header, userAgent string) http.Header {
	if _, ok := h["User-Agent"]; !ok {
		h.Set("User-Agent", userAgent)
	}
	if _, ok := h["Accept"]; !ok {
		h.Set("Accept", "*/*")
	} else if h.Get("Accept") == "" {
		h.Del("Accept")
	}
	return h
}

// canonical returns a copy of h with canonical names.
func canonical(h http.Header) http.Header {
	c := make(http.Header, len(h)+2)
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			c.Add(name, value)
		}
	}
	return c
}
