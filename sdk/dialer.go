package sdk

import (
	"context"
	"net"
)

// Dialer dials with options. The zero Dialer dials as [Dial] does.
type Dialer struct {
	// IPFamily is "4", "6", "4,6" or "6,4"; the last two prefer the first family. The networks "tcp4",
	// "udp6" and the like set it too.
	IPFamily string
	// SourceAddress is the source address, one of the host's addresses.
	SourceAddress string
	// TLS has the options of the network "tls". If it has a CA, the connection needs a grant of tcp, because
	// the host dials it first, and starts TLS then.
	TLS TLSOptions
}

// Dial connects to addr. network is "tcp", "udp", "tls" or "unix". In a guest the host dials, if a grant of
// the operator allows it. In a native program Dial uses net.Dialer. The connection is closed at the end of
// the attempt.
func Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return new(Dialer).DialContext(ctx, network, addr)
}

// family returns network without its IP family, and the IP family of d or network.
func (d *Dialer) family(network string) (plain, family string) {
	switch network {
	case "tcp4", "tcp6", "udp4", "udp6":
		return network[:3], network[3:]
	}
	return network, d.IPFamily
}

// DialContext connects to addr, as [Dial] does, with the options of d.
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	plain, family := d.family(network)
	if plain != "tls" || d.TLS.CA == "" {
		return d.dial(ctx, plain, family, addr)
	}
	raw, err := d.dial(ctx, "tcp", family, addr)
	if err != nil {
		return nil, err
	}
	secured, err := StartTLS(ctx, raw, d.TLS)
	if err != nil {
		_ = raw.Close()
	}
	return secured, err
}
