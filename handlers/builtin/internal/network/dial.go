// Package network has the parts that handlers with connections share: addresses, dials, the interpretation of
// errors, and the progress of an attempt.
package network

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/daeace23/prober/handlers/internal/rawconn"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/probe"
)

// UserAgent is the default user agent. Service meshes and autoscalers recognize probes by its first
// word.
const UserAgent = "kube-probe/1.36"

// DialFunc is the type of [net.Dialer.DialContext].
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialer is the default dialer. It sends no keep-alives, because a probe's connection ends long before one.
var dialer = net.Dialer{KeepAlive: -1, ControlContext: func(ctx context.Context, network, address string, _ syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	return netns.CheckResolved(ctx, address)
}}

// inNamespace makes a connection in the network namespace of ctx, if the guard of ctx allows it.
func inNamespace(ctx context.Context, network, address string) (net.Conn, error) {
	if err := netns.CheckDial(ctx, network, address); err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	if n := netns.From(ctx); n != nil && network != "unix" {
		return rawconn.Origin{Namespace: n}.Dial(ctx, network, address)
	}
	return dialer.DialContext(ctx, network, address)
}

// Dialer returns a function that makes the connections of a handler with dial, or with a [net.Dialer] if dial
// is nil.
func Dialer(dial DialFunc, compat probe.Compat) DialFunc {
	if dial == nil {
		dial = inNamespace
	} else {
		dial = rawconn.Checked(dial)
	}
	if !compat.Has(probe.CompatHostTrouble) {
		dial = markHostTrouble(dial)
	}
	if !compat.Has(probe.CompatLinger) {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		// kubernetes#115143: it was meant to save ports, but TIME_WAIT lasts as long, and closing
		// may block a thread for the second.
		if l, ok := conn.(interface{ SetLinger(sec int) error }); ok {
			_ = l.SetLinger(1)
		}
		return conn, nil
	}
}

// markHostTrouble wraps dial. Errors that the agent's own host causes get the reason of [probe.HostReason].
func markHostTrouble(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, hostTrouble(rawconn.Unreachable(ctx, dial, network, address, err))
		}
		return conn, nil
	}
}

// hostTrouble returns err, with a reason if the agent's own host caused it.
func hostTrouble(err error) error {
	if reason := probe.HostReason(err); reason != "" {
		return &probe.Error{Reason: reason, Err: err}
	}
	return err
}

// Verdict returns the outcome of an attempt that failed with err before the target answered: a Failure with
// output, or err if the attempt was cancelled or the agent's own host is the cause.
func Verdict(ctx context.Context, err error, output string) (probe.Outcome, error) {
	if errors.Is(ctx.Err(), context.Canceled) || probe.IsHostTrouble(err) {
		return probe.Outcome{}, err
	}
	return probe.Outcome{Result: probe.Failure, Output: probe.Cut(output), Reason: reasonOf(err)}, nil
}

// reasonOf returns the reason for err, the error of a connection, or "" if there is none.
func reasonOf(err error) probe.Reason {
	switch op, _ := errors.AsType[*net.OpError](err); {
	case isType[*probe.Error](err): // perhaps from Config.DialContext
		return probe.ReasonOf(err)
	case probe.HostReason(err) != "": // with CompatHostTrouble
		return probe.HostReason(err)
	case isType[*net.DNSError](err):
		return probe.ReasonDNS
	case errors.Is(err, syscall.ECONNREFUSED):
		return probe.ReasonConnectRefused
	case op != nil && op.Op == "dial" && op.Timeout():
		return probe.ReasonConnectTimeout
	case isTLS(err):
		return probe.ReasonTLS
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded): // the second one comes from a read or write
		return probe.ReasonDeadline
	case isProtocol(err):
		return probe.ReasonProtocol
	case errors.Is(err, syscall.EHOSTUNREACH):
		return ""
	default:
		return probe.ReasonInternal
	}
}

// isTLS reports whether err comes from a TLS handshake. It compares texts, because most errors of
// crypto/tls have no type of their own.
func isTLS(err error) bool {
	text := err.Error()
	return isType[tls.RecordHeaderError](err) || isType[tls.AlertError](err) ||
		strings.Contains(text, "tls: ") || strings.Contains(text, "TLS handshake")
}

// isProtocol reports whether the peer closed the connection or sent invalid HTTP, such as endless headers.
func isProtocol(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		strings.Contains(err.Error(), "malformed HTTP") || strings.Contains(err.Error(), "server response headers exceeded")
}

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
