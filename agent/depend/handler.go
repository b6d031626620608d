package depend

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/pods/targets"
	"github.com/daeace23/prober/probe"
)

// Wrap returns the handler of one probe. It records attempts of witnesses, and judges failed attempts by the
// witnesses on which the probe depends.
func (j *Judge) Wrap(h probe.Handler) probe.Handler { return &handler{judge: j, inside: h} }

type handler struct {
	judge  *Judge
	inside probe.Handler
	watch  atomic.Pointer[watch] // nil: the probe has not been a witness
}

// watch is the part of a handler that only witnesses need.
type watch struct {
	flying atomic.Uint64          // number of the attempt under way; 0 for none
	uplink atomic.Pointer[member] // nil: the probe has not been a witness of the network
	own    atomic.Pointer[member] // of the set with the name of its group; nil: it has not been one
	ended  bool                   // Release was called; guarded by [Judge].mu
}

var (
	_ probe.Wrapper  = (*handler)(nil)
	_ probe.Releaser = (*handler)(nil)
)

// Unwrap implements [probe.Wrapper].
func (h *handler) Unwrap() probe.Handler { return h.inside }

// Release implements [probe.Releaser].
func (h *handler) Release() {
	probe.Release(h.inside)
	w, j := h.watched(), h.judge // also for an attempt under way that is the first one of a witness
	j.mu.Lock()
	defer j.mu.Unlock()
	w.ended = true
	for _, m := range []*member{w.uplink.Load(), w.own.Load()} {
		if m != nil {
			j.endLocked(m)
		}
	}
}

func (h *handler) watched() *watch {
	if h.watch.Load() == nil {
		h.watch.CompareAndSwap(nil, new(watch))
	}
	return h.watch.Load()
}

// attempt is an attempt that has ended.
type attempt struct {
	req   *probe.Request
	began uint64 // its number
	err   error

	silence string // why there was no response, if isSilent is set
	failure string // why it failed, if isFailure is set

	isSilent, isFailure bool // see unanswered and failed
}

// Probe implements [probe.Handler].
func (h *handler) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	roles := h.judge.roles.Load()
	if roles == nil || req.Pod == nil {
		return h.inside.Probe(ctx, req)
	}
	r := roles.find(req.Pod.Labels[targets.GroupLabel])
	if r == nil {
		return h.inside.Probe(ctx, req)
	}
	a := attempt{req: &req, began: h.judge.begun.Add(1)}
	out, err := h.call(ctx, r, &a)
	if ctx.Err() == context.Canceled { // nobody uses the result
		return out, err
	}
	a.err = err
	a.silence, a.isSilent = unanswered(ctx, &req, &out, err)
	a.failure, a.isFailure = failed(&req, &out, err)
	if err := h.conclude(r, &a); err != nil {
		return probe.Outcome{}, err
	}
	return out, err
}

// call makes the attempt. Meanwhile a witness has an attempt under way.
func (h *handler) call(ctx context.Context, r *role, a *attempt) (probe.Outcome, error) {
	if r.witnesses != nil || r.own != nil {
		w := h.watched()
		w.flying.Store(a.began)
		defer w.flying.CompareAndSwap(a.began, 0) // fails if the attempt was abandoned
	}
	return h.inside.Probe(ctx, *a.req)
}

// conclude records an attempt, and returns an error if witnesses show that it is not the fault of its target.
func (h *handler) conclude(r *role, a *attempt) error {
	if r.witnesses != nil {
		h.noteWitness(r.witnesses, a)
	}
	if !a.isSilent && !a.isFailure {
		h.noteOwn(r.own, a)
		return nil
	}
	limit := time.Now().Add(patience)
	if a.isSilent && r.uplink != nil && !isLocal(a.req.PodIP) {
		if _, fault := h.judge.ask(limit, a.began, r.uplink); fault != "" {
			return h.lost(r, a, fault)
		}
	}
	h.noteOwn(r.own, a) // before the wait below, because attempts that depend on this one wait for it
	if !a.isFailure || len(r.dependsOn) == 0 {
		return nil
	}
	set, fault := h.judge.ask(limit, a.began, r.dependsOn...)
	if set == nil {
		return nil
	}
	return &probe.Error{Reason: probe.ReasonDependency, Err: fmt.Errorf(
		"depends on %s, which fails: %s; own failure: %s", set.name, fault, clip.Text(a.failure, maxText))}
}

// lost returns the error of an attempt without a response while the network is lost.
func (h *handler) lost(r *role, a *attempt, fault string) error {
	a.isFailure = false
	h.noteOwn(r.own, a)
	return &probe.Error{Reason: probe.ReasonHostNetwork, Err: fmt.Errorf("%s; no witness of the uplink responded: %s", a.silence, fault)}
}

// noteWitness records the attempt of a witness of the uplink. Any response is a success.
func (h *handler) noteWitness(s *set, a *attempt) {
	m := h.member(&h.watched().uplink, s, a.req)
	switch {
	case a.isSilent:
		h.judge.noteFailure(m, a.began, a.req.Redacted(a.silence))
	case a.err != nil: // no request was sent
		h.judge.forget(m)
	default:
		h.judge.noteSuccess(m, a.began)
	}
}

// noteOwn records the attempt of a probe on which others depend. s is nil if none do.
func (h *handler) noteOwn(s *set, a *attempt) {
	switch {
	case s == nil, errors.Is(a.err, probe.ErrNoSlot): // no attempt was made
	case a.isFailure:
		h.judge.noteFailure(h.member(&h.watched().own, s, a.req), a.began, a.req.Redacted(a.failure))
	default:
		h.judge.noteSuccess(h.member(&h.watched().own, s, a.req), a.began)
	}
}

// member returns the member of s in at. If there is none, it adds it.
func (h *handler) member(at *atomic.Pointer[member], s *set, req *probe.Request) *member {
	if m := at.Load(); m != nil && m.set == s {
		return m
	}
	w, j := h.watched(), h.judge
	j.mu.Lock()
	defer j.mu.Unlock()
	old := at.Load()
	switch {
	case old == nil:
	case old.set == s: // added by an abandoned attempt
		return old
	default:
		j.endLocked(old)
	}
	m := &member{
		set: s, pod: req.Pod.Name, watch: w, ended: w.ended,
		key: manager.Key{PodUID: types.UID(req.Pod.UID), Container: req.Container.Name, Kind: req.Kind},
	}
	at.Store(m)
	return m
}
