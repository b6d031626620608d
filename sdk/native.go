//go:build !wasip1

package sdk

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/daeace23/prober/probe"
)

func register(Plugin) {}

// Dial connects to addr. network is "tcp", "udp", "tls" or "unix". In a guest the host
// dials, and only what the operator granted; in a native program it is net.Dialer.
func Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if network == "tls" {
		var d tls.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// StartTLS makes the TLS of a connection that [Dial] made: the host's in a guest, and
// crypto/tls in a native program. What it returns takes the place of conn.
func StartTLS(ctx context.Context, conn net.Conn, o TLSOptions) (net.Conn, error) {
	config := &tls.Config{ServerName: o.ServerName, NextProtos: o.ALPN, InsecureSkipVerify: o.InsecureSkipVerify}
	if host, _, err := net.SplitHostPort(conn.RemoteAddr().String()); err == nil && o.ServerName == "" {
		config.ServerName = host
	}
	if o.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(o.CA)) {
			return nil, errors.New("starttls: ca: no certificate in PEM")
		}
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("starttls: %w", err)
	}
	return secured, nil
}

// PeerCertificates tells what the other side of a connection with TLS showed, its own
// certificate first.
func PeerCertificates(conn net.Conn) ([]Certificate, error) {
	secured, ok := conn.(*tls.Conn)
	if !ok {
		return nil, errors.New("not a connection with TLS")
	}
	var certs []Certificate
	for _, cert := range secured.ConnectionState().PeerCertificates {
		sum := sha256.Sum256(cert.Raw)
		names := slices.Clone(cert.DNSNames)
		for _, ip := range cert.IPAddresses {
			names = append(names, ip.String())
		}
		certs = append(certs, Certificate{
			Subject: cert.Subject.String(), Issuer: cert.Issuer.String(),
			NotBefore: cert.NotBefore, NotAfter: cert.NotAfter, SANs: names, SHA256: hex.EncodeToString(sum[:]),
		})
	}
	return certs, nil
}

// Logf hands a line to the host's log.
func (r *Request) Logf(level Level, format string, args ...any) {
	r.trace.Emit(probe.TraceEvent{Type: probe.TraceLog, Name: level.String(), Detail: fmt.Sprintf(format, args...)})
}

// NewRequest returns what a plugin is asked in a native program: its tests, say.
// config is a JSON object and may be nil.
func NewRequest(req probe.Request, config []byte) (*Request, error) {
	c, err := NewConfig(config)
	if err != nil {
		return nil, err
	}
	r := &Request{
		Kind:             req.Kind,
		Attempt:          req.Attempt,
		Period:           req.Spec.Period,
		Timeout:          req.Spec.Timeout,
		FailureThreshold: req.Spec.FailureThreshold,
		LastResult:       req.LastResult,
		Target:           req.Target,
		ContainerID:      req.ContainerID,
		Config:           c,
		trace:            req.Trace,
	}
	if req.Pod != nil {
		r.Pod = *req.Pod
	}
	if req.Container != nil {
		r.Container = *req.Container
	}
	return r, nil
}

// Native returns p as a handler of a native program: the plugin without its
// sandbox. The manifest's schema is not applied.
func Native(p Plugin) probe.Preparer { return native{p, nil} }

type native struct {
	plugin Plugin
	config []byte
}

var _ probe.Preparer = native{}

// Prepare implements [probe.Preparer].
func (n native) Prepare(config []byte, _ probe.Target) (probe.Handler, error) {
	c, err := NewConfig(config)
	if err != nil {
		return nil, err
	}
	if v, ok := n.plugin.(ConfigValidator); ok {
		if err := v.ValidateConfig(c); err != nil {
			return nil, err
		}
	}
	return native{n.plugin, config}, c.Err()
}

// Probe implements [probe.Handler].
func (n native) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	r, err := NewRequest(req, n.config)
	if err != nil {
		return probe.Outcome{}, err
	}
	out, err := n.plugin.Probe(ctx, r)
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		return probe.TimedOut(req.Spec.Timeout), nil
	case ctx.Err() != nil:
		return probe.Outcome{}, ctx.Err()
	case err == nil:
		err = r.Config.Err()
	}
	if err != nil {
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonGuest, Err: err}
	}
	return out, nil
}
