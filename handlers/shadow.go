package handlers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/probe"
)

// Shadowing counts what a shadow said of the same ticks as the handler that decides. The
// numbers are of all shadows that a [Swap] has had.
type Shadowing struct {
	Agree    uint64 // both said the same
	Disagree uint64 // they did not
	Errors   uint64 // the shadow had no verdict where the other had one
	Skipped  uint64 // the shadow made no attempt, since too many were under way
}

// Compared is the number of ticks of which there is something to say.
func (s Shadowing) Compared() uint64 { return s.Agree + s.Disagree + s.Errors }

// Less returns what was counted after earlier.
func (s Shadowing) Less(earlier Shadowing) Shadowing {
	return Shadowing{s.Agree - earlier.Agree, s.Disagree - earlier.Disagree, s.Errors - earlier.Errors, s.Skipped - earlier.Skipped}
}

type shadowCounts struct{ agree, disagree, errors, skipped atomic.Uint64 }

// shadow is a handler that runs beside the one that decides.
type shadow struct {
	of   *Swap
	gen  *generation
	busy atomic.Int64 // attempts under way
}

// shadowBinding is one probe's handler in a shadow.
type shadowBinding struct {
	shadow  *shadow
	handler probe.Handler
}

// ErrNoShadow is the error of [Swap.Promote] without a shadow.
var ErrNoShadow = errors.New("there is no other version beside it")

// Shadow lets h run beside the handler of s, on the first attempt of each tick and with
// its timeout. It decides nothing and delays nothing: its answers are compared, see
// [Swap.Shadowing], and where more than [SwapConfig.ShadowAttempts] are under way it is
// not asked. It begins with empty stores. h is held against all live probes before, as by
// [Swap.Replace], and replaces a shadow that there was. With an error nothing has
// changed, and h is still the caller's to close.
func (s *Swap) Shadow(ctx context.Context, h probe.Handler) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	sh := &shadow{of: s, gen: newGeneration(h)}
	all := make(ready)
	for tried := false; ; tried = true {
		err := prepareEach(ctx, h, s.missing(all), all)
		if err == nil && !tried {
			err = tryOne(ctx, sh.gen, all)
		}
		done := false
		if err == nil {
			done, err = s.installShadow(sh, all)
		}
		if err != nil {
			err = errors.Join(err, sh.gen.abandon(all))
		}
		if done || err != nil {
			return err
		}
	}
}

func (s *Swap) installShadow(sh *shadow, all ready) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return false, ErrSwapClosed
	case s.current == nil:
		return false, s.goneLocked()
	case len(s.missingLocked(all)) > 0:
		return false, nil
	}
	s.dropShadowLocked()
	s.shadow = sh
	s.dropDeadLocked(sh.gen, all)
	for h := range s.live {
		h.shadow.Store(&shadowBinding{sh, all[h]})
	}
	return true, nil
}

// addShadow lets the shadow, if there is one, run beside a new probe as well.
func (s *Swap) addShadow(h *held) {
	s.mu.Lock()
	sh := s.shadow
	if sh == nil || !sh.gen.enter() {
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	defer sh.gen.leave()
	prepared, err := h.prepare(sh.gen.handler)
	if err != nil {
		s.shadowing.errors.Add(1) // and Promote will say why
		return
	}
	if !s.admitShadow(h, sh, prepared) {
		sh.gen.release(prepared)
	}
}

// admitShadow lets sh run beside h, unless one of them has ended meanwhile, or Shadow has
// bound h.
func (s *Swap) admitShadow(h *held, sh *shadow, prepared probe.Handler) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.live[h]; !ok || s.shadow != sh || h.shadow.Load() != nil {
		return false
	}
	h.shadow.Store(&shadowBinding{sh, prepared})
	return true
}

// Unshadow ends the shadow, if there is one. It waits for the end of a [Swap.Promote]:
// what is promoted is not ended.
func (s *Swap) Unshadow() {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropShadowLocked()
}

// Promote makes the shadow the handler that decides, as [Swap.Replace] does with a new
// one. With an error nothing has changed.
func (s *Swap) Promote(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	sh := s.shadow
	s.mu.Unlock()
	if sh == nil {
		return ErrNoShadow
	}
	return s.bringUp(ctx, sh.gen) // bound anew: the stores of the shadow are not those of the probes
}

// ShadowHandler returns the handler that runs beside; nil when there is none.
func (s *Swap) ShadowHandler() probe.Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shadow == nil {
		return nil
	}
	return s.shadow.gen.handler
}

// Shadowing returns what was counted so far.
func (s *Swap) Shadowing() Shadowing {
	c := &s.shadowing
	return Shadowing{c.agree.Load(), c.disagree.Load(), c.errors.Load(), c.skipped.Load()}
}

// dropShadowLocked ends the shadow, if there is one.
func (s *Swap) dropShadowLocked() {
	if sh := s.shadow; sh != nil {
		s.endLocked(sh.gen, s.takeShadowLocked())
	}
}

// takeShadowLocked takes the shadow off all probes, and returns its handlers of them.
func (s *Swap) takeShadowLocked() (prepared []probe.Handler) {
	s.shadow = nil
	for h := range s.live {
		if b := h.shadow.Swap(nil); b != nil {
			prepared = append(prepared, b.handler)
		}
	}
	return prepared
}

// verdictOf returns the word for what an attempt has answered; "" where it says nothing.
func verdictOf(outcome probe.Outcome, err error) string {
	switch {
	case err == nil:
		return outcome.Result.String()
	case errors.Is(err, context.DeadlineExceeded):
		return probe.Failure.String()
	case errors.Is(err, probe.ErrNoSlot), errors.Is(err, context.Canceled):
		return ""
	default:
		return "error"
	}
}

// beside makes an attempt with h, and one with the shadow at the same time.
func (b *shadowBinding) beside(ctx context.Context, h probe.Handler, req *probe.Request) (outcome probe.Outcome, err error) {
	told := b.begin(ctx, *req)
	if told == nil {
		return h.Probe(ctx, *req)
	}
	verdict := ""
	defer func() { told <- verdict }() // also of a handler that panics
	outcome, err = h.Probe(ctx, *req)
	verdict = verdictOf(outcome, err)
	return outcome, err
}

// begin begins an attempt of the shadow, if it may have one, and returns where it is to
// be told the verdict that decides.
func (b *shadowBinding) begin(ctx context.Context, req probe.Request) chan<- string {
	sh := b.shadow
	if sh.busy.Add(1) > int64(sh.of.cfg.ShadowAttempts) {
		sh.busy.Add(-1)
		sh.of.shadowing.skipped.Add(1)
		return nil
	}
	if !sh.gen.enter() {
		sh.busy.Add(-1)
		return nil
	}
	told := make(chan string, 1)
	go b.attempt(context.WithoutCancel(ctx), req, told) // which the end of the generation waits for
	return told
}

// shadowTimeout is the timeout of attempts that have none.
const shadowTimeout = 10 * time.Second

func (b *shadowBinding) attempt(ctx context.Context, req probe.Request, told <-chan string) {
	defer b.shadow.gen.leave()
	mine := b.ask(ctx, req)
	b.shadow.busy.Add(-1)
	theirs, counts := <-told, &b.shadow.of.shadowing
	switch {
	case theirs == "": // a tick that was skipped, or that nobody waits for
	case mine == "":
		counts.skipped.Add(1)
	case mine == theirs:
		counts.agree.Add(1)
	case mine == "error":
		counts.errors.Add(1)
	default:
		counts.disagree.Add(1)
	}
}

// ask returns the shadow's verdict.
func (b *shadowBinding) ask(ctx context.Context, req probe.Request) (verdict string) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(req.Spec.Timeout, shadowTimeout))
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			verdict = verdictOf(probe.Outcome{}, fmt.Errorf("panic: %v", p))
		}
	}()
	req.Trace = nil // what is shown of the tick is what decides
	return verdictOf(b.handler.Probe(ctx, req))
}
