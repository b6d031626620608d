package guest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/probe"
)

// tlsError is the error of a handshake.
type tlsError struct{ err error }

// Error returns the error with the prefix "tls: ", which some errors of crypto/tls have already.
func (e *tlsError) Error() string { return "tls: " + strings.TrimPrefix(e.err.Error(), "tls: ") }
func (e *tlsError) Unwrap() error { return e.err }

func (e *tlsError) errno() abi.Errno {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(e.err, &timeout) && timeout.Timeout(), errors.Is(e.err, net.ErrClosed):
		return abi.ETIMEDOUT
	case errors.Is(e.err, syscall.ECONNRESET), errors.Is(e.err, io.EOF):
		return abi.ECONNRESET
	}
	return abi.EPROTO
}

// Handshake is the default of Config.Handshake.
func Handshake(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) {
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return secured, nil
}

// tlsOptions reads the query of a tls:// URL.
func tlsOptions(query url.Values) (abi.TLSOptions, error) {
	var o abi.TLSOptions
	for name, values := range query {
		switch name {
		case "serverName":
			o.ServerName = values[0]
		case "alpn":
			o.ALPN = values
		case "verify":
			o.Verify = values[0]
		default:
			return o, fmt.Errorf("tls: unknown option %.40q; known: alpn, serverName, verify", name)
		}
	}
	return o, nil
}

const maxALPN = 16

// tlsConfig returns the configuration of a handshake with host.
func (c *Call) tlsConfig(host string, o abi.TLSOptions) (*tls.Config, error) {
	config := &tls.Config{ServerName: o.ServerName, NextProtos: o.ALPN, Time: c.host.Clock.Now}
	if config.ServerName == "" {
		config.ServerName = host
	}
	switch o.Verify {
	case "", abi.VerifyFull:
	case abi.VerifyNone:
		config.InsecureSkipVerify = true
	default:
		return nil, fmt.Errorf("tls: verify %.40q: want %s or %s", o.Verify, abi.VerifyFull, abi.VerifyNone)
	}
	if len(o.ALPN) > maxALPN || slices.ContainsFunc(o.ALPN, func(p string) bool { return p == "" || len(p) > 255 }) {
		return nil, errors.New("tls: alpn: want 16 names of 1 to 255 bytes at most")
	}
	if o.CA == "" {
		return config, nil
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM([]byte(o.CA)) {
		return nil, errors.New("tls: ca: no certificate in PEM")
	}
	return config, nil
}

// secure makes the TLS handshake of a connection.
func (c *Call) secure(ctx context.Context, to *conn, o abi.TLSOptions) error {
	config, err := c.tlsConfig(to.host, o)
	if err != nil {
		return err
	}
	c.stage(stageHandshake, "")
	start := c.host.Clock.Now()
	secured, err := c.host.Handshake(ctx, to.Conn, config)
	took := c.host.since(start)
	if err != nil {
		return &tlsError{err}
	}
	to.Conn, to.network, to.handshake, to.serverName = secured, "tls", took, config.ServerName
	return nil
}

const maxOptions = 64 << 10 // bytes of options, a ca included

func netStartTLS(c *Call, mem api.Memory, a args) int32 {
	conn, bad := c.conn(a.i32(0))
	if conn == nil {
		return bad
	}
	if uint32(a[2]) > maxOptions {
		return c.fail(abi.EMSGSIZE, "starttls: options of more than %d bytes", maxOptions)
	}
	doc, ok := a.span(mem, 1)
	if !ok {
		return c.badPointer()
	}
	if len(doc) == 0 {
		doc = []byte("{}")
	}
	options, err := abi.Decode[abi.TLSOptions](doc)
	switch {
	case err != nil:
		return c.fail(abi.EINVAL, "starttls: options: %v", err)
	case conn.network == "tls" || conn.network == "udp":
		return c.fail(abi.EINVAL, "starttls: a connection of %s", conn.network)
	}
	start := c.host.Clock.Now()
	c.idle(waiting{call: "starttls", conn: conn, stage: stageHandshake}, func(ctx context.Context) {
		if err = conn.halt(); err == nil {
			_ = conn.SetWriteDeadline(time.Time{}) // remove that of the last write
			err = c.secure(ctx, conn, options)
		}
	})
	event := probe.TraceEvent{Type: probe.TraceCall, Name: "starttls", Duration: c.host.since(start)}
	if err != nil {
		event.Detail = err.Error()
		errno := errnoOf(err)
		c.dialFault = dialFault(err, errno)
		return c.failTraced(event, errno, "starttls: %v", err)
	}
	event.Detail = conn.serverName
	c.Trace(event)
	return 0
}

// halt ends the pump, so that the handshake can read from the connection. Bytes that were read
// before TLS are an error, because the guest would take them for encrypted ones.
func (c *conn) halt() error {
	_ = c.setReadDeadline(time.Time{})
	if c.more != nil {
		_ = c.SetReadDeadline(time.Unix(1, 0))
		close(c.more)
		<-c.pumped
		c.more = nil
		_ = c.SetReadDeadline(time.Time{})
	}
	data, err := c.data, c.err
	c.data, c.err = nil, nil
	var timeout interface{ Timeout() bool }
	switch {
	case len(data) > 0:
		return &limit{errno: abi.EPROTO, text: fmt.Sprintf("%d bytes came before TLS and were not read", len(data))}
	case errors.As(err, &timeout) && timeout.Timeout():
		return nil
	}
	return err
}

// tlsInfo returns what the guest sees of the TLS of a connection; nil without TLS.
func tlsInfo(c net.Conn, serverName string) *abi.TLSInfo {
	secured, ok := c.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return nil
	}
	state := secured.ConnectionState()
	return stateInfo(&state, serverName)
}

func stateInfo(state *tls.ConnectionState, serverName string) *abi.TLSInfo {
	info := abi.TLSInfoOf(state)
	info.ServerName = serverName
	return info
}
