package egress

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/daeace23/prober/internal/netaddr"
)

// listensOn reports whether a dial would reach one of the listeners. scheme is as in plugin.Dial. addr
// is the path of a socket, or an IP and a port.
func (n *Network) listensOn(scheme, addr string) bool {
	for _, l := range n.Listeners {
		switch l := l.(type) {
		case *net.UnixAddr:
			if scheme == "unix" && sameSocket(l.Name, addr) {
				return true
			}
		case *net.TCPAddr:
			if scheme != "unix" && scheme != "udp" && scheme != icmp && reachesListener(l.AddrPort(), addr) {
				return true
			}
		case *net.UDPAddr:
			if scheme == "udp" && reachesListener(l.AddrPort(), addr) {
				return true
			}
		}
	}
	return false
}

// sameSocket reports whether two paths lead to the same socket.
func sameSocket(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// reachesListener reports whether a connection to addr reaches the listener.
func reachesListener(listener netip.AddrPort, addr string) bool {
	to, err := netip.ParseAddrPort(addr)
	return err == nil && netaddr.Reaches(listener, to)
}
