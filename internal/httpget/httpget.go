// Package httpget implements the kubelet's rules for an httpGet action, which probes and hooks share: its URL, its
// headers, and the redirects that are followed.
package httpget

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/daeace23/prober/probe"
)

// maxRedirects is the maximum number of redirects that a request follows.
const maxRedirects = 10

// URL returns the URL for path, which may have a query, on host, a HOST or HOST:PORT. The scheme is spelled as
// in the Kubernetes API, and defaults to http. URL ignores a scheme and host in path, so that path cannot change the
// target. A path that cannot be parsed is used literally.
func URL(scheme, host, path string) (*url.URL, error) {
	scheme = strings.ToLower(cmp.Or(scheme, "http"))
	if scheme != "http" && scheme != "https" {
		return nil, fmt.Errorf("scheme: unknown scheme %q; known: HTTP, HTTPS", scheme)
	}
	u, err := url.Parse(path)
	if err != nil {
		u = &url.URL{Path: path}
	}
	u.Scheme, u.Host = scheme, host
	if u, err = url.Parse(u.String()); err != nil { // adds a leading slash to a path such as "healthz"
		return nil, fmt.Errorf("path: %w", err)
	}
	return u, nil
}

// Describe returns u for people, without its user, its password and its fragment. If u has no host, address is
// used, in the format of [probe.Target.Address].
func Describe(u url.URL, address string) string {
	u.User, u.Opaque, u.Fragment, u.RawFragment = nil, "", "", "" // an opaque URL may be USER:PASSWORD@HOST
	if u.Host != "" || u.Scheme == "" && u.Path != "" && u.Path[0] != '/' {
		return u.String()
	}
	u.Host = cmp.Or(address, probe.UnknownHost)
	if u.Path == "" {
		u.Path = "/"
	}
	if strings.HasPrefix(address, "unix:") {
		u.Host = "localhost"
		return strings.TrimPrefix(u.String(), "//") + " " + address
	}
	if host, standard := strings.CutSuffix(address, ":"+ports[u.Scheme]); standard && host != "" {
		u.Host = host
	}
	return strings.TrimPrefix(u.String(), "//")
}

// ports has the default port of each scheme.
var ports = map[string]string{"http": "80", "https": "443"}

// Header returns a copy of h with canonical names, and with defaults for Accept and User-Agent. If h sets one of
// these to "", it is not sent.
func Header(h http.Header, userAgent string) http.Header {
	c := make(http.Header, len(h)+2)
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			c.Add(name, value)
		}
	}
	if _, ok := c["User-Agent"]; !ok {
		c.Set("User-Agent", userAgent)
	}
	if _, ok := c["Accept"]; !ok {
		c.Set("Accept", "*/*")
	} else if c.Get("Accept") == "" {
		c.Del("Accept")
	}
	return c
}

// CheckRedirect follows redirects to the host of the first request. The port and the scheme may change. The response
// of another host says nothing about the target, and must not receive the request's headers.
func CheckRedirect(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return &probe.Error{Reason: probe.ReasonHTTPStatus, Err: fmt.Errorf("stopped after %d redirects", maxRedirects)}
	}
	return nil
}
