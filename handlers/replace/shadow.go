package replace

import (
	"context"
	"errors"

	"github.com/daeace23/prober/handlers/shadow"
	"github.com/daeace23/prober/probe"
)

// ErrNoShadow is the error of [Handler.Promote] without a shadow.
var ErrNoShadow = errors.New("there is no other version beside it")

// Shadow makes next the shadow: it runs together with the handler of h, on the first attempt of each tick
// and with the same timeout. It neither decides nor delays anything. Its answers are compared, see
// [Handler.Shadowing]. It begins with empty stores, and replaces an existing shadow. As in
// [Handler.Replace], next is first prepared with all live probes and tried. After an error nothing has
// changed, and the caller must close next.
func (h *Handler) Shadow(ctx context.Context, next probe.Handler) error {
	h.replacing.Lock()
	defer h.replacing.Unlock()
	return h.prepareAndInstall(ctx, newGeneration(next), true, h.installShadowLocked)
}

func (h *Handler) installShadowLocked(gen *generation, all prepared) (unused []probe.Handler, err error) {
	if h.active == nil {
		return nil, h.missingLocked()
	}
	h.dropShadowLocked()
	h.shadow = gen
	for b := range h.live {
		b.shadow.Store(&binding{gen, all[b]})
	}
	return nil, nil
}

// bindShadow prepares a new probe with the shadow, if there is one.
func (h *Handler) bindShadow(b *bound) {
	gen := h.currentShadow()
	if gen == nil || !gen.acquire() {
		return
	}
	defer gen.release()
	p, err := b.prepare(gen.handler)
	if err != nil {
		h.compared.Refused() // Promote returns the reason
		return
	}
	if !h.addShadow(b, &binding{gen, p}) {
		probe.Release(p)
	}
}

// addShadow sets the shadow of b. It returns false if b has ended or has a shadow already, or if the
// shadow has been replaced.
func (h *Handler) addShadow(b *bound, s *binding) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, live := h.live[b]
	return live && h.shadow == s.gen && b.shadow.CompareAndSwap(nil, s)
}

// Unshadow ends the shadow, if there is one.
func (h *Handler) Unshadow() {
	h.replacing.Lock()
	defer h.replacing.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropShadowLocked()
}

// Promote makes the shadow the handler that decides, as [Handler.Replace] does with a new handler. After
// an error nothing has changed.
func (h *Handler) Promote(ctx context.Context) error {
	h.replacing.Lock()
	defer h.replacing.Unlock()
	gen := h.currentShadow()
	if gen == nil {
		return ErrNoShadow
	}
	// The probes are prepared again, so that they keep their own stores, not the shadow's.
	return h.prepareAndInstall(ctx, gen, true, h.installLocked)
}

// HasShadow reports whether there is a shadow.
func (h *Handler) HasShadow() bool { return h.currentShadow() != nil }

func (h *Handler) currentShadow() *generation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.shadow
}

// Shadowing returns how the answers of all shadows so far compare with the deciding answers.
func (h *Handler) Shadowing() shadow.Counts { return h.compared.Counts() }

// dropShadowLocked ends the shadow, if there is one.
func (h *Handler) dropShadowLocked() {
	gen := h.shadow
	h.shadow = nil
	h.endLocked(gen, h.unbindShadowLocked())
}

// unbindShadowLocked removes the shadow from all live probes, and returns its handlers.
func (h *Handler) unbindShadowLocked() (probes []probe.Handler) {
	for b := range h.live {
		if s := b.shadow.Swap(nil); s != nil {
			probes = append(probes, s.handler)
		}
	}
	return probes
}
