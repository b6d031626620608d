//go:build linux || darwin

package echo

import (
	"net"
	"net/netip"
	"os"
	"syscall"
)

// bindSocket binds a socket to an address, and returns it as a connection that owns it.
func bindSocket(fd int, source netip.Addr) (net.PacketConn, error) {
	var at syscall.Sockaddr = &syscall.SockaddrInet6{Addr: source.As16()}
	if source.Is4() {
		at = &syscall.SockaddrInet4{Addr: source.As4()}
	}
	if err := syscall.Bind(fd, at); err != nil {
		_ = syscall.Close(fd)
		return nil, os.NewSyscallError("bind", err)
	}
	f := os.NewFile(uintptr(fd), "icmp")
	defer func() { _ = f.Close() }() // the connection has a duplicate
	return net.FilePacketConn(f)
}
