package replace

import (
	"context"
	"errors"
	"fmt"

	"github.com/daeace23/prober/probe"
)

// prepared are live probes with their handlers in a generation that is not installed yet.
type prepared map[*bound]probe.Handler

// bringUp prepares all live probes with gen, tries one of them if try is set, and calls
// install with h.mu held. Probes that begin meanwhile are prepared as well. After an error
// nothing has changed. The caller holds h.replacing.
func (h *Handler) bringUp(ctx context.Context, gen *generation, try bool, install func(*generation, prepared) error) error {
	all := make(prepared)
	for ; ; try = false {
		err := prepareEach(ctx, gen.handler, h.unprepared(all), all)
		if err == nil && try {
			err = tryOne(ctx, gen.handler, all)
		}
		done := false
		if err == nil {
			done, err = h.finish(gen, all, install)
		}
		if err != nil {
			return errors.Join(err, abandon(all))
		}
		if done {
			return nil
		}
	}
}

// finish calls install, unless there is a live probe that is not prepared.
func (h *Handler) finish(gen *generation, all prepared, install func(*generation, prepared) error) (done bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return false, ErrClosed
	case len(h.unpreparedLocked(all)) > 0:
		return false, nil
	}
	if err := install(gen, all); err != nil {
		return false, err
	}
	var ended []probe.Handler // of probes that have ended meanwhile
	for b, p := range all {
		if _, ok := h.live[b]; !ok {
			ended = append(ended, p)
		}
	}
	gen.discard(ended...)
	return true, nil
}

func (h *Handler) unprepared(all prepared) []*bound {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unpreparedLocked(all)
}

func (h *Handler) unpreparedLocked(all prepared) (missing []*bound) {
	for b := range h.live {
		if all[b] == nil {
			missing = append(missing, b)
		}
	}
	return missing
}

// prepareEach prepares probes with handler, and adds them to all. Its error says how many
// configs were refused.
func prepareEach(ctx context.Context, handler probe.Handler, probes []*bound, all prepared) error {
	var first error
	refused := 0
	for _, b := range probes {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p, err := b.prepare(handler)
		if err == nil {
			all[b] = p
			continue
		}
		if refused++; first == nil {
			first = b.redactError(err)
		}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, probe.ErrNoSlot) {
			break // each of the others would take as long
		}
	}
	if first != nil {
		return fmt.Errorf("the configs of %d of %d probes are refused: %w", refused, len(probes), first)
	}
	return nil
}

// tryOne tries the handler of one probe. Without a probe it tries one with an empty config,
// if handler accepts that.
func tryOne(ctx context.Context, handler probe.Handler, all prepared) error {
	for b, p := range all {
		if err := try(ctx, p); err != nil {
			return b.redactError(err)
		}
		return nil
	}
	p, err := prepare(handler, []byte("{}"), probe.Target{})
	if err != nil {
		return nil // it needs a config
	}
	defer probe.Release(p)
	return try(ctx, p)
}

func try(ctx context.Context, h probe.Handler) error {
	if t, ok := h.(probe.Trier); ok {
		return t.Try(ctx)
	}
	return nil
}

// installLocked makes gen the active generation, and lets all live probes change over to it.
// The one before is closed after its last attempt. If gen was the shadow, there is none now.
func (h *Handler) installLocked(gen *generation, all prepared) error {
	replaced := h.changeOverLocked(gen, all)
	if h.shadow == gen {
		h.shadow = nil
		gen.discard(h.unbindShadowLocked()...)
	}
	old := h.active
	h.active, h.why = gen, nil
	h.number++
	h.endLocked(old, replaced)
	return nil
}

// withdrawLocked leaves all live probes without a generation and without a shadow.
func (h *Handler) withdrawLocked(why error) {
	h.dropShadowLocked()
	replaced := h.changeOverLocked(nil, nil)
	old := h.active
	h.active, h.why = nil, why
	h.endLocked(old, replaced)
}

// changeOverLocked binds all live probes to gen, which may be nil, and returns the handlers
// that they had.
func (h *Handler) changeOverLocked(gen *generation, all prepared) (replaced []probe.Handler) {
	for b := range h.live {
		var next *binding
		if gen != nil {
			next = &binding{gen, all[b]}
		}
		if old := b.changeOverLocked(next); old != nil {
			replaced = append(replaced, old)
		}
	}
	return replaced
}
