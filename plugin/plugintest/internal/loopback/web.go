package loopback

import (
	"context"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
)

// serveWeb makes a player answer the requests that arrive at a listener.
func (l *Loopback) serveWeb(player peer.HTTPPlayer, ln net.Listener, addr string) {
	server := &http.Server{
		Handler:     http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.answer(w, r, addr) }),
		ErrorLog:    log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return l.ctx },
	}
	l.web = append(l.web, server)
	ready := &readyListener{Listener: ln, conns: make(chan net.Conn), done: make(chan struct{})}
	l.serving.Go(func() { l.acceptWeb(player, ln, addr, ready) })
	l.serving.Go(func() { _ = server.Serve(ready) })
}

// readyListener accepts connections after their TLS handshake, if they use TLS.
type readyListener struct {
	net.Listener
	conns chan net.Conn
	done  chan struct{} // closed when there are no more
}

// Accept implements [net.Listener].
func (r *readyListener) Accept() (net.Conn, error) {
	select {
	case conn := <-r.conns:
		return conn, nil
	case <-r.done:
		return nil, net.ErrClosed
	}
}

// acceptWeb accepts connections until the server is shut down.
func (l *Loopback) acceptWeb(player peer.HTTPPlayer, ln net.Listener, addr string, to *readyListener) {
	defer close(to.done)
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		l.track(conn)
		l.serving.Go(func() {
			ready := l.prepare(player, conn, addr)
			if ready == nil {
				_ = conn.Close()
				return
			}
			select {
			case to.conns <- ready:
			case <-to.done:
				_ = conn.Close()
			}
		})
	}
}

// prepare makes the TLS handshake of a connection that begins with one. It returns nil on failure.
func (l *Loopback) prepare(player peer.HTTPPlayer, conn net.Conn, addr string) net.Conn {
	first := make([]byte, 3)
	n, err := io.ReadAtLeast(conn, first, 1)
	if err != nil {
		return nil
	}
	begun := &prefixed{conn, first[:n]}
	if first[0] != recordHandshake {
		return begun
	}
	shown := player.Certificate(addr)
	if shown == nil {
		_, _ = conn.Write([]byte(noTLS))
		return nil
	}
	secured, err := l.handshake(begun, shown, l.hostAt(addr))
	if err != nil {
		player.HandshakeFailed(addr)
		return nil
	}
	return secured
}

// endWeb reports whether all requests have been answered.
func (l *Loopback) endWeb() bool {
	ctx, cancel := context.WithTimeout(context.Background(), Slack)
	defer cancel()
	ended := true
	for _, server := range l.web {
		ended = server.Shutdown(ctx) == nil && ended
		_ = server.Close()
	}
	return ended
}

// answer answers a request with the exchange of the case.
func (l *Loopback) answer(w http.ResponseWriter, r *http.Request, addr string) {
	r.Host = l.Text(r.Host)
	r.URL.Scheme, r.URL.Host = "http", r.Host
	if r.TLS != nil {
		r.URL.Scheme = "https"
	}
	resp, err := l.Net.RoundTrip(r, addr)
	if err != nil {
		l.breakOff(w, err)
		return
	}
	defer resp.Body.Close()
	header := w.Header()
	header["Date"], header["Content-Type"] = nil, nil // keep net/http from setting its own
	maps.Copy(header, resp.Header)
	if to := header.Get("Location"); to != "" {
		header.Set("Location", l.rewriteText(to))
	}
	w.WriteHeader(resp.StatusCode)
	_ = http.NewResponseController(w).Flush() // chunked: the body may have no end
	buf := make([]byte, 32<<10)
	for err == nil {
		var n int
		n, err = resp.Body.Read(buf)
		_, _ = w.Write(buf[:n])
		_ = http.NewResponseController(w).Flush()
	}
	if err != io.EOF {
		l.breakOff(w, err)
	}
}

// breakOff ends a connection without an answer: according to err, or with garbage.
func (l *Loopback) breakOff(w http.ResponseWriter, err error) {
	conn, _, hijackErr := http.NewResponseController(w).Hijack()
	if hijackErr != nil {
		return
	}
	defer conn.Close()
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if ended || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ECONNREFUSED) {
		reset(conn)
		return
	}
	_ = conn.SetDeadline(time.Now().Add(Slack))
	_, _ = conn.Write(l.Net.Garbage())
}
