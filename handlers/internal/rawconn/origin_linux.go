package rawconn

import (
	"cmp"
	"context"
	"net"
	"net/http/httptrace"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/daeace23/prober/probe"
)

// Dial makes a connection to address, like a [net.Dialer]. network is "tcp" or "udp". Names are looked up
// in the program's own network namespace. The addresses of a name are tried one after another, each with
// its share of the remaining time. The end of ctx does not affect the returned connection.
func (o Origin) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	addrs, err := resolve(ctx, network, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	var first error
	for i, at := range addrs {
		conn, err := o.traced(ctx, network, at, len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		first = cmp.Or(first, err)
	}
	return nil, first
}

// traced is like dialAddr, and reports to the httptrace of ctx.
func (o Origin) traced(ctx context.Context, network string, at netip.AddrPort, left int) (net.Conn, error) {
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.ConnectStart != nil {
		trace.ConnectStart(network, at.String())
	}
	conn, err := o.dialAddr(ctx, network, at, left)
	if trace != nil && trace.ConnectDone != nil {
		trace.ConnectDone(network, at.String(), err)
	}
	return conn, err
}

// dialAddr makes a connection to at. left is how many addresses share the remaining time.
func (o Origin) dialAddr(ctx context.Context, network string, at netip.AddrPort, left int) (net.Conn, error) {
	if network == "udp" {
		return o.dialUDP(at)
	}
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	conn, err := dial(ctx, o, at)
	if err != nil {
		return nil, err
	}
	if !conn.Release() { // ctx has ended
		_ = conn.Close()
		return nil, dialError(at, asNet(cmp.Or(ctx.Err(), context.DeadlineExceeded)))
	}
	_ = conn.SetNoDelay(true) // as net.Dialer does
	return conn, nil
}

// dialUDP returns a connection for datagrams.
func (o Origin) dialUDP(at netip.AddrPort) (net.Conn, error) {
	conn, err := o.connectUDP(at)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "udp", Addr: net.UDPAddrFromAddrPort(at), Err: err}
	}
	return conn, nil
}

func (o Origin) connectUDP(at netip.AddrPort) (net.Conn, error) {
	family, to := sockaddr(at)
	fd, err := o.socket(family, syscall.SOCK_DGRAM, syscall.IPPROTO_UDP)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "udp")
	defer func() { _ = file.Close() }()                                                            // the connection has a duplicate descriptor
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_BROADCAST, 1); err != nil { // as package net does
		return nil, os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Connect(fd, to); err != nil {
		return nil, os.NewSyscallError("connect", err)
	}
	return net.FileConn(file)
}

// socket returns a socket that is bound to the source.
func (o Origin) socket(family, kind, protocol int) (fd int, err error) {
	if o.Namespace != nil {
		fd, err = o.Namespace.Socket(family, kind, protocol)
	} else if fd, err = syscall.Socket(family, kind|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, protocol); err != nil {
		err = os.NewSyscallError("socket", err)
	}
	if err != nil || !o.Source.IsValid() {
		return fd, err
	}
	_, from := sockaddr(netip.AddrPortFrom(o.Source, 0))
	if err := syscall.Bind(fd, from); err != nil {
		_ = syscall.Close(fd)
		return -1, os.NewSyscallError("bind", err)
	}
	return fd, nil
}

// sockaddr returns at for system calls.
func sockaddr(at netip.AddrPort) (family int, to syscall.Sockaddr) {
	if ip := at.Addr(); ip.Is4() {
		return syscall.AF_INET, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: ip.As4()}
	}
	return syscall.AF_INET6, &syscall.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
}

// resolve returns the addresses of host:port. Without an error there is at least one.
func resolve(ctx context.Context, network, address string) (addrs []netip.AddrPort, err error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, network, service)
	if err != nil {
		return nil, err
	}
	ips := []netip.Addr{netip.IPv4Unspecified()}
	if host != "" {
		if ips, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
			return nil, err
		}
	}
	for _, ip := range ips {
		switch ip = ip.Unmap(); {
		case ip.Zone() != "": // interfaces have other indices in another namespace
			return nil, &probe.Error{Reason: probe.ReasonHostResources, Err: &net.AddrError{Err: "an address with a zone cannot be dialled in another network namespace", Addr: host}}
		case ip.IsUnspecified(): // as net.Dialer does
			ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		}
		addrs = append(addrs, netip.AddrPortFrom(ip, uint16(port)))
	}
	return addrs, nil
}
