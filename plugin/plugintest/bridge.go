package plugintest

import (
	"errors"
	"io"
	"net"
	"sync"
)

// accept lets processes in, until who is the last one has come.
func (l *loopback) accept(ln net.Listener, network, addr string) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		if l.isLast(conn.RemoteAddr()) {
			_ = conn.Close()
			return
		}
		l.serving.Go(func() { l.serve(conn, network, addr) })
	}
}

// serve has a played peer talk over a connection.
func (l *loopback) serve(conn net.Conn, network, addr string) {
	defer conn.Close()
	l.hold(conn)
	played, err := l.net.DialContext(l.ctx, network, addr)
	if err != nil {
		hangUp(conn)
		return
	}
	defer played.Close()
	l.hold(played)
	var down sync.WaitGroup
	down.Go(func() { answers(conn, played) })
	questions(played, conn)
	down.Wait()
}

// questions hands on what a process says. When it has hung up, so has the guest that the
// peer takes it for.
func questions(played, conn net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := conn.Read(buf)
		if n > 0 {
			if _, err := played.Write(buf[:n]); err != nil {
				return // the process hears of it by answers
			}
		}
		if err != nil {
			_ = played.Close()
			return
		}
	}
}

// answers hands on what a peer says, and how it ends.
func answers(conn, played net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := played.Read(buf)
		if n > 0 {
			if _, err := conn.Write(buf[:n]); err != nil {
				return
			}
		}
		switch half, ok := conn.(interface{ CloseWrite() error }); {
		case err == nil:
			continue
		case errors.Is(err, io.EOF) && ok:
			_ = half.CloseWrite()
		case !errors.Is(err, net.ErrClosed):
			hangUp(conn)
		}
		return
	}
}

// hangUp ends a connection without a good-bye.
func hangUp(conn net.Conn) {
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = conn.Close()
}

// receive serves datagrams: whoever sends from a port has a peer of its own.
func (l *loopback) receive(packets net.PacketConn, addr string) {
	played := make(map[string]net.Conn)
	buf := make([]byte, 64<<10)
	for {
		n, from, err := packets.ReadFrom(buf)
		if err != nil || l.isLast(from) {
			return
		}
		c := played[from.String()]
		if c == nil {
			if c, err = l.net.DialContext(l.ctx, "udp", addr); err != nil {
				continue
			}
			defer c.Close()
			played[from.String()] = c
			l.serving.Go(func() { reply(packets, from, c) })
		}
		_, _ = c.Write(buf[:n])
	}
}

// reply sends what a peer says to one port.
func reply(packets net.PacketConn, to net.Addr, played net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := played.Read(buf)
		if err != nil {
			return
		}
		if _, err := packets.WriteTo(buf[:n], to); err != nil {
			return
		}
	}
}
