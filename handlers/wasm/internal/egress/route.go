package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/netaddr"
)

// Route is a validated [abi.Route]: it selects among the allowed addresses, and sets the source address.
type Route struct {
	family string
	source netip.Addr
}

// NewRoute validates r and returns its route.
func NewRoute(r abi.Route) (Route, error) {
	route := Route{family: r.IPFamily}
	switch r.IPFamily {
	case "", abi.IPv4Only, abi.IPv6Only, abi.IPv4First, abi.IPv6First:
	default:
		return route, fmt.Errorf("ipFamily %.40q: must be %q, %q, %q or %q", r.IPFamily, abi.IPv4Only, abi.IPv6Only, abi.IPv4First, abi.IPv6First)
	}
	if r.SourceAddress == "" {
		return route, nil
	}
	source, err := netip.ParseAddr(r.SourceAddress)
	if err != nil || source.Zone() != "" {
		return route, fmt.Errorf("sourceAddress %.80q: must be an IP address", r.SourceAddress)
	}
	route.source = netaddr.Plain(source)
	return route, nil
}

// Choose returns the addresses of to that the route uses, in the order of preference. It drops
// addresses of another family than the route or the source address requires.
func (r Route) Choose(to Endpoint) ([]string, error) {
	if to.Network == "unix" || r == (Route{}) {
		return to.Addrs, nil
	}
	byIPv4 := map[bool][]string{} // true for IPv4, false for IPv6
	for _, addr := range to.Addrs {
		at, err := netip.ParseAddrPort(addr)
		if err != nil {
			return nil, err
		}
		if is4 := at.Addr().Is4(); !r.source.IsValid() || r.source.Is4() == is4 {
			byIPv4[is4] = append(byIPv4[is4], addr)
		}
	}
	var chosen []string
	switch r.family {
	case "":
		chosen = append(byIPv4[true], byIPv4[false]...)
		if !r.source.IsValid() {
			chosen = to.Addrs
		}
	case abi.IPv4Only:
		chosen = byIPv4[true]
	case abi.IPv6Only:
		chosen = byIPv4[false]
	case abi.IPv4First, abi.IPv6First:
		first := r.family == abi.IPv4First
		chosen = append(byIPv4[first], byIPv4[!first]...)
	}
	if len(chosen) == 0 {
		return nil, &net.DNSError{Err: "no address of the IP family that is asked for", Name: to.Host, IsNotFound: true}
	}
	return chosen, nil
}

// Source returns the source address. The zero Addr lets the system choose.
func (r Route) Source() netip.Addr { return r.source }

// sourceKey is the key of the source address in the context of a dial.
type sourceKey struct{}

// Context returns ctx with the source address, for [SourceAddress].
func (r Route) Context(ctx context.Context) context.Context {
	if !r.source.IsValid() {
		return ctx
	}
	return context.WithValue(ctx, sourceKey{}, r.source)
}

// SourceAddress returns the source address for a dial with ctx. The zero Addr lets the system
// choose.
func SourceAddress(ctx context.Context) netip.Addr {
	source, _ := ctx.Value(sourceKey{}).(netip.Addr)
	return source
}
