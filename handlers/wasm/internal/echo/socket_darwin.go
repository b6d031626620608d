package echo

import (
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/daeace23/prober/handlers/netns"
)

// stripHeader is the option IP_STRIPHDR.
const stripHeader = 0x17

// listenDatagram opens a socket that needs no privilege.
func listenDatagram(_ *netns.Namespace, six bool, source netip.Addr) (net.PacketConn, error) {
	family, protocol := syscall.AF_INET, protocolICMP
	if six {
		family, protocol = syscall.AF_INET6, protocolICMPv6
	}
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(family, syscall.SOCK_DGRAM, protocol)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if !six {
		err = syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, stripHeader, 1)
	}
	if err != nil {
		_ = syscall.Close(fd)
		return nil, os.NewSyscallError("setsockopt", err)
	}
	return bindSocket(fd, source)
}

// The options IP_DONTFRAG and IPV6_DONTFRAG.
const (
	dontFragment4 = 28
	dontFragment6 = 62
)

// setFragmentation sets whether packets may be fragmented.
func setFragmentation(fd int, six, allowed bool) error {
	if allowed {
		return nil
	}
	if six {
		return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, dontFragment6, 1))
	}
	return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, dontFragment4, 1))
}

// receiveErrors does nothing, because the socket receives ICMP errors as packets.
func receiveErrors(int, bool) error { return nil }

func receivedError(int) *RefusedError { return nil }
