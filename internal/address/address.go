// Package address parses the addresses of targets, in prober.yaml, in lists and on the command line.
package address

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Max is the maximum length of an address in bytes.
const Max = 2048

// ErrLong is the error of an address that is longer than [Max].
var ErrLong = fmt.Errorf("the address has more than %d bytes", Max)

// Address is the address of a target: a host with or without a port, or a URL.
type Address struct {
	Host   string // an IP address or a name
	Port   int    // 0 for none
	Scheme string // "http" or "https" for a URL; "" otherwise
	Path   string // path of a URL, with its query; "" for none
}

// Parse parses HOST, HOST:PORT, [IPV6]:PORT, IPV6 or a URL.
func Parse(text string) (Address, error) {
	switch {
	case text == "":
		return Address{}, errors.New("the address is empty")
	case len(text) > Max:
		return Address{}, ErrLong
	case strings.Contains(text, "://"):
		return parseURL(text)
	}
	if ip, err := netip.ParseAddr(text); err == nil {
		return hostPort(ip.String(), "")
	}
	host, port := text, ""
	if strings.ContainsAny(text, ":[") {
		var err error
		if host, port, err = net.SplitHostPort(text); err != nil || port == "" {
			return Address{}, fmt.Errorf("%.80q is not an address: must be HOST, HOST:PORT or a URL", text)
		}
	}
	return hostPort(host, port)
}

func parseURL(text string) (Address, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return Address{}, errors.New("the address is not a valid URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return Address{}, fmt.Errorf("the scheme of a URL must be http or https, not %.20q", u.Scheme)
	case u.User != nil:
		return Address{}, errors.New("a URL must not have a user or a password")
	}
	a, err := hostPort(u.Hostname(), u.Port())
	a.Scheme = u.Scheme
	if a.Path = u.EscapedPath(); a.Path == "/" {
		a.Path = ""
	}
	if u.RawQuery != "" {
		a.Path = orSlash(a.Path) + "?" + u.RawQuery
	}
	return a, err
}

func orSlash(path string) string {
	if path == "" {
		return "/"
	}
	return path
}

func hostPort(host, port string) (a Address, err error) {
	if a.Host = host; host == "" {
		return Address{}, errors.New("the address has no host")
	}
	if port == "" {
		return a, nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return Address{}, fmt.Errorf("the port %.20q must be a number from 1 to 65535", port)
	}
	a.Port = int(n)
	return a, nil
}

// PodHost returns the host in the form that is valid for a pod: an IP address without a zone, or a host name in lower
// case.
func (a *Address) PodHost() (string, error) {
	host := strings.ToLower(strings.TrimSuffix(a.Host, "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return "", fmt.Errorf("%.80q: an IPv6 address must not have a zone", a.Host)
		}
		return ip.Unmap().String(), nil
	}
	if len(validation.IsDNS1123Subdomain(host)) > 0 {
		return "", fmt.Errorf("%.80q is neither an IP address nor a host name", a.Host)
	}
	return host, nil
}

// ProbePort returns the port, or the default port of the scheme of a URL; 0 for none.
func (a *Address) ProbePort() int {
	return cmp.Or(a.Port, map[string]int{"http": 80, "https": 443}[a.Scheme])
}

// ConfigURL returns the field url of a plugin's config for a target that is a URL. url is the field in the config of
// the group. The result has no host, so that the plugin uses the target. It has the path of url if the target has none.
func (a *Address) ConfigURL(url string) string {
	path := a.Path
	if path == "" {
		path = url
		if _, rest, ok := strings.Cut(path, "://"); ok {
			_, rest, _ = strings.Cut(rest, "/")
			path = "/" + rest
		}
	}
	return a.Scheme + "://" + orSlash(path)
}

// WithoutPassword returns an address without the user and the password of a URL, for display. The URL need not be
// valid.
func WithoutPassword(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return text
	}
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	if i := strings.LastIndexByte(rest[:end], '@'); i >= 0 {
		return scheme + "://redacted" + rest[i:]
	}
	return text
}
