// Package uplink distinguishes a target that is down from a host that has lost its network. The operator
// names targets that are the witnesses of the network. While no witness responds, a target that does not
// respond has not failed: the attempt is an error with the reason host_network.
//
// An attempt without a response is a failure if a witness responded last before it began, and responds after
// it. The attempt waits for that response; no other probe does. While targets respond, the witnesses are
// probed at their own periods only.
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
	// patience is how long an attempt waits for the witnesses. Witnesses without a response by then are
	// ignored.
	patience = config.MaxWitnessTimeout + time.Second
	// pause is the minimum time between two requests to probe the witnesses, so that many failing targets do
	// not flood them.
	pause = 200 * time.Millisecond
	// settling is how long an attempt waits for the first witness after the witnesses were set.
	settling = 15 * time.Second
)

// Uplink has the witnesses, and the results of their newest attempts.
type Uplink struct {
	trigger func(manager.Key) error  // requests an attempt of a witness
	groups  atomic.Pointer[[]string] // target groups of the witnesses; nil: nothing is judged
	begun   atomic.Uint64            // counter of attempts: their numbers order their begins
	fault   atomic.Pointer[string]   // of a witness, if no witness responded in its newest attempt; else nil

	mu     sync.Mutex
	seen   map[manager.Key]seen // newest attempts of witnesses
	down   uint64               // number of the newest attempt when there last was a fault; 0: never
	last   string               // the last fault
	named  time.Time            // when groups was set
	asked  time.Time            // when witnesses were last triggered
	news   chan struct{}        // closed when one of the fields changes
	closed bool
}

// seen is the newest attempt of a witness.
type seen struct {
	began uint64 // number of the attempt
	pod   string
	fault string // why it has no response; "" if it has one
}

// New returns an Uplink without witnesses. trigger requests an immediate attempt of a probe; it must not
// block.
func New(trigger func(manager.Key) error) *Uplink {
	return &Uplink{trigger: trigger, seen: make(map[manager.Key]seen), news: make(chan struct{})}
}

// Set replaces the target groups of the witnesses.
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

// Close ends every wait for a witness. Attempts are not judged after Close.
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

// Down reports whether there are witnesses, and none responded in its newest attempt.
func (u *Uplink) Down() bool { return u.fault.Load() != nil }

// faultSinceLocked returns the fault of a witness if no witness responded in its newest attempt. It returns
// "" if one responded, or if none has made an attempt since attempt number began started.
func (u *Uplink) faultSinceLocked(began uint64) (fault string) {
	pod := ""
	for _, s := range u.seen {
		switch {
		case s.began < began:
		case s.fault == "":
			return ""
		case pod == "" || s.pod < pod: // choose the same witness each time
			pod, fault = s.pod, s.pod+": "+s.fault
		}
	}
	return fault
}

// Wrap returns the handler of one probe. It records attempts of witnesses, and judges attempts of other
// probes by the witnesses.
func (u *Uplink) Wrap(h probe.Handler) probe.Handler { return &handler{uplink: u, inside: h} }

type handler struct {
	uplink *Uplink
	inside probe.Handler

	key atomic.Pointer[manager.Key] // key of the witness; nil: it has not been a witness
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
	text, isUnanswered := unanswered(ctx, &req, out, err)
	if !isUnanswered || isLocal(req.PodIP) || ctx.Err() == context.Canceled {
		return out, err
	}
	fault := h.uplink.ask(began, h.uplink.begun.Add(1))
	if fault == "" && before != nil {
		fault = *before // the network came back meanwhile
	}
	if fault == "" {
		return out, err
	}
	return probe.Outcome{}, &probe.Error{Reason: probe.ReasonHostNetwork, Err: fmt.Errorf("%s; no witness of the uplink responded: %s", text, fault)}
}

// unanswered reports whether an attempt may have failed because its host has no network: there is no sign of
// a response from the target, or the response was incomplete at the deadline. text describes the failure.
func unanswered(ctx context.Context, req *probe.Request, out probe.Outcome, err error) (text string, ok bool) {
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

// isLocal reports whether a pod is on this host, so that its probes need no network.
func isLocal(podIP string) bool {
	addr, err := netip.ParseAddr(podIP)
	return podIP == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

func (h *handler) note(ctx context.Context, req *probe.Request, began uint64, out probe.Outcome, err error) {
	key := manager.Key{PodUID: types.UID(req.Pod.UID), Container: req.Container.Name, Kind: req.Kind}
	h.key.Store(&key)
	s := seen{began: began, pod: req.Pod.Name}
	switch text, isUnanswered := unanswered(ctx, req, out, err); {
	case isUnanswered:
		s.fault = req.Redacted(text)
	case err != nil: // no request was sent
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
	u.fault.Store(now) // a single store, as it is read without the mutex
	close(u.news)
	u.news = make(chan struct{})
}

// ask returns why no witness has responded, for an attempt of a target that began and ended with these
// numbers. All witnesses must have failed at one moment since it began, or each since it ended. ask returns
// "" if a witness has responded since the attempt ended, or if nothing is known. It triggers witnesses
// without an attempt since then.
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
				_ = u.trigger(key) // an error means that the witness has ended
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

// verdict is the judgement from the results of the witnesses.
type verdict struct {
	fault string        // fault, if all witnesses with an attempt failed; else ""
	open  []manager.Key // witnesses without an attempt, unless one has responded
	waits bool          // wait for open, or for the first witness
}

func (u *Uplink) judgeLocked(began, ended uint64) (v verdict) {
	switch {
	case u.groups.Load() == nil:
		return verdict{}
	case u.down >= began: // also if the network came back meanwhile
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

// giveUp returns the verdict without the witnesses that have not responded in time. No attempt waits for them
// again before their next attempt, as they may be paused.
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
