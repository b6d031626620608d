// Package cert has the certificates of simulated peers, and their TLS handshakes. Handshakes are
// simulated for guests (this file), and real on loopback sockets for processes (authority.go).
package cert

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"

	"github.com/daeace23/prober/internal/shape"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
)

// issuer is the common name of the authority of all peers.
const issuer = "a simulated authority"

// Spec describes the certificate that a peer presents in a handshake.
type Spec struct {
	Names     []string      // DNS names and IP addresses; empty means the dialled host
	NotBefore time.Duration // relative to now; usually negative
	NotAfter  time.Duration // relative to now; negative if the certificate has expired
	Error     string        // the handshake fails with this error
}

const day = 24 * time.Hour

// Valid returns a certificate that passes verification.
func Valid() *Spec { return &Spec{NotBefore: -day, NotAfter: 90 * day} }

// Decode returns a function that reads the field tls into to.
func Decode(r *field.Reader, to **Spec) field.Read {
	return func(n *yamlpos.Node, path string) {
		s := Valid()
		*to = s
		r.Mapping(n, path, yamlpos.Fields{
			"names":     func(n *yamlpos.Node, path string) { r.Items(n, path, r.Append(&s.Names)) },
			"notBefore": r.Form(shape.SignedDuration(), field.Parsed(r, &s.NotBefore, time.ParseDuration)),
			"notAfter":  r.Form(shape.SignedDuration(), field.Parsed(r, &s.NotAfter, time.ParseDuration)),
			"error":     r.String(&s.Error),
		})
	}
}

// Doc is the form of a Spec in a session.
type Doc struct {
	Names     field.List    `yaml:"names,omitempty"`
	NotBefore time.Duration `yaml:"notBefore,omitempty"`
	NotAfter  time.Duration `yaml:"notAfter,omitempty"`
	Error     field.Text    `yaml:"error,omitempty"`
}

// Doc returns the form of s in a session; nil if s is nil.
func (s *Spec) Doc() *Doc {
	if s == nil {
		return nil
	}
	return &Doc{s.Names, s.NotBefore, s.NotAfter, field.Text(s.Error)}
}

// Of describes the certificate of the peer in a real handshake.
func Of(state tls.ConnectionState, now time.Time) *Spec {
	s := Valid()
	if len(state.PeerCertificates) == 0 {
		return s
	}
	cert := state.PeerCertificates[0]
	s.NotBefore, s.NotAfter = cert.NotBefore.Sub(now).Round(time.Second), cert.NotAfter.Sub(now).Round(time.Second)
	s.Names = append(s.Names, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		s.Names = append(s.Names, ip.String())
	}
	return s
}

// Handshake verifies the certificate of the peer at rawURL with the time now and a client's config.
// It returns the client's state or error. A nil Spec means that the peer does not speak TLS.
func (s *Spec) Handshake(rawURL string, now time.Time, config *tls.Config) (state tls.ConnectionState, err error) {
	if s == nil {
		return state, errors.New("first record does not look like a TLS handshake")
	}
	if s.Error != "" {
		return state, errors.New(s.Error)
	}
	host := rawURL
	if u, err := url.Parse(rawURL); err == nil {
		host = u.Hostname()
	}
	cert := s.certificate(host, now)
	cert.Raw = []byte(rawURL)
	state = tls.ConnectionState{
		Version: tls.VersionTLS13, CipherSuite: tls.TLS_AES_128_GCM_SHA256, HandshakeComplete: true,
		ServerName: config.ServerName, PeerCertificates: []*x509.Certificate{cert},
	}
	if len(config.NextProtos) > 0 {
		state.NegotiatedProtocol = config.NextProtos[0]
	}
	if config.InsecureSkipVerify {
		return state, nil
	}
	if err := verify(cert, now, config.ServerName); err != nil { // wrapped as crypto/tls does
		return state, &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
	}
	return state, nil
}

// verify checks the times and the name of a certificate, with the errors of crypto/x509.
func verify(cert *x509.Certificate, now time.Time, name string) error {
	expired := func(word string, t time.Time) error {
		detail := fmt.Sprintf("current time %s is %s %s", now.Format(time.RFC3339), word, t.Format(time.RFC3339))
		return x509.CertificateInvalidError{Cert: cert, Reason: x509.Expired, Detail: detail}
	}
	switch {
	case now.Before(cert.NotBefore):
		return expired("before", cert.NotBefore)
	case now.After(cert.NotAfter):
		return expired("after", cert.NotAfter)
	default:
		return cert.VerifyHostname(name)
	}
}

// certificate returns the certificate of a host, without a key or a signature.
func (s *Spec) certificate(host string, now time.Time) *x509.Certificate {
	names := s.Names
	if len(names) == 0 {
		names = []string{host}
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: names[0]}, Issuer: pkix.Name{CommonName: issuer},
		NotBefore: now.Add(s.NotBefore), NotAfter: now.Add(s.NotAfter),
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			cert.IPAddresses = append(cert.IPAddresses, ip)
		} else {
			cert.DNSNames = append(cert.DNSNames, name)
		}
	}
	return cert
}
