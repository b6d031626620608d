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

// prepared are live probes with their handlers in a generation that is not installed yet.
type prepared map[*bound]probe.Handler

// installer installs a generation with h.mu held, and returns the handlers of probes that are
// no longer used.
type installer func(*generation, prepared) (unused []probe.Handler, err error)

// prepareAndInstall prepares all live probes with gen, tries one of them if try is set, and installs
// gen. Probes that begin meanwhile are prepared as well. After an error nothing has changed.
// The caller holds h.replacing.
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

// finish calls install, unless there is a live probe that is not prepared.
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
		if _, ok := h.live[b]; !ok { // it has ended meanwhile
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
		if b.awaits() && !unanswered(err) { // nobody has accepted its config, so it stops no other probe
			all[b] = refusedConfig{b.redactError(err)}
			continue
		}
		if refused++; first == nil {
			first = b.redactError(err)
		}
		if unanswered(err) {
			break // each of the others would take as long
		}
	}
	if first != nil {
		return fmt.Errorf("the configs of %d of %d probes are refused: %w", refused, len(probes), first)
	}
	return nil
}

// awaits reports whether b was bound before there was a handler, and none has accepted its config since.
func (b *bound) awaits() bool {
	switch b.active.Load().handler.(type) {
	case awaiting, refusedConfig:
		return true
	}
	return false
}

// unanswered reports whether a handler has not answered whether it accepts a config.
func unanswered(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, probe.ErrNoSlot)
}

// tryOne tries the handler of one probe. Without a probe it tries one with an empty config,
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
		return nil // it needs a config
	}
	defer probe.Release(p)
	return probe.Try(ctx, p)
}

// installLocked makes gen the active generation. If it was the shadow, there is none now.
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

// changeOverLocked makes gen, which may be nil, the active generation, and binds all live
// probes to it. The one before is closed by [Handler.endLocked].
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
				// One that panics has inherited nothing, and the other probes change over too.
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
