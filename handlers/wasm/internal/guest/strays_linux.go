package guest

import (
	"net"
	"net/netip"
	"syscall"
)

// strays receives the datagrams that other addresses than the peer send to the local port of a UDP connection. The
// kernel keeps them from the connection itself, so that nobody would know why no answer comes.
type strays struct {
	fd   int
	from string // the first sender; "" if there was none
}

// strayBuffer is the kernel's buffer for stray datagrams in bytes, of which only the sender is read.
const strayBuffer = 4 << 10

// listenStrays returns the strays of a connection. It returns nil for a connection that is not of UDP, or where the
// kernel allows no second socket for its port.
func listenStrays(conn net.Conn) *strays {
	local, isUDP := conn.LocalAddr().(*net.UDPAddr)
	socket, hasSocket := conn.(syscall.Conn)
	if !isUDP || !hasSocket || local.Zone != "" {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	var s *strays
	_ = raw.Control(func(fd uintptr) { s = bindBeside(int(fd), local.AddrPort()) })
	return s
}

// bindBeside binds a second socket to the local address of fd. Afterwards no other process can do the same.
func bindBeside(fd int, local netip.AddrPort) *strays {
	family, at := syscall.AF_INET6, syscall.Sockaddr(&syscall.SockaddrInet6{Port: int(local.Port()), Addr: local.Addr().As16()})
	if ip := local.Addr().Unmap(); ip.Is4() {
		family, at = syscall.AF_INET, &syscall.SockaddrInet4{Port: int(local.Port()), Addr: ip.As4()}
	}
	second, err := syscall.Socket(family, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	_ = syscall.SetsockoptInt(second, syscall.SOL_SOCKET, syscall.SO_RCVBUF, strayBuffer)
	share(fd, second, 1)
	err = syscall.Bind(second, at)
	share(fd, second, 0)
	if err != nil {
		_ = syscall.Close(second)
		return nil
	}
	return &strays{fd: second}
}

// share sets whether two sockets share a port.
func share(first, second, value int) {
	for _, fd := range [...]int{first, second} {
		_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, value)
	}
}

// sender returns the address that sent the first stray datagram; "" if there was none.
func (s *strays) sender() string {
	switch {
	case s == nil:
		return ""
	case s.from != "":
		return s.from
	}
	var begin [1]byte
	switch _, from, _ := syscall.Recvfrom(s.fd, begin[:], syscall.MSG_DONTWAIT); at := from.(type) {
	case *syscall.SockaddrInet4:
		s.from = netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)).String()
	case *syscall.SockaddrInet6:
		s.from = netip.AddrPortFrom(netip.AddrFrom16(at.Addr).Unmap(), uint16(at.Port)).String()
	}
	return s.from
}

// close releases the socket.
func (s *strays) close() {
	if s != nil {
		_ = syscall.Close(s.fd)
	}
}
