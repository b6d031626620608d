package loopback

import (
	"crypto/tls"
	"errors"
	"net"

	"github.com/daeace23/prober/plugin/plugintest/internal/cert"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
)

const (
	recordHandshake = 0x16 // first byte of a connection that begins with TLS
	noTLS           = "this peer does not speak TLS\r\n"
)

// handshakeFailure is the alert that ends a handshake without a reason.
var handshakeFailure = []byte{0x15, 3, 3, 0, 2, 2, 40}

// prefixed is a connection whose first bytes have been read already.
type prefixed struct {
	net.Conn
	first []byte
}

// Read implements [net.Conn].
func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.first) > 0 {
		n := copy(b, p.first)
		p.first = p.first[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

// startTLS makes the TLS handshake of a connection. first are the bytes that have been read. It
// reports whether the handshake succeeded.
func (l *Loopback) startTLS(w *line, conn peer.TLSConn, first []byte, addr string) bool {
	shown := conn.Server().TLS
	if shown == nil {
		_, _ = w.Write([]byte(noTLS))
		return false
	}
	secured, err := l.handshake(&prefixed{w.Conn, first}, shown, l.hostAt(addr))
	if err != nil {
		return false
	}
	w.upgrade(secured)
	conn.HandshakeDone()
	return true
}

// handshake makes the TLS handshake of a peer with the certificate shown, or fails with its error.
func (l *Loopback) handshake(conn *prefixed, shown *cert.Spec, host string) (*tls.Conn, error) {
	if shown.Error != "" {
		l.mu.Lock()
		l.tlsErrors[conn.RemoteAddr().String()] = shown.Error
		l.mu.Unlock()
		_, _ = conn.Write(handshakeFailure)
		return nil, errors.New(shown.Error)
	}
	signed, err := l.ca.Sign(shown, host, l.Net.Timeout)
	if err != nil {
		return nil, err
	}
	secured := tls.Server(conn, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		config := &tls.Config{Certificates: []tls.Certificate{signed}}
		if len(hello.SupportedProtos) > 0 {
			config.NextProtos = hello.SupportedProtos[:1]
		}
		return config, nil
	}})
	return secured, secured.HandshakeContext(l.ctx)
}
