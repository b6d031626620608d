package sdk

import (
	"net"

	"github.com/daeace23/prober/internal/abi"
)

// TLSOptions configures TLS: of [StartTLS], of a [Dialer] and of an [HTTPRequest].
type TLSOptions struct {
	ServerName         string   // default: the dialled host
	ALPN               []string // protocols to offer
	InsecureSkipVerify bool     // accept any certificate
	CA                 string   // roots in PEM; default: the system's

	// Credentials is the name of credentials in prober.yaml: a client certificate, authorities or a server
	// name, which a guest never sees. The operator must allow the plugin to use them. A native program has
	// those of [Host].
	Credentials string

	// MinVersion and MaxVersion are "TLS10", "TLS11", "TLS12" or "TLS13". The defaults are those of
	// crypto/tls.
	MinVersion, MaxVersion string
}

// Certificate is a certificate of the peer: its Subject, Issuer, NotBefore, NotAfter, SANs, and
// SHA256 in hexadecimal.
type Certificate = abi.Certificate

// ConnInfo describes a connection: its Network, the addresses Local and Remote, the durations DNS, Connect
// and TLS, and the TLS of the Peer, nil without TLS.
type ConnInfo = abi.ConnInfo

// PeerCertificates returns the certificates of the peer, the leaf first; nil without TLS.
func PeerCertificates(conn net.Conn) ([]Certificate, error) {
	info, err := Inspect(conn)
	if err != nil || info.Peer == nil {
		return nil, err
	}
	return info.Peer.Certificates, nil
}
