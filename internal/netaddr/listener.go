package netaddr

import (
	"net"
	"net/netip"
)

// Reaches reports whether a connection to an address reaches a listener of this host.
func Reaches(listener, to netip.AddrPort) bool {
	if to.Port() != listener.Port() {
		return false
	}
	at := Plain(listener.Addr())
	for _, form := range Forms(to.Addr()) {
		if form == at || at.IsUnspecified() && isLocal(form) {
			return true
		}
	}
	return false
}

// isLocal reports whether addr is an address of this host.
func isLocal(addr netip.Addr) bool {
	if addr.IsLoopback() || addr.IsUnspecified() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true // refuse rather than guess
	}
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && Plain(prefix.Addr()) == addr {
			return true
		}
	}
	return false
}
