package builtin

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/daeace23/prober/probe"
)

// dialFunc is the type of [net.Dialer.DialContext].
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialer returns the function that makes this config's connections.
func (c Config) dialer() dialFunc {
	dial := dialFunc(c.DialContext)
	if dial == nil {
		// A probe's connection is gone long before a keep-alive would be due.
		dial = (&net.Dialer{KeepAlive: -1}).DialContext
	}
	if !c.Compat.Has(probe.CompatLinger) {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		// kubernetes#115143: meant to spare ports, but TIME_WAIT stays as long, and
		// closing may pin a thread for the second.
		if l, ok := conn.(interface{ SetLinger(sec int) error }); ok {
			_ = l.SetLinger(1)
		}
		return conn, nil
	}
}

// verdict is the answer to an attempt that err ended before the target answered: a
// Failure that says output, unless the attempt was cancelled.
func verdict(ctx context.Context, err error, output string) (probe.Outcome, error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return probe.Outcome{}, err
	}
	return probe.Outcome{Result: probe.Failure, Output: probe.Cut(output), Reason: reasonOf(err)}, nil
}

// reasonOf returns why err kept a connection from being made or used.
func reasonOf(err error) probe.Reason {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return probe.ReasonDNS
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return probe.ReasonConnectRefused
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && op.Timeout() {
		return probe.ReasonConnectTimeout
	}
	if isTLS(err) {
		return probe.ReasonTLS
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return probe.ReasonDeadline
	}
	if isHTTP(err) {
		return probe.ReasonProtocol
	}
	return probe.ReasonInternal
}

// isTLS reports whether err comes from a TLS handshake. Most errors of crypto/tls
// have no type of their own.
func isTLS(err error) bool {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return true
	}
	text := err.Error()
	return errors.Is(err, http.ErrSchemeMismatch) || strings.Contains(text, "tls: ") || strings.Contains(text, "TLS handshake")
}

// isHTTP reports whether err says that the peer does not speak HTTP properly.
func isHTTP(err error) bool {
	if _, ok := errors.AsType[*http.ProtocolError](err); ok {
		return true
	}
	return strings.Contains(err.Error(), "malformed HTTP")
}
