package httpprobe

import (
	"context"
	"crypto/tls"
	"net/netip"
	"time"

	"github.com/daeace23/prober/handlers/builtin/internal/network"
	"github.com/daeace23/prober/internal/certificates"
)

// afterDial returns the step that follows the dial.
func (x *exchange) afterDial() network.Step {
	if x.https {
		return network.StepTLS
	}
	return network.StepHTTP
}

// handshake makes the same TLS handshake as net/http, without a goroutine. It returns false if the handshake
// failed, or if it negotiated HTTP/2 and net/http must send the request.
func (x *exchange) handshake(ctx context.Context) (ok bool) {
	network.NoDelay(x.conn)
	over := x.conn
	if x.keeper != nil {
		x.link.below = &lower{Conn: x.conn}
		over = x.link.below
	}
	conn := tls.Client(over, x.tls) // the host is an IP address, so no server name is sent
	inTime := func() bool { return true }
	if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > handshakeTimeout {
		raw := x.conn
		inTime = time.AfterFunc(handshakeTimeout, func() { _ = raw.SetDeadline(time.Unix(1, 0)) }).Stop
	}
	x.dialErr = conn.Handshake()
	if !inTime() {
		x.dialErr = errHandshakeTimeout{}
	}
	if x.dialErr != nil {
		x.progress.Handshook(nil, x.dialErr)
		x.stop()
		_ = x.conn.Close()
		x.conn = nil
		return false
	}
	x.conn, x.link.tls = conn, conn
	state := conn.ConnectionState()
	if x.keeper != nil {
		x.link.shown = certificates.ShownIn(&state, nil)
	}
	x.progress.Handshook(&state, nil)
	x.progress.Enter(network.StepHTTP)
	x.http2 = state.NegotiatedProtocol == "h2"
	return !x.http2 || x.lines.fields != nil
}

// isIP reports whether host is an IP address. A TLS handshake sends only names.
func isIP(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// errHandshakeTimeout is net/http's error for a handshake that takes too long.
type errHandshakeTimeout struct{}

func (errHandshakeTimeout) Error() string   { return "net/http: TLS handshake timeout" }
func (errHandshakeTimeout) Timeout() bool   { return true }
func (errHandshakeTimeout) Temporary() bool { return true }
