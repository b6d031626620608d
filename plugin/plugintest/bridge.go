package plugintest

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
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

// line is a connection of a process. TLS may be put on it.
type line struct {
	net.Conn // as it was accepted

	mu  sync.Mutex
	top net.Conn // over which is spoken: Conn, or TLS
}

func (w *line) now() net.Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.top
}

func (w *line) put(secured net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.top = secured
}

// serve has a played peer talk over a connection.
func (l *loopback) serve(raw net.Conn, network, addr string) {
	defer raw.Close()
	l.hold(raw)
	played, err := l.net.DialContext(l.ctx, network, addr)
	if err != nil {
		hangUp(raw)
		return
	}
	defer played.Close()
	l.hold(played)
	w := &line{Conn: raw, top: raw}
	peer, _ := played.(*conn)
	if peer != nil && peer.served().Behaviour == ResetNow {
		// At once, the dial itself would fail at times: whoever speaks first has done so.
		_ = raw.SetReadDeadline(time.Now().Add(l.spare / 2))
		_, _ = raw.Read(make([]byte, 1))
		hangUp(raw)
		return
	}
	if peer != nil && peer.beginsWithTLS() && !l.upgrade(w, peer, nil, addr) {
		return
	}
	var down sync.WaitGroup
	down.Go(func() { answers(w, played) })
	l.questions(played, w, addr)
	down.Wait()
}

// questions hands on what a process says. When it has hung up, so has the guest that the
// peer takes it for.
func (l *loopback) questions(played net.Conn, w *line, addr string) {
	peer, _ := played.(*conn)
	buf := make([]byte, 32<<10)
	for {
		n, err := w.now().Read(buf)
		switch {
		case n > 0 && peer != nil && peer.takesAsTLS(buf[:n]):
			if !l.upgrade(w, peer, buf[:n], addr) {
				_ = played.Close()
				return
			}
		case n > 0:
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
func answers(w *line, played net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := played.Read(buf)
		conn := w.now()
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
	switch c := conn.(type) {
	case *tls.Conn:
		hangUp(c.NetConn())
	case *replay:
		hangUp(c.Conn)
	case *net.TCPConn:
		_ = c.SetLinger(0)
		_ = c.Close()
	default:
		_ = conn.Close()
	}
}

// receive serves datagrams: whoever sends from a port has a peer of its own.
func (l *loopback) receive(packets net.PacketConn, addr string) {
	played := make(map[string]net.Conn)
	buf := make([]byte, 64<<10)
	var away time.Duration // in which nobody listened, so that it is no part of what a deadline gives
	for {
		n, from, err := packets.ReadFrom(buf)
		if away > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			_ = packets.SetReadDeadline(time.Now().Add(away))
			away = 0
			continue
		}
		if err != nil || l.isLast(from) {
			return
		}
		c := played[from.String()]
		if c == nil {
			begun := time.Now()
			c, err = l.net.DialContext(l.ctx, "udp", addr)
			if away += time.Since(begun); err != nil {
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
