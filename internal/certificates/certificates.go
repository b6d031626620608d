// Package certificates describes the certificates of servers for people: which of them is at fault, and when
// they end. Its functions may be called concurrently.
package certificates

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/clip"
)

// Error is the error of a certificate that was not verified. It wraps the error of the handshake.
type Error struct {
	err    error
	detail string
}

func (e *Error) Error() string { return e.err.Error() + e.detail }
func (e *Error) Unwrap() error { return e.err }

// Explain adds to the error of a handshake which certificate is at fault, and why. It returns other errors
// unchanged. now is the time at which the certificates were verified.
func Explain(err error, now time.Time) error {
	failed, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok || len(failed.UnverifiedCertificates) == 0 {
		return err
	}
	if detail := explain(sent(failed.UnverifiedCertificates), failed.Err, now); detail != "" {
		return &Error{err, detail}
	}
	return err
}

// explain returns the text to append to a verification error, or "".
func explain(certs sent, err error, now time.Time) string {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Cert != nil {
		if invalid.Reason == x509.Expired {
			return ": " + certs.ends(invalid.Cert, now)
		}
		return ": " + certs.name(invalid.Cert)
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return certs.explainUnknown(err, now)
	}
	return ""
}

// explainUnknown returns why the chain of the server does not end at a trusted authority.
func (s sent) explainUnknown(err error, now time.Time) string {
	path := s.path()
	for _, cert := range path { // crypto/x509 reports an expired intermediate as an unknown authority
		if now.After(cert.NotAfter) || now.Before(cert.NotBefore) {
			return ": " + s.ends(cert, now)
		}
	}
	last := path[len(path)-1]
	issuer := distinguished(last.Issuer.String())
	switch {
	case len(path) == 1 && isSelfSigned(last):
		return ": self-signed certificate " + subject(last)
	case len(path) == 1 && err.Error() == (x509.UnknownAuthorityError{}).Error():
		return fmt.Sprintf(": the server does not send the intermediate %s, or this is an authority that is not trusted", issuer)
	case strings.HasSuffix(err.Error(), ")"): // with the authority that crypto/x509 tried
		return fmt.Sprintf(": %s is not a trusted authority", issuer)
	default:
		return " " + issuer
	}
}

// End is the certificate that ends first, and its end.
type End struct {
	NotAfter time.Time // zero without a certificate
	// Text has the certificate and its end relative to now, such as
	// `certificate 2 of 3, "CN=ca", ends in 4 days`.
	Text string
}

// Ends returns when the certificates of a completed handshake end. leaf is the server's own certificate. chain
// is the first certificate to end in the verified chain that lasts longest. Without verification, the chain is
// the one from the server's certificate through those that it sent. Other certificates do not count.
func Ends(state *tls.ConnectionState, now time.Time) (chain, leaf End) {
	certs := sent(state.PeerCertificates)
	if len(certs) == 0 {
		return End{}, End{}
	}
	shown := ShownIn(state, nil)
	return certs.end(shown.FirstToEnd(), now), certs.end(certs[0], now)
}

func firstToEnd(chain []*x509.Certificate) *x509.Certificate {
	return slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
}

// sent are the certificates that a server sent. Its own comes first.
type sent []*x509.Certificate

// maxPath is the greatest length of a path of certificates.
const maxPath = 10

// path returns the chain of the server's certificate through the certificates that it sent. Of several
// certificates of an issuer, it has the one that lasts longest.
func (s sent) path() []*x509.Certificate {
	path := []*x509.Certificate{s[0]}
	for len(path) < maxPath {
		last := path[len(path)-1]
		var next *x509.Certificate
		for _, cert := range s {
			if isIssuer(cert, last) && !slices.Contains(path, cert) && (next == nil || cert.NotAfter.After(next.NotAfter)) {
				next = cert
			}
		}
		if next == nil {
			break
		}
		path = append(path, next)
	}
	return path
}

// isIssuer reports whether the names and key identifiers say that issuer signed cert.
func isIssuer(issuer, cert *x509.Certificate) bool {
	if len(cert.RawIssuer) == 0 || !bytes.Equal(issuer.RawSubject, cert.RawIssuer) {
		return false
	}
	return len(cert.AuthorityKeyId) == 0 || len(issuer.SubjectKeyId) == 0 || bytes.Equal(cert.AuthorityKeyId, issuer.SubjectKeyId)
}

func isSelfSigned(cert *x509.Certificate) bool {
	return bytes.Equal(cert.RawIssuer, cert.RawSubject) && cert.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature) == nil
}

func (s sent) end(cert *x509.Certificate, now time.Time) End {
	return End{cert.NotAfter, s.ends(cert, now)}
}

// ends returns the name of cert, and when it ends or begins.
func (s sent) ends(cert *x509.Certificate, now time.Time) string {
	name := s.name(cert)
	if strings.Contains(name, ", ") {
		name += ","
	}
	switch {
	case now.Before(cert.NotBefore):
		return fmt.Sprintf("%s begins in %s", name, span(cert.NotBefore.Sub(now)))
	case now.After(cert.NotAfter):
		return fmt.Sprintf("%s ended %s ago", name, span(now.Sub(cert.NotAfter)))
	default:
		return fmt.Sprintf("%s ends in %s", name, span(cert.NotAfter.Sub(now)))
	}
}

// name returns the position and subject of a certificate.
func (s sent) name(cert *x509.Certificate) string {
	i := slices.IndexFunc(s, func(c *x509.Certificate) bool { return c == cert || c.Raw != nil && c.Equal(cert) })
	switch {
	case i < 0:
		return "root certificate " + subject(cert)
	case len(s) == 1:
		return "certificate " + subject(cert)
	default:
		return fmt.Sprintf("certificate %d of %d, %s", i+1, len(s), subject(cert))
	}
}

// subject returns the subject of a certificate in quotes; without one, its first name or its serial number.
func subject(cert *x509.Certificate) string {
	name := cert.Subject.String()
	if name == "" && len(cert.DNSNames) > 0 {
		name = cert.DNSNames[0]
	}
	if name == "" && len(cert.IPAddresses) > 0 {
		name = cert.IPAddresses[0].String()
	}
	if name == "" && cert.SerialNumber != nil {
		name = "serial number " + hex.EncodeToString(cert.SerialNumber.Bytes())
	}
	return distinguished(name)
}

// maxName is the greatest length of a name in bytes.
const maxName = 120

func distinguished(name string) string { return fmt.Sprintf("%q", clip.Text(name, maxName)) }

// span returns a duration in the largest unit of which there are at least two.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", d/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d minutes", d/time.Minute)
	default:
		return fmt.Sprintf("%d seconds", d/time.Second)
	}
}
