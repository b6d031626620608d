package limit

import (
	"context"
	"io"

	"github.com/daeace23/prober/probe"
)

// Handler is a handler whose attempts need a slot of a [Limit]. The same applies to handlers that its Prepare
// returns.
type Handler struct {
	limit   *Limit
	handler probe.Handler
}

var (
	_ probe.ContextPreparer = (*Handler)(nil)
	_ probe.Wrapper         = (*Handler)(nil)
	_ io.Closer             = (*Handler)(nil)
)

// Wrap returns a handler that limits the attempts of h with l. All handlers that Wrap returns share the
// slots.
func (l *Limit) Wrap(h probe.Handler) *Handler { return &Handler{limit: l, handler: h} }

// Probe implements [probe.Handler]. Without a free slot it waits for one, for at most a period of the
// probe. After that its error matches [probe.ErrNoSlot]. The wait can be longer than the timeout only in
// an attempt of a worker, whose timeout can be suspended, see [probe.SuspendTimeout].
func (h *Handler) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	if err := h.limit.acquire(ctx, req.Spec.Period); err != nil {
		return probe.Outcome{}, err
	}
	defer h.limit.release()
	return h.handler.Probe(ctx, req)
}

// Prepare implements [probe.Preparer]. It needs no slot.
func (h *Handler) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	return h.PrepareContext(context.Background(), config, target)
}

// PrepareContext implements [probe.ContextPreparer]. It needs no slot.
func (h *Handler) PrepareContext(ctx context.Context, config []byte, target probe.Target) (probe.Handler, error) {
	prepared, err := probe.Prepare(ctx, h.handler, config, target)
	if err != nil {
		return nil, err
	}
	return h.limit.Wrap(prepared), nil
}

// Unwrap implements [probe.Wrapper].
func (h *Handler) Unwrap() probe.Handler { return h.handler }

// Close implements [io.Closer]. It closes the wrapped handler.
func (h *Handler) Close() error {
	if c, ok := h.handler.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
