package replace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/daeace23/prober/internal/panics"
	"github.com/daeace23/prober/probe"
)

// prepared maps live probes to their handlers in a generation that is not installed yet.
type prepared map[*bound]probe.Handler

// installer installs a generation while h.mu is held. It returns the handlers that are not used any more.
type installer func(*generation, prepared) (unused []probe.Handler, err error)

// prepareAndInstall prepares all live probes with gen, tries one of them if try is set, and installs gen.
// Probes that are added meanwhile are prepared too. After an error nothing has changed. The caller holds
// h.replacing.
func (h *Handler) prepareAndInstall(ctx context.Context, gen *generation, try bool, install installer) error {
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
			_ = releaseAll(slices.Collect(maps.Values(all)))
			return err
		}
		if done {
			return nil
		}
	}
}

// finish calls install. If there is a live probe that is not prepared, it returns false instead.
func (h *Handler) finish(gen *generation, all prepared, install installer) (done bool, err error) {
	var unused []probe.Handler
	defer func() { _ = releaseAll(unused) }() // after Unlock
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return false, ErrClosed
	case len(h.unpreparedLocked(all)) > 0:
		return false, nil
	}
	if unused, err = install(gen, all); err != nil {
		return false, err
	}
	for b, p := range all {
		if _, ok := h.live[b]; !ok { // the probe has ended meanwhile
			unused = append(unused, p)
		}
	}
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

// prepareEach prepares probes with handler, and adds them to all. Its error has the number of refused
// configs.
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
		if b.awaits() && !unanswered(err) { // no handler has accepted this config yet, so its refusal must not fail the replacement
			all[b] = refusedConfig{b.redactError(err)}
			continue
		}
		if refused++; first == nil {
			first = b.redactError(err)
		}
		if unanswered(err) {
			break // the others would probably time out too
		}
	}
	if first != nil {
		return fmt.Errorf("the configs of %d of %d probes are refused: %w", refused, len(probes), first)
	}
	return nil
}

// awaits reports whether b was bound before there was a handler, and no handler has accepted its config
// since.
func (b *bound) awaits() bool {
	switch b.active.Load().handler.(type) {
	case awaiting, refusedConfig:
		return true
	}
	return false
}

// unanswered reports whether err means that a handler did not decide whether it accepts a config.
func unanswered(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, probe.ErrNoSlot)
}

// tryOne tries the handler of one probe. If there is no probe, it tries a handler with an empty config,
// if handler accepts that.
func tryOne(ctx context.Context, handler probe.Handler, all prepared) error {
	for b, p := range all {
		if err := probe.Try(ctx, p); err != nil {
			return b.redactError(err)
		}
		return nil
	}
	p, err := probe.Prepare(ctx, handler, []byte("{}"), probe.Target{})
	if err != nil {
		return nil // the handler needs a config
	}
	defer probe.Release(p)
	return probe.Try(ctx, p)
}

// installLocked makes gen the active generation. If gen was the shadow, no shadow is left.
func (h *Handler) installLocked(gen *generation, all prepared) (unused []probe.Handler, err error) {
	if h.shadow == gen {
		h.shadow = nil
		unused = h.unbindShadowLocked()
	}
	h.why = nil
	h.number++
	h.changeOverLocked(gen, all)
	return unused, nil
}

// changeOverLocked makes gen, which may be nil, the active generation, and binds all live probes to it.
// It closes the previous generation with [Handler.endLocked].
func (h *Handler) changeOverLocked(gen *generation, all prepared) {
	var replaced []probe.Handler
	for b := range h.live {
		former := b.active.Load()
		if former.gen != nil {
			replaced = append(replaced, former.handler)
		}
		next := &binding{nil, former.handler}
		if gen != nil {
			next = &binding{gen, all[b]}
			if !b.awaits() {
				// A probe that panics inherits nothing. The other probes still change over.
				_ = panics.Call(func() error { probe.Inherit(next.handler, former.handler); return nil })
			}
		}
		b.active.Store(next)
	}
	h.awaits = h.awaits && gen == nil
	old := h.active
	h.active = gen
	h.endLocked(old, replaced)
}
