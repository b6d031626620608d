package guest

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/handlers/wasm/internal/egress"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/certificates"
	"github.com/daeace23/prober/internal/outbound"
	"github.com/daeace23/prober/probe"
)

// tlsError is the error of a handshake.
type tlsError struct{ err error }

// Error returns the error with the prefix "tls: ". Some errors of crypto/tls have it already.
func (e *tlsError) Error() string {
	return "tls: " + strings.TrimPrefix(ended(e.err, "within the handshake", "within the handshake").Error(), "tls: ")
}

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

// handshakeError returns err, the error of a handshake, with the certificate at fault.
func (c *Call) handshakeError(err error) error {
	return &tlsError{certificates.Explain(err, c.host.Clock.Now())}
}

// handshake makes a TLS handshake with Host.Handshake, or with crypto/tls if that is nil.
func (c *Call) handshake(ctx context.Context, to *conn, config *tls.Config) (net.Conn, error) {
	remote := ""
	if addr := to.Conn.RemoteAddr(); addr != nil {
		remote = addr.String()
	}
	if c.host.Handshake != nil { // it may need the net.Conn itself
		c.stage(ctx, stageHandshake, remote, nil)
		return c.host.Handshake(ctx, to.Conn, config)
	}
	over, ok := to.Conn.(*countedConn)
	if !ok {
		over = &countedConn{Conn: to.Conn, connect: to.connect}
	}
	c.stage(ctx, stageHandshake, remote, over)
	secured := tls.Client(over, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return secured, nil
}

// dialOptions reads the options in the query of a URL. Only tls:// URLs have TLS options.
func dialOptions(to egress.Endpoint) (o abi.TLSOptions, route abi.Route, err error) {
	for name, values := range to.Options {
		switch {
		case name == "ipFamily":
			route.IPFamily = values[0]
		case name == "sourceAddress":
			route.SourceAddress = values[0]
		case !to.Secure:
			return o, route, fmt.Errorf("dial: unknown option %.40q; known: ipFamily, sourceAddress", name)
		case name == "alpn":
			o.ALPN = values
		case name == "credentials":
			o.Credentials = values[0]
		case name == "maxVersion":
			o.MaxVersion = values[0]
		case name == "minVersion":
			o.MinVersion = values[0]
		case name == "serverName":
			o.ServerName = values[0]
		case name == "verify":
			o.Verify = values[0]
		default:
			return o, route, fmt.Errorf("tls: unknown option %.40q; known: alpn, credentials, ipFamily, maxVersion, minVersion, serverName, sourceAddress, verify", name)
		}
	}
	return o, route, nil
}

// credentialsError is the error for credentials that a guest cannot use.
type credentialsError struct {
	name string
	err  error
}

func (e *credentialsError) Error() string {
	if e.denied() {
		return fmt.Sprintf("tls: credentials %.80q: the operator has not allowed this plugin to use them", e.name)
	}
	return fmt.Sprintf("tls: credentials %.80q: %v", e.name, e.err)
}

func (e *credentialsError) Unwrap() error { return e.err }

// denied reports whether the plugin may not use the credentials.
func (e *credentialsError) denied() bool { return errors.Is(e.err, fs.ErrPermission) }

func (e *credentialsError) errno() abi.Errno {
	if e.denied() {
		return abi.EPERM
	}
	return abi.EIO
}

// credentials returns the credentials with a name, or a zero Config if name is empty.
func (c *Call) credentials(name string) (*tls.Config, error) {
	if name == "" {
		return new(tls.Config), nil
	}
	if c.host.Credentials == nil {
		return nil, &credentialsError{name, fs.ErrPermission}
	}
	config, err := c.host.Credentials(c.plugin.Manifest.Name, name)
	if err != nil {
		return nil, &credentialsError{name, err}
	}
	return config.Clone(), nil
}

// tlsVersions are the values of minVersion and maxVersion.
var tlsVersions = map[string]uint16{"": 0, "TLS10": tls.VersionTLS10, "TLS11": tls.VersionTLS11, "TLS12": tls.VersionTLS12, "TLS13": tls.VersionTLS13}

const maxALPN = 16

// tlsConfig returns the configuration for a handshake with host.
func (c *Call) tlsConfig(host string, o abi.TLSOptions) (*tls.Config, error) {
	config, err := c.credentials(o.Credentials)
	if err != nil {
		return nil, err
	}
	config.ServerName = cmp.Or(o.ServerName, config.ServerName, host)
	config.NextProtos, config.Time = o.ALPN, c.host.Clock.Now
	var okMin, okMax bool
	config.MinVersion, okMin = tlsVersions[o.MinVersion]
	config.MaxVersion, okMax = tlsVersions[o.MaxVersion]
	if !okMin || !okMax {
		return nil, fmt.Errorf("tls: versions %.20q to %.20q: must be TLS10, TLS11, TLS12 or TLS13", o.MinVersion, o.MaxVersion)
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
	if config.RootCAs, err = outbound.Authorities([]byte(o.CA)); err != nil {
		return nil, fmt.Errorf("tls: ca: %w", err)
	}
	return config, nil
}

// secure makes the TLS handshake of a connection.
func (c *Call) secure(ctx context.Context, to *conn, o abi.TLSOptions) error {
	config, err := c.tlsConfig(to.host, o)
	if err != nil {
		return err
	}
	start := c.host.Clock.Now()
	secured, err := c.handshake(ctx, to, config)
	took := c.host.since(start)
	if secured == nil && err == nil {
		err = errors.New("the handshake returned neither a connection nor an error")
	}
	if err != nil {
		c.shown.add(certificates.ShownIn(nil, err))
		return c.handshakeError(err)
	}
	c.shown.addConn(secured)
	to.Conn, to.network, to.handshake, to.serverName = secured, "tls", took, config.ServerName
	to.secured = start.Add(took)
	return nil
}

// shownCerts has the certificates that servers showed to a call. Goroutines of net/http add to it, too.
type shownCerts struct {
	mu       sync.Mutex
	all      []certificates.Shown
	reported bool // all must not change
}

// maxShown is the maximum number of handshakes of a call that are reported.
const maxShown = 4

func (s *shownCerts) add(one certificates.Shown) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(one.Sent) > 0 && !s.reported && len(s.all) < maxShown {
		s.all = append(s.all, one)
	}
}

// addConn adds the certificates of a connection whose handshake is complete.
func (s *shownCerts) addConn(c net.Conn) {
	if secured, ok := c.(interface{ ConnectionState() tls.ConnectionState }); ok {
		state := secured.ConnectionState()
		s.add(certificates.ShownIn(&state, nil))
	}
}

// report reports the certificates to the observer of the attempt with ctx. It must be called once, in the
// goroutine of the attempt.
func (s *shownCerts) report(ctx context.Context) {
	s.mu.Lock()
	s.reported = true
	s.mu.Unlock()
	for i := range s.all {
		certificates.Report(ctx, s.all[i])
	}
}

const maxOptions = 64 << 10 // bytes of options, including a CA

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
			_ = conn.SetWriteDeadline(time.Time{}) // remove the deadline of the last write
			err = c.secure(ctx, conn, options)
		}
	})
	event := probe.TraceEvent{Type: probe.TraceCall, Name: "starttls", Duration: c.host.since(start)}
	if err != nil {
		event.Detail = c.errorText(err)
		errno := errnoOf(err)
		c.dialFault = dialFault(err, errno)
		if c.countDenied(err) {
			event.Type, event.Detail = probe.TraceDenied, err.Error()
		}
		return c.failTraced(event, errno, "starttls: %v", err)
	}
	event.Detail = conn.serverName
	c.Trace(event)
	return 0
}

// halt ends the pump, so that the handshake can read from the connection. It returns an error if the
// peer has sent bytes before the handshake, because the guest would mistake them for encrypted ones.
func (c *conn) halt() error {
	_ = c.setReadDeadline(time.Time{})
	if c.drained != nil {
		_ = c.SetReadDeadline(time.Unix(1, 0))
		close(c.drained)
		<-c.pumped
		c.drained = nil
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

// tlsInfo returns the TLS state of a connection for the guest, or nil without TLS.
func tlsInfo(c net.Conn, serverName string, now time.Time) *abi.TLSInfo {
	secured, ok := c.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return nil
	}
	state := secured.ConnectionState()
	return stateInfo(&state, serverName, now)
}

func stateInfo(state *tls.ConnectionState, serverName string, now time.Time) *abi.TLSInfo {
	info := abi.TLSInfoOf(state, now)
	info.ServerName = serverName
	return info
}
