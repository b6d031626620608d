package builtin

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/probe"
)

// GRPC is the grpc handler: a target whose health service (grpc.health.v1) answers SERVING is a
// Success. Only an invalid port and trouble of the agent's own host are errors.
type GRPC struct {
	dial    dialFunc
	options []grpc.DialOption
}

var _ probe.Preparer = (*GRPC)(nil)

// NewGRPC returns the grpc handler.
func NewGRPC(cfg Config) *GRPC {
	return &GRPC{
		dial: cfg.dialer(),
		options: []grpc.DialOption{
			grpc.WithUserAgent(cfg.userAgent()),
			grpc.WithNoProxy(),
			grpc.WithDisableServiceConfig(),
		},
	}
}

// Prepare binds the handler to config, a v1.GRPCAction.
func (h *GRPC) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	var action v1.GRPCAction
	if err := decode(config, &action); err != nil {
		return nil, err
	}
	secure, err := wantsTLS(&action)
	if err != nil {
		return nil, err
	}
	creds := insecure.NewCredentials()
	if secure {
		creds = tracedCredentials{credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})}
	}
	b := &boundGRPC{
		dial:    h.dial,
		place:   place{port: intstr.FromInt32(action.Port), target: target},
		options: append(h.options[:len(h.options):len(h.options)], grpc.WithTransportCredentials(creds)),
		secure:  secure,
	}
	if action.Service != nil {
		b.service = *action.Service
	}
	return b, nil
}

// tracedCredentials report the end of the handshake to the progress of an attempt.
type tracedCredentials struct {
	credentials.TransportCredentials
}

// ClientHandshake implements [credentials.TransportCredentials].
func (c tracedCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if counted, ok := raw.(*countedConn); ok && err == nil {
		counted.of.enter(stepHTTP2)
	}
	return conn, info, err
}

// Clone implements [credentials.TransportCredentials].
func (c tracedCredentials) Clone() credentials.TransportCredentials {
	return tracedCredentials{c.TransportCredentials.Clone()}
}

// Probe carries out an attempt at the request's own target.
func (h *GRPC) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	return probeUnbound(ctx, h, req)
}

// boundGRPC is a GRPC with a config; read-only.
type boundGRPC struct {
	dial    dialFunc
	place   place
	options []grpc.DialOption
	secure  bool
	service string
}

func (h *boundGRPC) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	at, err := h.place.resolve(&req)
	if err != nil {
		return probe.Outcome{}, err
	}
	ctx, phases := newPhases(ctx, req.Trace)
	a := &grpcAttempt{boundGRPC: h, at: at, req: &req, phases: phases}
	// From a *net.TCPConn, gRPC reads without a buffer of 32 KiB. Bytes are counted only if that
	// does not apply, as with TLS, or with a tracer.
	a.progress.uncounted = !h.secure && req.Trace == nil
	a.progress.enter(stepDial)
	out, err := a.run(ctx)
	phases.emit(req.Trace)
	a.progress.explain(ctx, req.Trace, &out)
	return out, err
}

// grpcAttempt is one attempt of a boundGRPC.
type grpcAttempt struct {
	*boundGRPC
	at     endpoint
	req    *probe.Request
	phases *phases

	progress progress

	mu        sync.Mutex
	dialError error // of the last dial that failed
	connected bool  // the last dial did not fail
}

func (a *grpcAttempt) run(ctx context.Context) (probe.Outcome, error) {
	address := a.at.address()
	options := append(a.options[:len(a.options):len(a.options)], grpc.WithContextDialer(
		func(dialCtx context.Context, _ string) (net.Conn, error) { return a.connect(ctx, dialCtx) }))
	// An IPv6 zone has a percent sign, which must be escaped in the target's URL.
	conn, err := grpc.NewClient("passthrough:///"+strings.ReplaceAll(address, "%", "%25"), options...)
	if err != nil {
		return verdict(ctx, err, fmt.Sprintf("error: failed to connect service at %q: %+v", address, err))
	}
	defer conn.Close()
	if err := awaitReady(ctx, conn); err != nil {
		return a.notConnected(ctx, err)
	}
	a.phases.end("tls", "", "")
	a.phases.begin("first byte", "")
	a.progress.enter(stepGRPC)
	res, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: a.service})
	a.phases.end("first byte", "", "")
	if err != nil {
		return a.rpcError(ctx, err)
	}
	return serving(res.GetStatus()), nil
}

// connect makes the connection. ctx is the attempt's, for its trace. dialCtx ends when the
// connection is no longer needed.
func (a *grpcAttempt) connect(ctx, dialCtx context.Context) (net.Conn, error) {
	if a.phases != nil {
		traced, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(dialCtx, cancel)()
		dialCtx = traced
	}
	network, address := a.at.dialed()
	next := stepHTTP2
	if a.secure {
		next = stepTLS
	}
	conn, err := a.progress.dial(dialCtx, a.dial, network, address, next)
	a.dialed(err)
	if err != nil {
		return nil, err
	}
	if a.secure {
		a.phases.begin("tls", "")
	}
	return conn, nil
}

// dialed records the error of the last dial.
func (a *grpcAttempt) dialed(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.connected = err == nil
	if err != nil {
		a.dialError = err
	}
}

// lost returns what ended an attempt whose connection is gone: err if the last dial did not fail,
// else as cause.
func (a *grpcAttempt) lost(ctx context.Context, err error) error {
	a.mu.Lock()
	connected := a.connected
	a.mu.Unlock()
	if connected {
		return err
	}
	return a.cause(ctx, err)
}

// cause returns what ended an attempt without an answer of the target: the error of the last dial
// that failed, or err.
func (a *grpcAttempt) cause(ctx context.Context, err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ctx.Err() == context.Canceled {
		return err
	}
	return cmp.Or(a.dialError, err)
}

// awaitReady waits until conn is connected, however many dials that takes. Like the kubelet, it
// does not return early if the port is closed.
func awaitReady(ctx context.Context, conn *grpc.ClientConn) error {
	for {
		state := conn.GetState()
		if state == connectivity.Ready {
			return nil
		}
		if state == connectivity.Idle {
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, state) {
			return ctx.Err()
		}
	}
}

// notConnected returns the answer of an attempt without a connection.
func (a *grpcAttempt) notConnected(ctx context.Context, err error) (probe.Outcome, error) {
	address := a.at.address()
	text := fmt.Sprintf("error: failed to connect service at %q: %+v", address, err)
	if errors.Is(err, context.DeadlineExceeded) {
		text = fmt.Sprintf("timeout: failed to connect service %q within %v: %v", address, a.req.Spec.Timeout, err)
	}
	return verdict(ctx, a.cause(ctx, err), text)
}

// rpcError returns the answer of an attempt whose call failed.
func (a *grpcAttempt) rpcError(ctx context.Context, err error) (probe.Outcome, error) {
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
	outcome, err := verdict(ctx, err, text)
	if err == nil {
		outcome.Reason = reason
	}
	return outcome, err
}

// serving returns the outcome of the health service's answer.
func serving(s healthpb.HealthCheckResponse_ServingStatus) probe.Outcome {
	if s != healthpb.HealthCheckResponse_SERVING {
		return probe.Outcome{Result: probe.Failure, Output: fmt.Sprintf("service unhealthy (responded with %q)", s)}
	}
	return probe.Outcome{Result: probe.Success, Output: "service healthy"}
}
