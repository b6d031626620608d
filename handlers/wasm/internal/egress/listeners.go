package egress

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/daeace23/prober/internal/netaddr"
)

// listensOn reports whether a dial would reach one of the listeners. The scheme is that of a
// plugin.Dial; addr is the path of a socket, or an IP and a port.
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
	if err != nil || to.Port() != listener.Port() {
		return false
	}
	at := netaddr.Plain(listener.Addr())
	for _, form := range netaddr.Forms(to.Addr()) {
		if form == at || at.IsUnspecified() && isLocal(form) {
			return true
		}
	}
	return false
}

// isLocal reports whether addr is one of this host.
func isLocal(addr netip.Addr) bool {
	if addr.IsLoopback() || addr.IsUnspecified() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true // refuse rather than guess
	}
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && netaddr.Plain(prefix.Addr()) == addr {
			return true
		}
	}
	return false
}
