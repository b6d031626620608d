package loopback

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
)

// accept serves connections until it accepts the one from endListener.
func (l *Loopback) accept(ln net.Listener, network, addr string) {
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

// line is a connection of a process, with or without TLS.
type line struct {
	net.Conn // the accepted connection

	mu  sync.Mutex
	top net.Conn // Conn, or the TLS over it
}

func (w *line) current() net.Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.top
}

func (w *line) upgrade(secured net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.top = secured
}

// serve copies between a connection of the process and one of the simulated network.
func (l *Loopback) serve(raw net.Conn, network, addr string) {
	defer raw.Close()
	l.track(raw)
	simulated, err := l.Net.DialContext(l.ctx, network, addr)
	if err != nil {
		reset(raw)
		return
	}
	defer simulated.Close()
	l.track(simulated)
	w := &line{Conn: raw, top: raw}
	secure, _ := simulated.(peer.TLSConn)
	if secure != nil && secure.Server().Behaviour == peer.Reset {
		// A reset at once would at times fail the dial: wait until the process has sent something.
		_ = raw.SetReadDeadline(time.Now().Add(l.Net.Timeout / 2))
		_, _ = raw.Read(make([]byte, 1))
		reset(raw)
		return
	}
	if secure != nil && secure.StartsTLS(nil) && !l.startTLS(w, secure, nil, addr) {
		return
	}
	var down sync.WaitGroup
	down.Go(func() { copyDown(w, simulated) })
	l.copyUp(simulated, w, addr)
	down.Wait()
}

// copyUp copies data of the process until it closes the connection.
func (l *Loopback) copyUp(simulated net.Conn, w *line, addr string) {
	secure, _ := simulated.(peer.TLSConn)
	buf := make([]byte, 32<<10)
	for {
		n, err := w.current().Read(buf)
		switch {
		case n > 0 && secure != nil && secure.StartsTLS(buf[:n]):
			if !l.startTLS(w, secure, buf[:n], addr) {
				_ = simulated.Close()
				return
			}
		case n > 0:
			if _, err := simulated.Write(buf[:n]); err != nil {
				return // copyDown passes it on
			}
		}
		if err != nil {
			_ = simulated.Close()
			return
		}
	}
}

// copyDown copies data of the peer. It ends the connection in the same way as the peer.
func copyDown(w *line, simulated net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := simulated.Read(buf)
		conn := w.current()
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
			reset(conn)
		}
		return
	}
}

// reset resets a connection of TCP, and closes any other.
func reset(conn net.Conn) {
	switch c := conn.(type) {
	case *tls.Conn:
		reset(c.NetConn())
	case *prefixed:
		reset(c.Conn)
	case *net.TCPConn:
		_ = c.SetLinger(0)
		_ = c.Close()
	default:
		_ = conn.Close()
	}
}

// receive serves datagrams. Each port that sends has a connection of its own.
func (l *Loopback) receive(packets net.PacketConn, addr string) {
	simulated := make(map[string]net.Conn)
	buf := make([]byte, 64<<10)
	var dialling time.Duration // time of dials, when nothing is read; it does not count against deadlines
	for {
		n, from, err := packets.ReadFrom(buf)
		if dialling > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			_ = packets.SetReadDeadline(time.Now().Add(dialling))
			dialling = 0
			continue
		}
		if err != nil || l.isLast(from) {
			return
		}
		c := simulated[from.String()]
		if c == nil {
			begun := time.Now()
			c, err = l.Net.DialContext(l.ctx, "udp", addr)
			if dialling += time.Since(begun); err != nil {
				continue
			}
			defer c.Close()
			simulated[from.String()] = c
			l.serving.Go(func() { reply(packets, from, c) })
		}
		_, _ = c.Write(buf[:n])
	}
}

// reply sends the answers of a peer to one port.
func reply(packets net.PacketConn, to net.Addr, simulated net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := simulated.Read(buf)
		if err != nil {
			return
		}
		if _, err := packets.WriteTo(buf[:n], to); err != nil {
			return
		}
	}
}
