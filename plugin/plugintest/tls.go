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
	names := shown.Names
	if u, err := url.Parse(rawURL); err == nil && len(names) == 0 {
		names = []string{u.Hostname()}
	}
	cert := &x509.Certificate{
		Raw: []byte(rawURL), SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: names[0]},
		Issuer: pkix.Name{CommonName: "a played authority"}, NotBefore: now.Add(shown.NotBefore), NotAfter: now.Add(shown.NotAfter),
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			cert.IPAddresses = append(cert.IPAddresses, ip)
		} else {
			cert.DNSNames = append(cert.DNSNames, name)
		}
	}
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
	if now.Before(cert.NotBefore) || now.After(cert.NotAfter) {
		return state, x509.CertificateInvalidError{Cert: cert, Reason: x509.Expired}
	}
	return state, cert.VerifyHostname(config.ServerName)
}
