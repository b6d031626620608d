package handlers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/daeace23/prober/probe"
)

// generation is one handler behind a [Swap], and the attempts that use it.
type generation struct {
	handler probe.Handler
	users   atomic.Int64  // attempts under way; retired is added when no more may begin
	drained chan struct{} // closed when the last attempt of a retired generation has ended
	once    sync.Once

	faulty atomic.Pointer[error] // the first of release
	hangs  atomic.Bool           // a call of release has not returned
}

// errReleased is the error of a probe that goes on after its end.
var errReleased = errors.New("the probe has ended")

const retired = int64(1) << 62

func newGeneration(h probe.Handler) *generation {
	return &generation{handler: h, drained: make(chan struct{})}
}

// enter counts an attempt in, and reports false when the generation is retired. Every
// enter that reports true is followed by a leave.
func (g *generation) enter() bool {
	if g.users.Add(1) < retired {
		return true
	}
	g.leave()
	return false
}

func (g *generation) leave() {
	if g.users.Add(-1) == retired {
		g.once.Do(func() { close(g.drained) })
	}
}

// retire lets no attempt begin any more. The channel is closed when the last has ended.
func (g *generation) retire() <-chan struct{} {
	if g.users.Add(retired) == retired {
		g.once.Do(func() { close(g.drained) })
	}
	return g.drained
}

// binding is one probe's handler in one generation.
type binding struct {
	gen     *generation
	handler probe.Handler
}

// held is one probe of a [Swap].
type held struct {
	of     *Swap
	config []byte // read-only
	target probe.Target
	bound  atomic.Pointer[binding]             // nil: there is no generation
	shadow atomic.Pointer[shadowBinding]       // nil: there is no shadow
	redact atomic.Pointer[func(string) string] // nil: the config has no secrets, as far as is known
	secret atomic.Pointer[[]string]            // the fields of the config that are; nil as with redact

	inherited int // how often it did, from another probe of a Swap; guarded by of's inheriting

	last probe.Handler // the newest that was bound, when there is no generation; guarded by of's changing
}

var (
	_ probe.Inheritor     = (*held)(nil)
	_ probe.Releaser      = (*held)(nil)
	_ probe.SecretKeeper  = (*held)(nil)
	_ probe.SecretChecker = (*held)(nil)
)

// Probe implements [probe.Handler].
func (h *held) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	if int64(req.Spec.Timeout) > h.of.longest.Load() {
		h.of.note(req.Spec.Timeout) // before it enters: from then on a generation waits for as long
	}
	for {
		b := h.bound.Load()
		if b == nil {
			return probe.Outcome{}, h.of.gone()
		}
		if b.gen.enter() {
			return h.attempt(ctx, b, &req)
		}
		// It was replaced this moment, and h has the next one already, unless it was
		// released: then it gets no other.
		if h.bound.Load() == b {
			return probe.Outcome{}, errReleased
		}
	}
}

// attempt makes an attempt in the generation of b, which it has entered.
func (h *held) attempt(ctx context.Context, b *binding, req *probe.Request) (probe.Outcome, error) {
	defer b.gen.leave()
	if s := h.shadow.Load(); s != nil && req.Attempt <= 1 {
		return s.beside(ctx, b.handler, req)
	}
	return b.handler.Probe(ctx, *req)
}

// Inherit implements [probe.Inheritor]: a probe that is bound anew, since a secret in its
// config is another one, keeps what it has. A handler that is being put in its place gets it
// as well.
func (h *held) Inherit(from probe.Handler) {
	old, ok := from.(*held)
	if !ok {
		return
	}
	h.of.inheriting.Lock()
	defer h.of.inheriting.Unlock()
	heir, former := h.bound.Load(), old.bound.Load()
	if heir == nil || former == nil {
		return
	}
	h.inherited++
	probe.Inherit(heir.handler, former.handler)
}

// predecessor returns what the next handler of h comes after, nil for nothing. The caller
// holds of's changing.
func (h *held) predecessor() probe.Handler {
	if b := h.bound.Load(); b != nil {
		return b.handler
	}
	return h.last
}

// swap lets h go over to next, and returns what it used before, nil for nothing. The
// caller holds of's changing.
func (h *held) swap(next *binding) (replaced probe.Handler) {
	last := h.predecessor()
	if old := h.bound.Swap(next); old != nil {
		replaced = old.handler
	}
	if h.last = nil; next == nil {
		h.last = last
	}
	return replaced
}

// CheckSecrets implements [probe.SecretChecker]: every generation that comes later is asked
// as well.
func (h *held) CheckSecrets(fields []string) error {
	h.secret.Store(&fields)
	if b := h.bound.Load(); b != nil {
		return probe.CheckSecrets(b.handler, fields)
	}
	return nil
}

// KeepSecret implements [probe.SecretKeeper]: every generation may tell of the config, if
// only when it refuses it.
func (h *held) KeepSecret(redact func(text string) string) { h.redact.Store(&redact) }

// hide takes what is secret by now out of a text.
func (h *held) hide(text string) string {
	if redact := h.redact.Load(); redact != nil {
		return (*redact)(text)
	}
	return text
}

func (h *held) redacted(err error) error {
	if h.redact.Load() == nil {
		return err
	}
	return &redactedText{err, h.hide(err.Error())}
}

// prepare prepares h with a handler, which gets to know what is secret before anybody else
// does.
func (h *held) prepare(handler probe.Handler) (probe.Handler, error) {
	prepared, err := prepare(handler, h.config, h.target)
	if err != nil {
		return prepared, err
	}
	if fields := h.secret.Load(); fields != nil {
		if err := probe.CheckSecrets(prepared, *fields); err != nil {
			probe.Release(prepared)
			return nil, err
		}
	}
	if k, ok := prepared.(probe.SecretKeeper); ok {
		k.KeepSecret(h.hide)
	}
	return prepared, nil
}

// Release implements [probe.Releaser]: the config is not held against later generations.
func (h *held) Release() {
	if !h.of.forget(h) {
		return
	}
	if b := h.bound.Load(); b != nil {
		b.gen.release(b.handler)
	}
	if b := h.shadow.Swap(nil); b != nil {
		b.shadow.gen.release(b.handler)
	}
}
