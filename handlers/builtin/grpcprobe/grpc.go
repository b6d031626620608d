// Package grpcprobe has the grpc handler of the kubelet: a target whose health service
// (grpc.health.v1) answers SERVING is a Success.
package grpcprobe

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

	"github.com/daeace23/prober/handlers/builtin/internal/action"
	"github.com/daeace23/prober/handlers/builtin/internal/network"
	"github.com/daeace23/prober/probe"
)

// DefaultUserAgent is the first word of the user agent of the probes. Service meshes and
// autoscalers recognize them by it.
const DefaultUserAgent = network.UserAgent

// Config configures a [Handler]. The zero value is ready to use.
type Config struct {
	// DialContext makes every connection; nil means a [net.Dialer]. The network is
	// "tcp", or "unix" for a target that is a socket.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Compat turns fixes off: [probe.CompatLinger] and [probe.CompatHostTrouble].
	Compat probe.Compat
	// UserAgent replaces [DefaultUserAgent] when not empty.
	UserAgent string
}

// Handler is the grpc handler. Each attempt makes its own connection. Only an invalid port and
// trouble of the agent's own host are errors. One Handler serves any number of probes.
type Handler struct {
	dial      network.DialFunc
	plaintext []grpc.DialOption
	tls       []grpc.DialOption
}

var _ probe.Preparer = (*Handler)(nil)

// New returns the grpc handler.
func New(cfg Config) *Handler {
	options := func(creds credentials.TransportCredentials) []grpc.DialOption {
		return []grpc.DialOption{
			grpc.WithUserAgent(cmp.Or(cfg.UserAgent, DefaultUserAgent)),
			grpc.WithNoProxy(),
			grpc.WithDisableServiceConfig(),
			grpc.WithTransportCredentials(creds),
		}
	}
	return &Handler{
		dial:      network.Dialer(cfg.DialContext, cfg.Compat),
		plaintext: options(insecure.NewCredentials()),
		tls:       options(tracedCredentials{credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})}),
	}
}

// Action is what one probe asks. The zero value asks the target of the request about the server
// as a whole.
type Action struct {
	// Host is a name, or an IP address without brackets. Empty means the host of
	// [probe.Request.Target], or the pod's IP. A v1.GRPCAction has no such field.
	Host string
	// Port is from 1 to 65535. 0 means the port of [probe.Request.Target].
	Port int
	// Service is the name of the service to ask about. Empty means the server as a whole.
	Service string
	// TLS makes a TLS connection, whose certificate is not verified.
	TLS bool
}

// Bind returns the handler of one probe. It returns an error for a port that is out of range.
func (h *Handler) Bind(a Action) (probe.Handler, error) {
	port, err := action.NumberOrName(a.Port, "")
	if err != nil {
		return nil, err
	}
	return h.bind(a, network.Place{Host: a.Host, Port: port}), nil
}

// bind binds the handler to a at place.
func (h *Handler) bind(a Action, place network.Place) *bound {
	b := &bound{dial: h.dial, place: place, options: h.plaintext, service: a.Service}
	if a.TLS {
		b.options, b.secure = h.tls, true
	}
	return b
}

// Prepare binds the handler to config, the JSON of a v1.GRPCAction.
func (h *Handler) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	type GRPCAction struct { // errors name it as those of the Kubernetes API do
		Port    int32   `json:"port"`
		Service string  `json:"service"`
		Mode    *string `json:"mode"`
	}
	var a GRPCAction
	if err := action.Decode(config, &a); err != nil {
		return nil, err
	}
	secure, err := isTLS(a.Mode)
	if err != nil {
		return nil, err
	}
	return h.bind(Action{Service: a.Service, TLS: secure}, network.Place{Port: action.Number(a.Port), Target: target}), nil
}

// isTLS reports whether the mode of an action is TLS. Kubernetes has the field since 1.37.
func isTLS(mode *string) (bool, error) {
	switch {
	case mode == nil, *mode == "Plaintext":
		return false, nil
	case *mode == "TLS":
		return true, nil
	default:
		return false, fmt.Errorf("mode: unknown mode %q; known: Plaintext, TLS", *mode)
	}
}

// Probe carries out an attempt at the request's own target.
func (h *Handler) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	return h.bind(Action{}, network.Place{}).Probe(ctx, req)
}

// bound is a Handler with an action; read-only.
type bound struct {
	dial    network.DialFunc
	place   network.Place
	options []grpc.DialOption
	secure  bool
	service string
}

func (h *bound) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	at, err := h.place.Resolve(&req)
	if err != nil {
		return probe.Outcome{}, err
	}
	ctx, phases := network.NewPhases(ctx, req.Trace)
	a := &attempt{bound: h, at: at, req: &req, phases: phases}
	// From a *net.TCPConn, gRPC reads without a buffer of 32 KiB. Bytes are counted only if that
	// does not apply, as with TLS, or with a tracer.
	a.progress.Uncounted = !h.secure && req.Trace == nil
	a.progress.Enter(network.StepDial)
	out, err := a.run(ctx)
	phases.Emit(req.Trace)
	a.progress.Explain(ctx, req.Trace, &out)
	return out, err
}

// attempt is one attempt of a bound.
type attempt struct {
	*bound
	at     network.Endpoint
	req    *probe.Request
	phases *network.Phases

	progress network.Progress

	mu        sync.Mutex
	dialError error // of the last dial that failed
	connected bool  // the last dial did not fail
}

func (a *attempt) run(ctx context.Context) (probe.Outcome, error) {
	address := a.at.Address()
	options := append(a.options[:len(a.options):len(a.options)], grpc.WithContextDialer(
		func(dialCtx context.Context, _ string) (net.Conn, error) { return a.connect(ctx, dialCtx) }))
	// An IPv6 zone has a percent sign, which must be escaped in the target's URL.
	conn, err := grpc.NewClient("passthrough:///"+strings.ReplaceAll(address, "%", "%25"), options...)
	if err != nil {
		return network.Verdict(ctx, err, fmt.Sprintf("error: failed to connect service at %q: %+v", address, err))
	}
	defer conn.Close()
	if err := awaitReady(ctx, conn); err != nil {
		return a.notConnected(ctx, err)
	}
	a.phases.End("tls", "", "")
	a.phases.Begin("first byte", "")
	a.progress.Enter(network.StepGRPC)
	res, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: a.service})
	a.phases.End("first byte", "", "")
	if err != nil {
		return a.rpcError(ctx, err)
	}
	return serving(res.GetStatus()), nil
}

// connect makes the connection. ctx is the attempt's, for its trace. dialCtx ends when the
// connection is no longer needed.
func (a *attempt) connect(ctx, dialCtx context.Context) (net.Conn, error) {
	if a.phases != nil {
		traced, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(dialCtx, cancel)()
		dialCtx = traced
	}
	nw, address := a.at.Dialed()
	next := network.StepHTTP2
	if a.secure {
		next = network.StepTLS
	}
	conn, err := a.progress.Dial(dialCtx, a.dial, nw, address, next)
	a.dialed(err)
	if err != nil {
		return nil, err
	}
	if a.secure {
		a.phases.Begin("tls", "")
	}
	return conn, nil
}

// dialed records the error of the last dial.
func (a *attempt) dialed(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.connected = err == nil
	if err != nil {
		a.dialError = err
	}
}

// lost returns what ended an attempt whose connection is gone: err if the last dial did not fail,
// else as cause.
func (a *attempt) lost(ctx context.Context, err error) error {
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
func (a *attempt) cause(ctx context.Context, err error) error {
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
func (a *attempt) notConnected(ctx context.Context, err error) (probe.Outcome, error) {
	address := a.at.Address()
	text := fmt.Sprintf("error: failed to connect service at %q: %+v", address, err)
	if errors.Is(err, context.DeadlineExceeded) {
		text = fmt.Sprintf("timeout: failed to connect service %q within %v: %v", address, a.req.Spec.Timeout, err)
	}
	return network.Verdict(ctx, a.cause(ctx, err), text)
}

// rpcError returns the answer of an attempt whose call failed.
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

// serving returns the outcome of the health service's answer.
func serving(s healthpb.HealthCheckResponse_ServingStatus) probe.Outcome {
	if s != healthpb.HealthCheckResponse_SERVING {
		return probe.Outcome{Result: probe.Failure, Output: fmt.Sprintf("service unhealthy (responded with %q)", s)}
	}
	return probe.Outcome{Result: probe.Success, Output: "service healthy"}
}

// tracedCredentials report the end of the handshake to the progress of an attempt.
type tracedCredentials struct {
	credentials.TransportCredentials
}

// ClientHandshake implements [credentials.TransportCredentials].
func (c tracedCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if p := network.Of(raw); p != nil && err == nil {
		p.Enter(network.StepHTTP2)
	}
	return conn, info, err
}

// Clone implements [credentials.TransportCredentials].
func (c tracedCredentials) Clone() credentials.TransportCredentials {
	return tracedCredentials{c.TransportCredentials.Clone()}
}
