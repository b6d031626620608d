// Package tcpprobe has the tcp handler of the kubelet. A probe is a Success if it can connect to the
// target.
package tcpprobe

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/daeace23/prober/handlers/builtin/internal/action"
	"github.com/daeace23/prober/handlers/builtin/internal/network"
	"github.com/daeace23/prober/probe"
)

// Config configures a [Handler]. The zero value is ready to use.
type Config struct {
	// DialContext makes every connection. Nil means a [net.Dialer]. The network is "tcp", or "unix"
	// if the target is a socket.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Compat restores behaviours of the kubelet. These switches have an effect: [probe.CompatLinger],
	// [probe.CompatHostTrouble] and [probe.CompatPortNumbers].
	Compat probe.Compat
}

// Handler is the tcp handler. It neither sends nor reads data. One Handler serves any number of probes.
type Handler struct {
	connector *network.Connector
}

var _ probe.Preparer = (*Handler)(nil)

// New returns the tcp handler.
func New(cfg Config) *Handler {
	return &Handler{network.NewConnector(cfg.DialContext, cfg.Compat)}
}

// Action is the configuration of one probe. The zero value connects to the target of the request.
type Action struct {
	// Host is a name, or an IP address without brackets. Empty means the host of
	// [probe.Request.Target], or the pod's IP.
	Host string
	// Port is from 1 to 65535. 0 means PortName, or if that is empty the port of
	// [probe.Request.Target].
	Port int
	// PortName is the name of a port of [probe.Request.Container]. With [probe.CompatPortNumbers] it may be a
	// decimal number.
	PortName string
}

// Bind returns the handler of one probe. It returns an error for a port that is out of range.
func (h *Handler) Bind(a Action) (probe.Handler, error) {
	port, err := action.NumberOrName(a.Port, a.PortName)
	if err != nil {
		return nil, err
	}
	return &bound{h.connector, network.Place{Host: a.Host, Port: port}}, nil
}

// Prepare binds the handler to config, the JSON of a v1.TCPSocketAction.
func (h *Handler) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	type TCPSocketAction struct { // named as in the Kubernetes API, because errors show the name
		Port action.Port `json:"port"`
		Host string      `json:"host"`
	}
	var a TCPSocketAction
	if err := action.Decode(config, &a); err != nil {
		return nil, err
	}
	return &bound{h.connector, network.Place{Host: a.Host, Port: a.Port, Target: target}}, nil
}

// Probe carries out an attempt at the request's own target.
func (h *Handler) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	return (&bound{connector: h.connector}).Probe(ctx, req)
}

// bound is a Handler with an action; read-only.
type bound struct {
	connector *network.Connector
	place     network.Place
}

var _ probe.Describer = (*bound)(nil)

// Describe implements [probe.Describer].
func (h *bound) Describe(name string, req *probe.Request) string {
	return strings.TrimSpace(name + " " + h.place.Describe(req))
}

func (h *bound) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	at, err := h.connector.Resolve(h.place, &req)
	if err != nil {
		return probe.Outcome{}, err
	}
	start := time.Now()
	if req.Trace != nil {
		return h.traced(ctx, at, &req)
	}
	conn, err := h.connector.Connect(ctx, at)
	out, failed := judge(ctx, conn, err)
	if err != nil {
		network.FailedDial(at, start, err).Explain(ctx, nil, &out)
	}
	return out, failed
}

// traced is like Probe, and traces the attempt.
func (h *bound) traced(ctx context.Context, at network.Endpoint, req *probe.Request) (probe.Outcome, error) {
	p := &network.Progress{Uncounted: true, Traced: true}
	conn, err := p.Connect(ctx, h.connector, at, network.StepDone)
	out, failed := judge(ctx, conn, err)
	p.Emit(req.Trace, req.Debug || err != nil)
	p.Explain(ctx, req.Trace, &out)
	return out, failed
}

// judge returns the outcome for the result of a dial, and closes the connection.
func judge(ctx context.Context, conn net.Conn, err error) (probe.Outcome, error) {
	if err != nil {
		return network.Verdict(ctx, err, err.Error())
	}
	_ = conn.Close() // the probe tests only that the target accepts connections
	return probe.Outcome{Result: probe.Success}, nil
}
