package echo

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/daeace23/prober/handlers/netns"
)

// wire is a socket of the system.
type wire struct {
	raw      bool
	to       netip.Addr
	conn     net.PacketConn
	four     *ipv4.PacketConn // nil for IPv6
	six      *ipv6.PacketConn // nil for IPv4
	datagram uint16           // the identifier that the kernel sets for a datagram socket; 0 if it sets none
}

var _ socket = (*wire)(nil)

// open opens a socket for r: an unprivileged datagram socket if the system permits it, or else a raw
// one. If in is nil, it uses the program's own network namespace.
func open(in *netns.Namespace, r *Request) (socket, error) {
	conn, err := listenDatagram(in, r.Addr.Is6(), source(r))
	raw := refusesUser(err)
	if raw {
		unprivileged := err
		if conn, err = listenRaw(in, r.Addr.Is6(), source(r)); refusesUser(err) {
			return nil, &NotPermittedError{unprivileged, err}
		}
	}
	if errors.Is(err, syscall.EADDRNOTAVAIL) { // not a lack of free ports, as probe.HostReason would assume
		return nil, fmt.Errorf("%s is not an address of this host", r.Source)
	}
	if err != nil {
		return nil, err
	}
	w := newWire(r, conn, raw)
	if err := w.configure(r); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return w, nil
}

// listenOwnRaw opens a raw socket in the program's own network namespace.
func listenOwnRaw(six bool, source netip.Addr) (net.PacketConn, error) {
	network := "ip4:icmp"
	if six {
		network = "ip6:ipv6-icmp"
	}
	return net.ListenPacket(network, source.String())
}

// source returns the address to send from, or the unspecified address.
func source(r *Request) netip.Addr {
	switch {
	case r.Source.IsValid():
		return r.Source
	case r.Addr.Is6():
		return netip.IPv6Unspecified()
	default:
		return netip.IPv4Unspecified()
	}
}

// refusesUser reports whether err means that this user or this system may not open the kind of socket.
func refusesUser(err error) bool {
	if _, ok := errors.AsType[*netns.Error](err); ok {
		return false
	}
	return errors.Is(err, os.ErrPermission) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EPROTONOSUPPORT)
}

func newWire(r *Request, conn net.PacketConn, raw bool) *wire {
	w := &wire{raw: raw, to: r.Addr, conn: conn}
	if local, ok := conn.LocalAddr().(*net.UDPAddr); ok && runtime.GOOS == "linux" {
		w.datagram = uint16(local.Port)
	}
	if r.Addr.Is6() {
		w.six = ipv6.NewPacketConn(conn)
	} else {
		w.four = ipv4.NewPacketConn(conn)
	}
	return w
}

// configure sets the options of the socket. On systems without the optional ones, replies have fewer
// details, and more foreign packets are received.
func (w *wire) configure(r *Request) error {
	var err error
	if w.six != nil {
		_ = w.six.SetControlMessage(ipv6.FlagHopLimit|ipv6.FlagDst, true)
		if r.HopLimit > 0 {
			err = w.six.SetHopLimit(r.HopLimit)
		}
	} else {
		_ = w.four.SetControlMessage(ipv4.FlagTTL|ipv4.FlagDst, true)
		if r.HopLimit > 0 {
			err = w.four.SetTTL(r.HopLimit)
		}
	}
	if err == nil {
		err = w.control(func(fd int) error { return setFragmentation(fd, w.six != nil, !r.DontFragment) })
	}
	if w.raw {
		w.filter()
	} else if err == nil {
		err = w.control(func(fd int) error { return receiveErrors(fd, w.six != nil) })
	}
	return err
}

// filter makes the kernel drop most packets that are not for the socket. A raw socket receives the
// packets of all processes.
func (w *wire) filter() {
	if w.six != nil {
		var f ipv6.ICMPFilter
		f.SetAll(true)
		for kind := range 256 {
			if t := ipv6.ICMPType(kind); t == ipv6.ICMPTypeEchoReply || isICMPError(true, byte(kind)) {
				f.Accept(t)
			}
		}
		_ = w.six.SetICMPFilter(&f)
		return
	}
	var f ipv4.ICMPFilter
	f.SetAll(true)
	for kind := range 32 {
		if t := ipv4.ICMPType(kind); t == ipv4.ICMPTypeEchoReply || isICMPError(false, byte(kind)) {
			f.Accept(t)
		}
	}
	_ = w.four.SetICMPFilter(&f)
}

// filterReplies makes the kernel drop the replies to other requests, so that they cannot fill the
// socket's buffer.
func (w *wire) filterReplies(id, seq uint16) {
	if !w.raw {
		return
	}
	load, replies := func(off uint32, size int) bpf.Instruction { return bpf.LoadAbsolute{Off: off, Size: size} }, ipv6EchoReply
	var program []bpf.Instruction
	if w.four != nil { // packets begin with the IP header
		load, replies = func(off uint32, size int) bpf.Instruction { return bpf.LoadIndirect{Off: off, Size: size} }, ipv4EchoReply
		program = append(program, bpf.LoadMemShift{Off: 0})
	}
	program = append(program,
		load(0, 1), bpf.JumpIf{Cond: bpf.JumpEqual, Val: replies, SkipFalse: 2},
		load(4, 4), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(id)<<16 | uint32(seq), SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 18}, bpf.RetConstant{Val: 0},
	)
	raw, err := bpf.Assemble(program)
	switch {
	case err != nil:
	case w.four != nil:
		_ = w.four.SetBPF(raw)
	default:
		_ = w.six.SetBPF(raw)
	}
}

const (
	ipv4EchoReply uint32 = 0
	ipv6EchoReply uint32 = 129
)

// control calls do with the file descriptor of the socket.
func (w *wire) control(do func(fd int) error) error {
	c, ok := w.conn.(syscall.Conn)
	if !ok {
		return errors.ErrUnsupported
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	if failed := raw.Control(func(fd uintptr) { err = do(int(fd)) }); failed != nil {
		return failed
	}
	return err
}

func (w *wire) id() (uint16, bool) { return w.datagram, w.datagram != 0 }

func (w *wire) send(message []byte) error {
	w.filterReplies(uint16(message[4])<<8|uint16(message[5]), uint16(message[6])<<8|uint16(message[7]))
	to := net.Addr(&net.IPAddr{IP: w.to.AsSlice()})
	if !w.raw {
		to = &net.UDPAddr{IP: w.to.AsSlice()}
	}
	_, err := w.conn.WriteTo(message, to)
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err // without the addresses, which the caller adds
	}
	return err
}

func (w *wire) receive(buf []byte) (p packet, err error) {
	var from net.Addr
	if w.six != nil {
		var cm *ipv6.ControlMessage
		if p.len, cm, from, err = w.six.ReadFrom(buf); cm != nil {
			p.to, p.hopLimit = addrOf(cm.Dst), cm.HopLimit
		}
	} else {
		var cm *ipv4.ControlMessage
		if p.len, cm, from, err = w.four.ReadFrom(buf); cm != nil {
			p.to, p.hopLimit = addrOf(cm.Dst), cm.TTL
		}
	}
	if err != nil {
		return p, w.explain(err)
	}
	switch from := from.(type) {
	case *net.UDPAddr:
		p.from = addrOf(from.IP)
	case *net.IPAddr:
		p.from = addrOf(from.IP)
	}
	return p, nil
}

// explain returns the ICMP error that caused err, if the system has queued one. Otherwise it returns
// err.
func (w *wire) explain(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
		return err
	}
	var refused *RefusedError
	_ = w.control(func(fd int) error {
		refused = receivedError(fd)
		return nil
	})
	if refused == nil {
		return err
	}
	return refused
}

func (w *wire) expire() { _ = w.conn.SetReadDeadline(time.Unix(1, 0)) }

func (w *wire) Close() error { return w.conn.Close() }

func addrOf(ip net.IP) netip.Addr {
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}
