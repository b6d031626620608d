package targets

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// maxAddress is the most bytes of an address.
const maxAddress = 2048

var errLongAddress = fmt.Errorf("the address has more than %d bytes", maxAddress)

// address is where a target is. It is a host with or without a port, or a URL.
type address struct {
	host   string // an IP address or a host name, in lower case
	port   int    // 0 for none
	scheme string // of a URL: "http" or "https"; "" if it is none
	path   string // of a URL, with its query; "" for none
}

// parseAddress parses HOST, HOST:PORT, [IPV6]:PORT, IPV6 or a URL.
func parseAddress(text string) (address, error) {
	switch {
	case text == "":
		return address{}, errors.New("the address is empty")
	case len(text) > maxAddress:
		return address{}, errLongAddress
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
			return address{}, fmt.Errorf("%.80q is not an address: must be HOST, HOST:PORT or a URL", text)
		}
	}
	return hostPort(host, port)
}

func parseURL(text string) (address, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return address{}, errors.New("the address is not a valid URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return address{}, fmt.Errorf("the scheme of a URL must be http or https, not %.20q", u.Scheme)
	case u.User != nil:
		return address{}, errors.New("a URL must not have a user or a password")
	}
	a, err := hostPort(u.Hostname(), u.Port())
	a.scheme = u.Scheme
	if a.path = u.EscapedPath(); a.path == "/" {
		a.path = ""
	}
	if u.RawQuery != "" {
		a.path = orSlash(a.path) + "?" + u.RawQuery
	}
	return a, err
}

func orSlash(path string) string {
	if path == "" {
		return "/"
	}
	return path
}

func hostPort(host, port string) (a address, err error) {
	a.host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ip, err := netip.ParseAddr(a.host); err == nil {
		if ip.Zone() != "" {
			return address{}, fmt.Errorf("%.80q: an IPv6 address must not have a zone", host)
		}
		a.host = ip.Unmap().String()
	} else if len(validation.IsDNS1123Subdomain(a.host)) > 0 {
		return address{}, fmt.Errorf("%.80q is neither an IP address nor a host name", host)
	}
	if port == "" {
		return a, nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return address{}, fmt.Errorf("the port %.20q must be a number from 1 to 65535", port)
	}
	a.port = int(n)
	return a, nil
}

// withoutPassword returns an address that may be shown: without the user and the password of a URL,
// whether or not it is valid.
func withoutPassword(text string) string {
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
