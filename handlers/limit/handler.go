package limit

import (
	"context"
	"io"

	"github.com/daeace23/prober/probe"
)

// Handler is a handler whose attempts need a slot of a [Limit]. So do those of the handlers that
// its Prepare returns.
type Handler struct {
	limit   *Limit
	handler probe.Handler
}

var (
	_ probe.ContextPreparer = (*Handler)(nil)
	_ probe.Inheritor       = (*Handler)(nil)
	_ probe.Trier           = (*Handler)(nil)
	_ probe.Releaser        = (*Handler)(nil)
	_ probe.SecretHolder    = (*Handler)(nil)
	_ probe.SecretKeeper    = (*Handler)(nil)
	_ probe.SecretChecker   = (*Handler)(nil)
	_ io.Closer             = (*Handler)(nil)
)

// Wrap returns h with its attempts limited by l. All handlers that Wrap returns share the slots.
func (l *Limit) Wrap(h probe.Handler) *Handler { return &Handler{limit: l, handler: h} }

// Probe implements [probe.Handler]. Without a free slot it waits for one, during a period of the
// probe at most. Then its error matches [probe.ErrNoSlot]. Only in an attempt of a worker, or where
// ctx has a [probe.Suspender] of another caller, may the wait be longer than the timeout.
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

// Inherit implements [probe.Inheritor] for the handler inside.
func (h *Handler) Inherit(from probe.Handler) {
	if old, ok := from.(*Handler); ok {
		from = old.handler
	}
	probe.Inherit(h.handler, from)
}

// Try implements [probe.Trier] for the handler inside. It needs no slot.
func (h *Handler) Try(ctx context.Context) error { return probe.Try(ctx, h.handler) }

// Secrets implements [probe.SecretHolder] for the handler inside.
func (h *Handler) Secrets() []string { return probe.SecretsOf(h.handler) }

// CheckSecrets implements [probe.SecretChecker] for the handler inside.
func (h *Handler) CheckSecrets(fields []string) error {
	return probe.CheckSecrets(h.handler, fields)
}

// KeepSecret implements [probe.SecretKeeper] for the handler inside.
func (h *Handler) KeepSecret(redact func(text string) string) { probe.KeepSecret(h.handler, redact) }

// Release implements [probe.Releaser] for the handler inside.
func (h *Handler) Release() { probe.Release(h.handler) }

// Close implements [io.Closer] for the handler inside.
func (h *Handler) Close() error {
	if c, ok := h.handler.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
