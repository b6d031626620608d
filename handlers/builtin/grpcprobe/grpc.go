// Package grpcprobe has the grpc handler of the kubelet. A probe is a Success if the target's health service
// (grpc.health.v1) answers SERVING.
package grpcprobe

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/daeace23/prober/handlers/builtin/internal/action"
	"github.com/daeace23/prober/handlers/builtin/internal/network"
	"github.com/daeace23/prober/probe"
)

// DefaultUserAgent is the first word of the default user agent of probes. Service meshes and autoscalers
// recognize probes by it.
const DefaultUserAgent = network.UserAgent

// Config configures a [Handler]. The zero value is ready to use.
type Config struct {
	// DialContext makes every connection. Nil means a [net.Dialer]. The network is "tcp", or "unix"
	// if the target is a socket. An attempt costs several times as much if the connection does not
	// implement [syscall.Conn]. The connections of package net do.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Compat restores behaviours of the kubelet. These switches have an effect: [probe.CompatLinger],
	// [probe.CompatHostTrouble], [probe.CompatGRPCLibrary] and [probe.CompatIgnoreProtocol].
	Compat probe.Compat
	// UserAgent replaces [DefaultUserAgent] unless it is empty.
	UserAgent string
}

// Handler is the grpc handler. Each attempt makes its own connection. Like grpc-go, it makes another one if
// the server has closed the connection without an answer. Only an invalid port and faults of the agent's own
// host are errors. One Handler serves any number of probes.
type Handler struct {
	connector   *network.Connector
	onlyLibrary bool   // make every attempt with grpc-go
	ignoreMode  bool   // ignore the mode in configs
	userAgent   string // as grpc-go sends it
	credentials credentials.TransportCredentials
	plaintext   []grpc.DialOption
	tls         []grpc.DialOption
}

var _ probe.Preparer = (*Handler)(nil)

// New returns the grpc handler.
func New(cfg Config) *Handler {
	userAgent := cmp.Or(cfg.UserAgent, DefaultUserAgent)
	options := func(creds credentials.TransportCredentials) []grpc.DialOption {
		return []grpc.DialOption{
			grpc.WithUserAgent(userAgent),
			grpc.WithNoProxy(),
			grpc.WithDisableServiceConfig(),
			grpc.WithTransportCredentials(creds),
		}
	}
	secure := tracedCredentials{credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})}
	return &Handler{
		connector:   network.NewConnector(cfg.DialContext, cfg.Compat),
		onlyLibrary: cfg.Compat.Has(probe.CompatGRPCLibrary),
		ignoreMode:  cfg.Compat.Has(probe.CompatIgnoreProtocol),
		userAgent:   userAgent + " grpc-go/" + grpc.Version,
		credentials: secure,
		plaintext:   options(insecure.NewCredentials()),
		tls:         options(secure),
	}
}

// Action is the configuration of one probe. The zero value checks the server as a whole at the target of the
// request.
type Action struct {
	// Host is a name, or an IP address without brackets. Empty means the host of
	// [probe.Request.Target], or the pod's IP. A v1.GRPCAction has no such field.
	Host string
	// Port is from 1 to 65535. 0 means the port of [probe.Request.Target].
	Port int
	// Service is the name of the service to check. Empty means the server as a whole.
	Service string
	// TLS makes a TLS connection without verifying the certificate.
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

// bind binds the handler to an action at a place.
func (h *Handler) bind(a Action, place network.Place) *bound {
	return &bound{handler: h, place: place, secure: a.TLS, service: a.Service}
}

// Prepare binds the handler to config, the JSON of a v1.GRPCAction.
func (h *Handler) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	type GRPCAction struct { // named as in the Kubernetes API, because errors show the name
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
	return h.bind(Action{Service: a.Service, TLS: secure && !h.ignoreMode}, network.Place{Port: action.Number(a.Port), Target: target}), nil
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
	handler *Handler
	place   network.Place
	secure  bool
	service string
}

var _ probe.Describer = (*bound)(nil)

// Describe implements [probe.Describer].
func (h *bound) Describe(name string, req *probe.Request) string {
	return strings.TrimSpace(name + " " + h.place.Describe(req) + " " + h.service)
}

func (h *bound) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	at, err := h.handler.connector.Resolve(h.place, &req)
	if err != nil {
		return probe.Outcome{}, err
	}
	a := &attempt{bound: h, at: at, req: &req}
	// From a *net.TCPConn, grpc-go reads without a buffer of 32 KiB. So bytes are counted only with
	// TLS, where grpc-go needs the buffer anyway.
	a.progress.Uncounted, a.progress.Traced, a.progress.Redials = !h.secure, req.Trace != nil, true
	a.progress.Enter(network.StepDial)
	out, done, err := probe.Outcome{}, false, error(nil)
	if !h.handler.onlyLibrary {
		out, done, err = a.bare(ctx)
	}
	if !done {
		out, err = a.library(ctx)
	}
	a.progress.Report(ctx)
	a.progress.Emit(req.Trace, req.Debug || err != nil || out.Result != probe.Success)
	a.progress.Explain(ctx, req.Trace, &out)
	return out, err
}
