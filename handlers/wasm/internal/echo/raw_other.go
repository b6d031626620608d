//go:build !linux

package echo

import (
	"net"
	"net/netip"

	"github.com/daeace23/prober/handlers/netns"
)

// listenRaw opens a raw socket. This system has no other network namespaces.
func listenRaw(_ *netns.Namespace, six bool, source netip.Addr) (net.PacketConn, error) {
	return listenOwnRaw(six, source)
}
