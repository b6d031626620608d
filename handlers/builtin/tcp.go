package builtin

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/probe"
)

// TCP is the tcp handler: a target to which a connection can be made is a Success.
// Nothing is sent or read.
type TCP struct {
	dial dialFunc
}

var _ probe.Preparer = (*TCP)(nil)

// NewTCP returns the tcp handler.
func NewTCP(cfg Config) *TCP { return &TCP{dial: cfg.dialer()} }

// Prepare binds the handler to config, a v1.TCPSocketAction.
func (h *TCP) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	var action v1.TCPSocketAction
	if err := decode(config, &action); err != nil {
		return nil, err
	}
	return &boundTCP{h.dial, place{action.Host, action.Port, target}}, nil
}

// Probe carries out an attempt at the request's own target.
func (h *TCP) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	return probeUnbound(ctx, h, req)
}

// boundTCP is a TCP with a config; read-only.
type boundTCP struct {
	dial  dialFunc
	place place
}

func (h *boundTCP) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	at, err := h.place.resolve(&req)
	if err != nil {
		return probe.Outcome{}, err
	}
	ctx, phases := newPhases(ctx, req.Trace)
	start := time.Now()
	var failed error
	out, err := h.connect(ctx, at, &failed)
	phases.emit(req.Trace)
	if failed != nil {
		network, address := at.dialed()
		p := &progress{unix: at.unix, at: stepDial, since: start, where: network + " " + address, failed: failed}
		p.explain(ctx, req.Trace, &out)
	}
	return out, err
}

// connect makes a connection and closes it. It sets failed to the error of the dial.
func (h *boundTCP) connect(ctx context.Context, at endpoint, failed *error) (probe.Outcome, error) {
	network, address := at.dialed()
	conn, err := h.dial(ctx, network, address)
	if err != nil {
		*failed = err
		return verdict(ctx, err, err.Error())
	}
	_ = conn.Close() // the target has accepted the connection, which is all that the probe tests
	return probe.Outcome{Result: probe.Success}, nil
}
