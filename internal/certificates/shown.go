package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"github.com/daeace23/prober/internal/handshake"
)

// Shown has the certificates that a server sent in one TLS handshake. It must not be modified.
type Shown struct {
	Sent     []*x509.Certificate   // the server's own comes first
	Verified [][]*x509.Certificate // the verified chains; nil if nothing was verified
	Err      error                 // why the certificates were not verified; nil if they were, or if nobody asked for it
}

// ShownIn returns the certificates of a handshake that ended with state and err. Sent is empty if none arrived.
// state may be nil if err is not.
func ShownIn(state *tls.ConnectionState, err error) Shown {
	if failed, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return Shown{Sent: failed.UnverifiedCertificates, Err: err}
	}
	if err != nil || state == nil {
		return Shown{}
	}
	return Shown{Sent: state.PeerCertificates, Verified: state.VerifiedChains}
}

// Why returns why the certificates were not verified, "" if they were, or if nobody asked for it. now is the time
// of the handshake.
func (s *Shown) Why(now time.Time) string {
	if s.Err == nil {
		return ""
	}
	return Explain(s.Err, now).Error()
}

// FirstToEnd returns the certificate that [Ends] calls chain. Sent must not be empty.
func (s *Shown) FirstToEnd() *x509.Certificate {
	first := firstToEnd(sent(s.Sent).path())
	for i, verified := range s.Verified {
		if end := firstToEnd(verified); i == 0 || end.NotAfter.After(first.NotAfter) {
			first = end
		}
	}
	return first
}

// Observer is an observer of a probe that gets the TLS handshakes of its attempts.
type Observer interface {
	handshake.Watcher
	// Handshook is called for each handshake in which a server showed certificates, before the attempt ends. It
	// must not block. Calls may be concurrent, and may come after the end of the probe from an attempt that
	// ignored its deadline.
	Handshook(s Shown)
}

// Report reports a handshake to the observer of the attempt with the context ctx, if there is one. Handlers call
// it before the attempt ends. It does nothing if no certificate was shown.
func Report(ctx context.Context, s Shown) {
	if len(s.Sent) == 0 {
		return
	}
	if o, ok := ctx.Value(handshake.Key{}).(Observer); ok {
		o.Handshook(s)
	}
}
