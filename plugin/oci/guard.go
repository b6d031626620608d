package oci

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"oras.land/oras-go/v2/registry/remote/retry"
)

var (
	errNotHTTPS = errors.New("the registry leads to an address without HTTPS")
	errMetadata = errors.New("a link-local or metadata address, which is no registry's")
)

// guarded is a transport that follows a registry, its redirects and its lists to no
// address that is less than what was asked for. Credentials never follow to another one:
// oras sees to that.
type guarded struct {
	base      http.RoundTripper
	plainHTTP bool
}

// RoundTrip implements [http.RoundTripper].
func (g *guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	if !g.plainHTTP && req.URL.Scheme != "https" {
		return nil, errNotHTTPS
	}
	return g.base.RoundTrip(req)
}

// newTransport returns a transport that dials no address where clouds keep what they tell
// their machines, whatever name led there.
func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = headerTimeout
	dialer := &net.Dialer{Timeout: headerTimeout, KeepAlive: 30 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		addr, err := netip.ParseAddrPort(address)
		if err == nil && isMetadata(addr.Addr().Unmap().WithZone("")) {
			err = fmt.Errorf("%s is %w", addr.Addr(), errMetadata)
		}
		return err
	}}
	t.DialContext = dialer.DialContext
	return t
}

// again says what is asked for once more: what oras does, but for what a registry does not
// do at all.
func again() retry.Policy {
	return &retry.GenericPolicy{
		Retryable: func(res *http.Response, err error) (bool, error) {
			if err == nil && res.StatusCode == http.StatusNotImplemented {
				return false, nil
			}
			return retry.DefaultPredicate(res, err)
		},
		Backoff: retry.DefaultBackoff, MinWait: 200 * time.Millisecond, MaxWait: 3 * time.Second, MaxRetry: 5,
	}
}

func isMetadata(addr netip.Addr) bool {
	switch addr.String() {
	case "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192":
		return true
	}
	return addr.IsLinkLocalUnicast()
}
