// Package certs has the certificates that servers show in the TLS handshakes of probes.
//
// A probe has the certificates of its last tick with a handshake. It loses them when it ends, when a server shows
// others, and when it succeeds without a handshake. Their number for each probe, and their texts, are bounded,
// because servers choose them. A tick with unchanged certificates allocates nothing.
package certs

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"sync"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/certificates"
	"github.com/daeace23/prober/probe"
)

// Board has the certificates of all probes. It is safe for concurrent use.
type Board struct {
	mu      sync.Mutex
	known   map[fingerprint]*known // the certificates in use
	watches map[*watch]struct{}    // the probes with certificates
}

type fingerprint [sha256.Size]byte

// known is a certificate that one or more probes see.
type known struct {
	api.Certificate // without DaysLeft and the fields about probes; read-only
	sum             fingerprint
	uses            int // guarded by Board.mu
}

// New returns an empty board.
func New() *Board {
	return &Board{known: make(map[fingerprint]*known), watches: make(map[*watch]struct{})}
}

// Observe implements [worker.Observer].
func (b *Board) Observe(i worker.Info) worker.ProbeObserver {
	pod := i.PodMeta
	if pod == nil {
		pod = &probe.Pod{Namespace: i.Namespace, Name: i.Pod, UID: i.PodUID}
	}
	return &watch{board: b, Probe: Probe{pod, i.Container, i.Kind}}
}

// is reports whether k is cert.
func (k *known) is(cert *x509.Certificate) bool { return k.sum == sha256.Sum256(cert.Raw) }

// use returns what is known of a certificate. The caller calls drop when it does not need it any more.
func (b *Board) use(cert *x509.Certificate) *known {
	d := certificates.Describe(cert)
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.known[d.SHA256]
	if k == nil {
		k = &known{sum: d.SHA256, Certificate: api.Certificate{
			Subject: d.Subject, Names: d.Names, MoreNames: d.MoreNames, Issuer: d.Issuer, NotBefore: d.NotBefore.UTC(), NotAfter: d.NotAfter.UTC(),
			Serial: d.Serial, SHA256: hex.EncodeToString(d.SHA256[:]),
		}}
		b.known[k.sum] = k
	}
	k.uses++
	return k
}

// drop ends the use of certificates.
func (b *Board) drop(all []*known) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range all {
		if k.uses--; k.uses == 0 {
			delete(b.known, k.sum)
		}
	}
}

// list adds a probe to the probes with certificates, or removes it.
func (b *Board) list(w *watch, has bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if has {
		b.watches[w] = struct{}{}
	} else {
		delete(b.watches, w)
	}
}

// all returns the probes with certificates.
func (b *Board) all() []*watch {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]*watch, 0, len(b.watches))
	for w := range b.watches {
		all = append(all, w)
	}
	return all
}
