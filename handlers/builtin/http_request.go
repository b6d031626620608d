package builtin

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	v1 "k8s.io/api/core/v1"
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
func withHost(base url.URL, at endpoint) (*url.URL, error) {
	if base.Opaque == "" {
		base.Host = at.address()
	}
	if at.unix != "" {
		base.Host = cmp.Or(at.host, "localhost")
		return &base, nil
	}
	if isPlainHost(at.host) {
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
		switch c := host[i]; {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '.', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// header returns the headers of a probe's requests. Accept and User-Agent have defaults, and are
// left out if they are given as "".
func header(given []v1.HTTPHeader, userAgent string) http.Header {
	h := toHeader(given)
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

// toHeader returns given with canonical names. The values of a name keep their order.
func toHeader(given []v1.HTTPHeader) http.Header {
	h := make(http.Header, len(given)+2)
	for _, g := range given {
		h.Add(g.Name, g.Value)
	}
	return h
}
