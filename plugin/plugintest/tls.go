package plugintest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"syscall"
	"time"
)

// secured is a connection after a handshake.
type secured struct {
	*conn
	state tls.ConnectionState
}

// ConnectionState returns what the handshake showed.
func (s *secured) ConnectionState() tls.ConnectionState { return s.state }

// handshake plays a handshake: no bytes flow, and the certificate is held against the
// clock and the name that config has.
func (n *network) handshake(ctx context.Context, raw net.Conn, config *tls.Config) (net.Conn, error) {
	c, ok := raw.(*conn)
	if !ok {
		return nil, fmt.Errorf("TLS over a connection of type %T", raw)
	}
	if n.over() {
		return nil, opError("read", c.addr.network, c.addr.addr, os.ErrDeadlineExceeded)
	}
	served := c.served()
	shown := served.TLS
	switch served.Behaviour {
	case HalfOpen:
		n.clock.Wait(ctx, nil, -1)
		return nil, opError("read", c.addr.network, c.addr.addr, dialError(ctx))
	case ResetNow:
		return nil, opError("read", c.addr.network, c.addr.addr, syscall.ECONNRESET)
	case Garbage:
		shown = nil
	}
	state, err := shown.shake(served.Dial, n.clock.Now(), config)
	if err != nil {
		return nil, err
	}
	c.secure()
	return &secured{c, state}, nil
}

// shake is what a handshake with a peer at rawURL shows.
func (shown *TLS) shake(rawURL string, now time.Time, config *tls.Config) (state tls.ConnectionState, err error) {
	if shown == nil {
		return state, errors.New("first record does not look like a TLS handshake")
	}
	if shown.Error != "" {
		return state, errors.New(shown.Error)
	}
	host := rawURL
	if u, err := url.Parse(rawURL); err == nil {
		host = u.Hostname()
	}
	cert := shown.certificate(host, now)
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
	told := func(word string, t time.Time) error {
		detail := fmt.Sprintf("current time %s is %s %s", now.Format(time.RFC3339), word, t.Format(time.RFC3339))
		return x509.CertificateInvalidError{Cert: cert, Reason: x509.Expired, Detail: detail}
	}
	switch {
	case now.Before(cert.NotBefore):
		err = told("before", cert.NotBefore)
	case now.After(cert.NotAfter):
		err = told("after", cert.NotAfter)
	default:
		err = cert.VerifyHostname(config.ServerName)
	}
	if err != nil { // as crypto/tls has it
		err = &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
	}
	return state, err
}

// playedAuthority is of whom peers have their certificates.
const playedAuthority = "a played authority"

// certificate is what is shown by a host.
func (shown *TLS) certificate(host string, now time.Time) *x509.Certificate {
	names := shown.Names
	if len(names) == 0 {
		names = []string{host}
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: names[0]}, Issuer: pkix.Name{CommonName: playedAuthority},
		NotBefore: now.Add(shown.NotBefore), NotAfter: now.Add(shown.NotAfter),
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
