package grpcprobe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/daeace23/prober/handlers/builtin/internal/network"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/probe"
)

// attempt is one attempt of a bound.
type attempt struct {
	*bound
	at  network.Endpoint
	req *probe.Request

	progress network.Progress
	unready  string // why the first connection, which grpc-go continues, does not get ready; "" if unknown

	mu        sync.Mutex
	first     *dialed    // result of grpc-go's first dial; nil if it must dial
	conns     []net.Conn // connections of grpc-go, below TLS
	dialError error      // error of the last failed dial
	connected bool       // the last dial succeeded
}

// dialed is the result of a dial.
type dialed struct {
	conn net.Conn
	err  error
}

// library makes the attempt with grpc-go.
func (a *attempt) library(ctx context.Context) (probe.Outcome, error) {
	options := a.handler.plaintext
	if a.secure {
		options = a.handler.tls
	}
	attempted := ctx // grpc-go dials with its own context
	ctx, deny := context.WithCancelCause(ctx)
	defer deny(nil)
	options = append(options[:len(options):len(options)], grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		conn, err := a.connect(netns.Inherit(ctx, attempted))
		if isDenied(err) { // otherwise grpc-go would dial again until the deadline
			deny(err)
		}
		return conn, err
	}))
	// The percent sign of an IPv6 zone must be escaped in the target's URL.
	conn, err := grpc.NewClient("passthrough:///"+strings.ReplaceAll(a.at.Address(), "%", "%25"), options...)
	if err != nil {
		return network.Verdict(ctx, err, fmt.Sprintf("error: failed to connect service at %q: %+v", a.at.Address(), err))
	}
	defer a.leave(conn)
	if err := a.awaitReady(ctx, conn); err != nil {
		if cause := context.Cause(ctx); isDenied(cause) {
			err = cause
		}
		return a.notConnected(attempted, err)
	}
	a.progress.Enter(network.StepGRPC)
	res, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: a.service})
	if err != nil {
		switch status.Code(err) {
		case codes.DeadlineExceeded, codes.Canceled, codes.Unavailable:
		default: // the server has answered
			a.progress.Done()
		}
		return a.rpcError(ctx, err)
	}
	a.progress.Done()
	return serving(res.GetStatus()), nil
}

// isDenied reports whether the guard of the context refused a dial. It would refuse every further dial too.
func isDenied(err error) bool { return err != nil && probe.ReasonOf(err) == probe.ReasonDenied }

// closeTimeout is the time limit for closing connections properly after an attempt. Without it, grpc-go and
// [tls.Conn.Close] would wait five seconds for a peer that does not read.
const closeTimeout = 250 * time.Millisecond

// leave closes the connections of conn.
func (a *attempt) leave(conn *grpc.ClientConn) {
	defer time.AfterFunc(closeTimeout, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, c := range a.conns {
			_ = c.Close()
		}
	}).Stop()
	if first := a.takeFirst(); first != nil && first.conn != nil {
		_ = first.conn.Close() // grpc-go has not taken it
	}
	_ = conn.Close()
}

// hold records a connection that grpc-go has.
func (a *attempt) hold(conn net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conns = append(a.conns, conn)
}

// connect makes the connection. ctx ends when the connection is not needed any more.
func (a *attempt) connect(ctx context.Context) (net.Conn, error) {
	if first := a.takeFirst(); first != nil {
		return first.conn, first.err
	}
	nw, address := a.at.Dialed()
	next := network.StepHTTP2
	if a.secure {
		next = network.StepTLS
	}
	conn, err := a.progress.Dial(a.progress.HooksAt(ctx, a.at), func(ctx context.Context, _, _ string) (net.Conn, error) {
		return a.handler.connector.Dial(ctx, a.at)
	}, nw, address, next)
	a.record(err)
	if err != nil {
		return nil, err
	}
	a.hold(conn)
	return conn, nil
}

// takeFirst returns the prepared result of grpc-go's first dial, the first time it is called.
func (a *attempt) takeFirst() *dialed {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := a.first
	a.first = nil
	return first
}

// record records the error of the last dial.
func (a *attempt) record(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.connected = err == nil
	if err != nil {
		a.dialError = err
	}
}

// lost returns the error that ended an attempt whose connection was lost: err if the last dial succeeded,
// else the result of cause.
func (a *attempt) lost(ctx context.Context, err error) error {
	a.mu.Lock()
	connected := a.connected
	a.mu.Unlock()
	if connected {
		return err
	}
	return a.cause(ctx, err)
}

// cause returns the error that ended an attempt without an answer of the target: the error of the last failed
// dial, or err if none failed.
func (a *attempt) cause(ctx context.Context, err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ctx.Err() == context.Canceled {
		return err
	}
	return cmp.Or(a.dialError, err)
}

// awaitReady waits until conn is connected, with any number of dials. Like the kubelet, it does not return
// early if the port is closed.
func (a *attempt) awaitReady(ctx context.Context, conn *grpc.ClientConn) error {
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.Idle:
			conn.Connect()
		case connectivity.TransientFailure:
			a.progress.Broken(cmp.Or(a.unready, "it has ended the connection, or sent something else"))
			a.unready = "" // the next connection may fail differently
		}
		if !conn.WaitForStateChange(ctx, state) {
			return ctx.Err()
		}
	}
}

// notConnected returns the outcome of an attempt without a connection.
func (a *attempt) notConnected(ctx context.Context, err error) (probe.Outcome, error) {
	address := a.at.Address()
	text := fmt.Sprintf("error: failed to connect service at %q: %+v", address, err)
	if errors.Is(err, context.DeadlineExceeded) {
		text = fmt.Sprintf("timeout: failed to connect service %q within %v: %v", address, a.req.Spec.Timeout, err)
	}
	return network.Verdict(ctx, a.cause(ctx, err), text)
}

// rpcError returns the outcome of an attempt whose call failed.
func (a *attempt) rpcError(ctx context.Context, err error) (probe.Outcome, error) {
	text, reason := fmt.Sprintf("error: health rpc probe failed: %+v", err), probe.ReasonProtocol
	switch s, _ := status.FromError(err); s.Code() {
	case codes.Unimplemented:
		text = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): " + s.Message()
	case codes.DeadlineExceeded:
		text, reason = fmt.Sprintf("timeout: health rpc did not complete within %v", a.req.Spec.Timeout), probe.ReasonDeadline
		err = a.cause(ctx, err)
	case codes.Unavailable:
		err = a.lost(ctx, err)
	}
	outcome, err := network.Verdict(ctx, err, text)
	if err == nil {
		outcome.Reason = reason
	}
	return outcome, err
}

// serving returns the outcome for the health service's answer.
func serving(s healthpb.HealthCheckResponse_ServingStatus) probe.Outcome {
	if s != healthpb.HealthCheckResponse_SERVING {
		return probe.Outcome{Result: probe.Failure, Output: fmt.Sprintf("service unhealthy (responded with %q)", s)}
	}
	return probe.Outcome{Result: probe.Success, Output: "service healthy"}
}

// tracedCredentials reports the end of the handshake to the progress of an attempt.
type tracedCredentials struct {
	credentials.TransportCredentials
}

// ClientHandshake implements [credentials.TransportCredentials]. A resumed connection has already made its
// handshake.
func (c tracedCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if b, ok := raw.(*resumedConn); ok {
		return b, b.handshake.info, b.handshake.err
	}
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if p := network.Of(raw); p != nil {
		i, _ := info.(credentials.TLSInfo)
		if p.Handshook(&i.State, err); err == nil {
			p.Enter(network.StepHTTP2)
		}
	}
	return conn, info, err
}

// Clone implements [credentials.TransportCredentials].
func (c tracedCredentials) Clone() credentials.TransportCredentials {
	return tracedCredentials{c.TransportCredentials.Clone()}
}
