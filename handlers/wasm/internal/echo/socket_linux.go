package echo

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/daeace23/prober/handlers/netns"
)

// listenDatagram opens a datagram socket. It needs no privilege, but the user must have a group in
// net.ipv4.ping_group_range. Each network namespace has its own range.
func listenDatagram(in *netns.Namespace, six bool, source netip.Addr) (net.PacketConn, error) {
	return listen(in, syscall.SOCK_DGRAM, six, source)
}

// listenRaw opens a raw socket.
func listenRaw(in *netns.Namespace, six bool, source netip.Addr) (net.PacketConn, error) {
	if in == nil {
		return listenOwnRaw(six, source)
	}
	return listen(in, syscall.SOCK_RAW, six, source)
}

func listen(in *netns.Namespace, kind int, six bool, source netip.Addr) (net.PacketConn, error) {
	family, protocol := syscall.AF_INET, protocolICMP
	if six {
		family, protocol = syscall.AF_INET6, protocolICMPv6
	}
	var fd int
	var err error
	if in != nil {
		fd, err = in.Socket(family, kind, protocol)
	} else if fd, err = syscall.Socket(family, kind|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, protocol); err != nil {
		err = os.NewSyscallError("socket", err)
	}
	if err != nil {
		return nil, err
	}
	return bindSocket(fd, source)
}

// setFragmentation sets whether packets may be fragmented. If not, the kernel sends them regardless of
// the path MTU that it knows, and the router of a link that is too small answers.
func setFragmentation(fd int, six, allowed bool) error {
	level, option, value := syscall.IPPROTO_IP, syscall.IP_MTU_DISCOVER, syscall.IP_PMTUDISC_PROBE
	switch {
	case six && allowed:
		return nil // the default: the kernel fragments packets once it knows the path MTU
	case six:
		level, option, value = syscall.IPPROTO_IPV6, syscall.IPV6_MTU_DISCOVER, syscall.IPV6_PMTUDISC_PROBE
	case allowed: // by default, packets are not fragmented until the kernel knows the path MTU
		value = syscall.IP_PMTUDISC_DONT
	}
	return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, level, option, value))
}

// receiveErrors makes the kernel queue ICMP errors for [receivedError].
func receiveErrors(fd int, six bool) error {
	if six {
		return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, syscall.IPV6_RECVERR, 1))
	}
	return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, syscall.IP_RECVERR, 1))
}

// Values of ee_origin in linux/errqueue.h.
const (
	originICMP   = 2
	originICMPv6 = 3
)

// receivedError returns the first ICMP error in the kernel's error queue, or nil if there is none.
func receivedError(fd int) *RefusedError {
	var data, control [512]byte
	_, n, _, _, err := syscall.Recvmsg(fd, data[:], control[:], syscall.MSG_ERRQUEUE|syscall.MSG_DONTWAIT)
	if err != nil {
		return nil
	}
	messages, err := syscall.ParseSocketControlMessage(control[:n])
	if err != nil {
		return nil
	}
	for _, m := range messages {
		four := m.Header.Level == syscall.IPPROTO_IP && m.Header.Type == syscall.IP_RECVERR
		six := m.Header.Level == syscall.IPPROTO_IPV6 && m.Header.Type == syscall.IPV6_RECVERR
		if four || six {
			return parseExtendedError(m.Data)
		}
	}
	return nil
}

// parseExtendedError parses a struct sock_extended_err and the address after it. It returns nil unless
// the error comes from ICMP.
func parseExtendedError(b []byte) *RefusedError {
	const size = 16
	if len(b) < size || b[4] != originICMP && b[4] != originICMPv6 {
		return nil
	}
	e := &RefusedError{six: b[4] == originICMPv6, kind: b[5], code: b[6]}
	if e.tooBig() {
		e.MTU = int(binary.NativeEndian.Uint32(b[8:]))
	}
	switch from := b[size:]; {
	case len(from) >= 8 && binary.NativeEndian.Uint16(from) == syscall.AF_INET:
		e.From = netip.AddrFrom4([4]byte(from[4:8]))
	case len(from) >= 24 && binary.NativeEndian.Uint16(from) == syscall.AF_INET6:
		e.From = netip.AddrFrom16([16]byte(from[8:24])).Unmap()
	}
	return e
}
