// Package uplink tells a target that is down from a host that has lost its network. Targets that the
// operator names are the witnesses of the network. While none of them answers, a target that does not
// answer either has not failed: the attempt is an error with the reason host_network.
//
// An attempt without an answer is a failure if a witness answered last before it began, and answers after it. It
// waits for that: no other probe does, and a host whose targets answer asks the witnesses at their own periods
// only.
package uplink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/pods/targets"
	"github.com/daeace23/prober/probe"
)

const (
	// patience is how long an attempt waits for the witnesses at most. Those that have not answered by
	// then are left out.
	patience = config.MaxWitnessTimeout + time.Second
	// pause is the least time between two requests to ask the witnesses: that many targets are down must
	// not flood them.
	pause = 200 * time.Millisecond
	// settling is how long after the witnesses were named an attempt waits for the first one.
	settling = 15 * time.Second
)

// Uplink knows the witnesses, and what their newest attempts have told.
type Uplink struct {
	trigger func(manager.Key) error  // asks a witness
	groups  atomic.Pointer[[]string] // of targets, which are the witnesses; nil: nothing is judged
	begun   atomic.Uint64            // attempts so far: their numbers tell which began first
	fault   atomic.Pointer[string]   // of a witness, if none has answered in its newest attempt; else nil

	mu     sync.Mutex
	seen   map[manager.Key]seen // of witnesses that answer in time, or fail
	down   uint64               // the number of the newest attempt when there was a fault last; 0: never
	last   string               // that fault
	named  time.Time            // when groups was set
	asked  time.Time            // the last time
	news   chan struct{}        // is closed when one of the fields has changed
	closed bool
}

// seen is the newest attempt of a witness.
type seen struct {
	began uint64 // its number
	pod   string
	fault string // why it has not answered; "": it has
}

// New returns an Uplink without witnesses. trigger has a probe make an attempt at once; it must not block.
func New(trigger func(manager.Key) error) *Uplink {
	return &Uplink{trigger: trigger, seen: make(map[manager.Key]seen), news: make(chan struct{})}
}

// Set replaces the groups of targets that are the witnesses.
func (u *Uplink) Set(groups []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed || slices.Equal(groups, u.witnesses()) {
		return
	}
	u.groups.Store(nil)
	if len(groups) > 0 {
		u.groups.Store(new(slices.Clone(groups)))
	}
	clear(u.seen)
	u.down, u.named = 0, time.Now()
	u.tellLocked()
}

// Close ends every wait for a witness. Nothing is judged any more.
func (u *Uplink) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	u.groups.Store(nil)
	clear(u.seen)
	u.tellLocked()
}

func (u *Uplink) witnesses() []string {
	if groups := u.groups.Load(); groups != nil {
		return *groups
	}
	return nil
}

// Down reports whether there are witnesses, none of which has answered in its newest attempt.
func (u *Uplink) Down() bool { return u.fault.Load() != nil }

// faultSinceLocked returns why no witness has answered in its newest attempt; "" if one has, or if none has made
// one since the attempt with a number began.
func (u *Uplink) faultSinceLocked(began uint64) (fault string) {
	pod := ""
	for _, s := range u.seen {
		switch {
		case s.began < began:
		case s.fault == "":
			return ""
		case pod == "" || s.pod < pod: // always the same one
			pod, fault = s.pod, s.pod+": "+s.fault
		}
	}
	return fault
}

// Wrap returns the handler of one probe. The attempts of a witness are noted, and the attempts of other probes are
// judged by the witnesses.
func (u *Uplink) Wrap(h probe.Handler) probe.Handler { return &handler{uplink: u, inside: h} }

type handler struct {
	uplink *Uplink
	inside probe.Handler

	key atomic.Pointer[manager.Key] // of the witness that it is; nil: it has been none so far
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
	if key := h.key.Load(); key != nil {
		h.uplink.forget(*key)
	}
}

// Probe implements [probe.Handler].
func (h *handler) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	groups := h.uplink.witnesses()
	if len(groups) == 0 || req.Pod == nil {
		return h.inside.Probe(ctx, req)
	}
	began, before := h.uplink.begun.Add(1), h.uplink.fault.Load()
	out, err := h.inside.Probe(ctx, req)
	if group, ok := req.Pod.Labels[targets.GroupLabel]; ok && slices.Contains(groups, group) {
		h.note(ctx, &req, began, out, err)
		return out, err
	}
	text, is := unanswered(ctx, &req, out, err)
	if !is || isLocal(req.PodIP) || ctx.Err() == context.Canceled {
		return out, err
	}
	fault := h.uplink.ask(began, h.uplink.begun.Add(1))
	if fault == "" && before != nil {
		fault = *before // it has come back meanwhile
	}
	if fault == "" {
		return out, err
	}
	return probe.Outcome{}, &probe.Error{Reason: probe.ReasonHostNetwork, Err: fmt.Errorf("%s; no witness of the uplink answered: %s", text, fault)}
}

// unanswered reports whether an attempt may have failed because its host has no network: nothing shows that the
// target has sent anything, or it has not sent all before the deadline. text says how.
func unanswered(ctx context.Context, req *probe.Request, out probe.Outcome, err error) (text string, is bool) {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return probe.TimedOut(req.Spec.Timeout).Output, true // as the worker counts it
	case err != nil:
		return err.Error(), probe.ReasonOf(err) == probe.ReasonHostNetwork
	}
	switch out.Reason {
	case probe.ReasonDNS, probe.ReasonConnectTimeout, probe.ReasonDeadline, probe.ReasonGuest, "":
		return cmp.Or(out.Output, "no answer"), out.Result == probe.Failure
	case probe.ReasonTLS, probe.ReasonProtocol, probe.ReasonBody:
		return out.Output, out.Result == probe.Failure && ctx.Err() != nil
	default:
		return "", false
	}
}

// isLocal reports whether a pod is on this host, which needs no network.
func isLocal(podIP string) bool {
	addr, err := netip.ParseAddr(podIP)
	return podIP == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

func (h *handler) note(ctx context.Context, req *probe.Request, began uint64, out probe.Outcome, err error) {
	key := manager.Key{PodUID: types.UID(req.Pod.UID), Container: req.Container.Name, Kind: req.Kind}
	h.key.Store(&key)
	s := seen{began: began, pod: req.Pod.Name}
	switch text, is := unanswered(ctx, req, out, err); {
	case is:
		s.fault = req.Redacted(text)
	case err != nil: // nothing was asked
		h.uplink.forget(key)
		return
	}
	h.uplink.note(key, s)
}

func (u *Uplink) note(key manager.Key, s seen) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen[key] = s
	u.tellLocked()
}

func (u *Uplink) forget(key manager.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.seen, key)
	u.tellLocked()
}

func (u *Uplink) tellLocked() {
	var now *string
	if fault := u.faultSinceLocked(0); fault != "" {
		now, u.down, u.last = &fault, u.begun.Load(), fault
	}
	u.fault.Store(now) // once: it is read without the mutex
	close(u.news)
	u.news = make(chan struct{})
}

// ask returns why no witness has answered: all of them at a moment since an attempt of a target began, or each
// since it ended. "" means that one has answered since it ended, or that nothing is known. Those witnesses are
// asked that have made no attempt since it ended.
func (u *Uplink) ask(began, ended uint64) string {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		u.mu.Lock()
		v := u.judgeLocked(began, ended)
		news, wait := u.news, pause-time.Since(u.asked)
		if len(v.open) > 0 && wait <= 0 {
			u.asked = time.Now()
		}
		u.mu.Unlock()
		if !v.waits {
			return v.fault
		}
		if wait <= 0 {
			for _, key := range v.open {
				_ = u.trigger(key) // an error means that it has ended
			}
			wait = patience
		}
		again := time.NewTimer(wait)
		select {
		case <-news:
		case <-again.C:
		case <-timeout.C:
			again.Stop()
			return u.giveUp(began, ended)
		}
		again.Stop()
	}
}

// verdict is what the witnesses have told.
type verdict struct {
	fault string        // why none of those has answered that have made an attempt; "" if one has
	open  []manager.Key // those that have made none, unless one has answered
	waits bool          // for open, or for the first witness
}

func (u *Uplink) judgeLocked(began, ended uint64) (v verdict) {
	switch {
	case u.groups.Load() == nil:
		return verdict{}
	case u.down >= began: // also if the network has come back meanwhile
		return verdict{fault: u.last}
	case len(u.seen) == 0:
		return verdict{waits: time.Since(u.named) < settling}
	}
	for key, s := range u.seen {
		switch {
		case s.began < ended:
			v.open, v.waits = append(v.open, key), true
		case s.fault == "":
			return verdict{}
		}
	}
	v.fault = u.faultSinceLocked(ended)
	return v
}

// giveUp returns the verdict without the witnesses that have not answered in time. Nobody waits for those
// again before they have made another attempt: they may be paused.
func (u *Uplink) giveUp(began, ended uint64) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	v := u.judgeLocked(began, ended)
	for _, key := range v.open {
		delete(u.seen, key)
	}
	u.tellLocked()
	return v.fault
}
