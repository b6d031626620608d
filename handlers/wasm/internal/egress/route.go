package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/netaddr"
)

// Route is an [abi.Route] that was checked: which of the allowed addresses are dialled, and from
// which address.
type Route struct {
	family string
	source netip.Addr
}

// NewRoute checks r.
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

// Choose returns the addresses of to that the route uses, in their order: those of one family, and
// of the family of the source address.
func (r Route) Choose(to Endpoint) ([]string, error) {
	if to.Network == "unix" || r == (Route{}) {
		return to.Addrs, nil
	}
	of := map[bool][]string{} // by whether they are of IPv4
	for _, addr := range to.Addrs {
		at, err := netip.ParseAddrPort(addr)
		if err != nil {
			return nil, err
		}
		if is4 := at.Addr().Is4(); !r.source.IsValid() || r.source.Is4() == is4 {
			of[is4] = append(of[is4], addr)
		}
	}
	var chosen []string
	switch r.family {
	case "":
		chosen = append(of[true], of[false]...)
		if !r.source.IsValid() {
			chosen = to.Addrs
		}
	case abi.IPv4Only:
		chosen = of[true]
	case abi.IPv6Only:
		chosen = of[false]
	case abi.IPv4First, abi.IPv6First:
		first := r.family == abi.IPv4First
		if chosen = of[first]; len(chosen) == 0 {
			chosen = of[!first]
		}
	}
	if len(chosen) == 0 {
		return nil, &net.DNSError{Err: "no address of the IP family that is asked for", Name: to.Host, IsNotFound: true}
	}
	return chosen, nil
}

// Source returns the source address; the zero Addr lets the system choose.
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

// SourceAddress returns the address from which a dial with ctx is made; the zero Addr lets the
// system choose.
func SourceAddress(ctx context.Context) netip.Addr {
	source, _ := ctx.Value(sourceKey{}).(netip.Addr)
	return source
}
