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
func (n *network) handshake(_ context.Context, raw net.Conn, config *tls.Config) (net.Conn, error) {
	c, ok := raw.(*conn)
	if !ok {
		return nil, fmt.Errorf("TLS over a connection of type %T", raw)
	}
	shown := c.peer.TLS
	if shown == nil {
		return nil, errors.New("first record does not look like a TLS handshake")
	}
	if shown.Error != "" {
		return nil, errors.New(shown.Error)
	}
	names := shown.Names
	if u, err := url.Parse(c.peer.Dial); err == nil && len(names) == 0 {
		names = []string{u.Hostname()}
	}
	now := n.clock.Now()
	cert := &x509.Certificate{
		Raw: []byte(c.peer.Dial), SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: names[0]},
		Issuer: pkix.Name{CommonName: "a played authority"}, NotBefore: now.Add(shown.NotBefore), NotAfter: now.Add(shown.NotAfter),
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			cert.IPAddresses = append(cert.IPAddresses, ip)
		} else {
			cert.DNSNames = append(cert.DNSNames, name)
		}
	}
	state := tls.ConnectionState{
		Version: tls.VersionTLS13, CipherSuite: tls.TLS_AES_128_GCM_SHA256, HandshakeComplete: true,
		ServerName: config.ServerName, PeerCertificates: []*x509.Certificate{cert},
	}
	if len(config.NextProtos) > 0 {
		state.NegotiatedProtocol = config.NextProtos[0]
	}
	if config.InsecureSkipVerify {
		return &secured{c, state}, nil
	}
	if now.Before(cert.NotBefore) || now.After(cert.NotAfter) {
		return nil, x509.CertificateInvalidError{Cert: cert, Reason: x509.Expired}
	}
	if err := cert.VerifyHostname(config.ServerName); err != nil {
		return nil, err
	}
	return &secured{c, state}, nil
}
