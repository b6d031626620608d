package certs

import (
	"slices"
	"sync"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/certificates"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/probe"
)

// Limits of what one probe keeps. Its servers choose the certificates.
const (
	maxChains = 4   // handshakes with different certificates in one tick
	maxChain  = 5   // certificates of a handshake, the server's own first
	maxWhy    = 300 // bytes
)

// Probe identifies a probe.
type Probe struct {
	Pod       *probe.Pod // read-only
	Container string
	Kind      probe.Kind
}

// watch observes one probe.
type watch struct {
	board *Board
	Probe

	mu     sync.Mutex
	closed bool
	chains []chain // different ones
}

var (
	_ worker.ProbeObserver  = (*watch)(nil)
	_ certificates.Observer = (*watch)(nil)
)

// chain has the certificates of a handshake.
type chain struct {
	certs        []*known
	sent         int // number of certificates; certs has the first maxChain
	verification string
	why          string // why they are not verified
	first        span   // of the first certificate to end
	seen         time.Time
	fresh        bool // seen since the last tick
}

// span is the time in which a certificate is valid.
type span struct{ begin, end time.Time }

// WatchHandshakes implements [handshake.Watcher].
func (*watch) WatchHandshakes() {}

// Handshook implements [certificates.Observer].
func (w *watch) Handshook(s certificates.Shown) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	i, fresh := -1, 0
	for at := range w.chains {
		c := &w.chains[at]
		if c.fresh {
			fresh++
		}
		if c.has(&s) {
			i = at
		}
	}
	if i < 0 {
		if fresh == maxChains {
			return
		}
		if len(w.chains) == 0 {
			w.board.list(w, true)
		}
		i, w.chains = len(w.chains), append(w.chains, w.board.chainOf(&s))
	}
	w.chains[i].see(&s, now)
}

// chainOf returns the certificates of a handshake.
func (b *Board) chainOf(s *certificates.Shown) chain {
	c := chain{sent: len(s.Sent)}
	for _, cert := range s.Sent[:min(len(s.Sent), maxChain)] {
		c.certs = append(c.certs, b.use(cert))
	}
	return c
}

// has reports whether s shows the certificates of c.
func (c *chain) has(s *certificates.Shown) bool {
	if len(s.Sent) != c.sent {
		return false
	}
	for i, k := range c.certs {
		if !k.is(s.Sent[i]) {
			return false
		}
	}
	return true
}

// see records a handshake with the certificates of c. Of several in one tick, the one that says most counts: a plugin
// may connect again without verification to learn more.
func (c *chain) see(s *certificates.Shown, now time.Time) {
	verification := api.NotChecked
	switch {
	case s.Err != nil:
		verification = api.NotVerified
	case s.Verified != nil:
		verification = api.Verified
	}
	if !c.fresh || api.Outranks(verification, c.verification) {
		if verification != c.verification {
			first := s.FirstToEnd()
			c.verification, c.first = verification, span{first.NotBefore, first.NotAfter}
		}
		c.why = clip.Text(s.Why(now), maxWhy)
	}
	c.seen, c.fresh = now, true
}

// Tick implements [worker.ProbeObserver]. It drops the certificates that were not seen in the tick, if others were,
// or if the probe needed none to succeed.
func (w *watch) Tick(t *worker.Tick) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.chains) == 0 {
		return
	}
	succeeded := t.Err == nil && (t.Outcome.Result == probe.Success || t.Outcome.Result == probe.Warning)
	if succeeded || slices.ContainsFunc(w.chains, func(c chain) bool { return c.fresh }) {
		w.dropLocked(func(fresh bool) bool { return !fresh })
	}
	for i := range w.chains {
		w.chains[i].fresh = false
	}
}

// Skipped implements [worker.ProbeObserver].
func (*watch) Skipped(worker.SkipReason, int) {}

// Close implements [worker.ProbeObserver].
func (w *watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.dropLocked(func(bool) bool { return true })
}

// dropLocked drops the chains for which drop returns true. It gets chain.fresh.
func (w *watch) dropLocked(drop func(fresh bool) bool) {
	if len(w.chains) == 0 {
		return
	}
	w.chains = slices.DeleteFunc(w.chains, func(c chain) bool {
		if !drop(c.fresh) {
			return false
		}
		w.board.drop(c.certs)
		return true
	})
	if len(w.chains) == 0 {
		w.chains = nil
		w.board.list(w, false)
	}
}

// sighting is a certificate that a probe sees.
type sighting struct {
	known *known
	probe api.CertificateProbe
}

// sightings returns the certificates that the probe sees, each once: where the verification says most.
func (w *watch) sightings() (all []sighting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.chains {
		c := &w.chains[i]
		for at, k := range c.certs {
			s := sighting{k, api.CertificateProbe{
				Namespace: w.Pod.Namespace, Pod: w.Pod.Name, Container: w.Container, Kind: w.Kind.String(),
				Position: at + 1, Sent: c.sent, Verification: c.verification, Why: c.why, Seen: c.seen.UTC(),
			}}
			had := slices.IndexFunc(all, func(o sighting) bool { return o.known == k })
			switch {
			case had < 0:
				all = append(all, s)
			case api.Outranks(s.probe.Verification, all[had].probe.Verification):
				all[had] = s
			}
		}
	}
	return all
}

// span returns the time in which the certificates of the probe are valid: the span of the first one to end.
func (w *watch) span() (first span, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.chains {
		if c := &w.chains[i]; i == 0 || c.first.end.Before(first.end) {
			first = c.first
		}
	}
	return first, len(w.chains) > 0
}
