package sdk

import (
	"net"

	"github.com/daeace23/prober/internal/abi"
)

// TLSOptions is how [StartTLS] secures a connection.
type TLSOptions struct {
	ServerName         string   // "": the host that was dialled
	ALPN               []string // protocols to offer
	InsecureSkipVerify bool     // take any certificate
	CA                 string   // PEM, in place of the system's roots; "": those
}

// Certificate is one that the other side of a connection showed: its Subject, Issuer,
// NotBefore, NotAfter, SANs and SHA256 in hexadecimal.
type Certificate = abi.Certificate

// ConnInfo is what is known of a connection: its Network, the addresses Local and Remote,
// how long DNS, Connect and TLS took, and in Peer, which is nil without TLS, the other side.
type ConnInfo = abi.ConnInfo

// PeerCertificates tells what the other side of a connection with TLS showed, its own
// certificate first; nothing without TLS.
func PeerCertificates(conn net.Conn) ([]Certificate, error) {
	info, err := Inspect(conn)
	if err != nil || info.Peer == nil {
		return nil, err
	}
	return info.Peer.Certificates, nil
}
