package abi

import "time"

// ConnInfo describes a connection, as the function info returns it. As JSON:
//
//	{"network": "tcp", "local": "10.0.0.1:4711", "remote": "10.0.0.7:5432",
//	 "timings": {"dns": 0.001, "connect": 0.002, "tls": 0.01},
//	 "tls": {"version": "TLS 1.3", "cipher": "TLS_AES_128_GCM_SHA256", "alpn": "h2", "serverName": "db",
//	         "peer": [{"subject": "CN=db", "issuer": "CN=ca", "notBefore": 1700000000, "notAfter": 1800000000,
//	                   "sans": ["db.internal", "10.0.0.7"], "sha256": "ab12…", "serial": "0a1b"}],
//	         "chainNotAfter": 1800000000,
//	         "chainEndsAt": 1800000000, "chainEnd": "certificate \"CN=db\" ends in 4 days",
//	         "leafEnd": "certificate \"CN=db\" ends in 4 days"}}
//
// Timings are in seconds, and dates in seconds since 1970. tls is absent without TLS. peer
// begins with the server's own certificate. chainNotAfter is the latest expiry of a verified chain, or 0 if
// nothing was verified. A chain expires with its first certificate that expires.
type ConnInfo struct {
	Network           string // "tcp", "udp", "tls" or "unix"
	Local, Remote     string // addresses
	DNS, Connect, TLS time.Duration
	Peer              *TLSInfo // nil without TLS
}

// TLSInfo describes a completed TLS handshake.
type TLSInfo struct {
	Version, Cipher, ALPN, ServerName string
	Certificates                      []Certificate
	ChainNotAfter                     int64 // seconds since 1970
	// ChainEndsAt is the end of the first certificate to end of the verified chain that lasts longest, in seconds since
	// 1970. If nothing was verified, the chain is the one of the certificates that the server sent.
	ChainEndsAt int64
	// ChainEnd and LeafEnd name that certificate and the server's own for people, with their ends relative to the
	// handshake.
	ChainEnd, LeafEnd string
}

// Certificate is a certificate of the peer's chain.
type Certificate struct {
	Subject, Issuer     string
	NotBefore, NotAfter time.Time
	SANs                []string
	SHA256              string // digest of the certificate, in hexadecimal
	Serial              string // hexadecimal
}

func (i *ConnInfo) fields() []field {
	return []field{
		{"network", &i.Network}, {"local", &i.Local}, {"remote", &i.Remote},
		{"timings", []field{{"dns", &i.DNS}, {"connect", &i.Connect}, {"tls", (*handshake)(i)}}},
		{"tls", &i.Peer},
	}
}

// handshake is the TLS handshake's duration in a [ConnInfo], if there is one.
type handshake ConnInfo

func (i *TLSInfo) fields() []field {
	return []field{
		{"version", &i.Version}, {"cipher", &i.Cipher}, {"alpn", &i.ALPN}, {"serverName", &i.ServerName},
		{"peer", listOf(&i.Certificates, 0, (*Certificate).fields)}, {"chainNotAfter", &i.ChainNotAfter},
		{"chainEndsAt", &i.ChainEndsAt}, {"chainEnd", &i.ChainEnd}, {"leafEnd", &i.LeafEnd},
	}
}

func (c *Certificate) fields() []field {
	return []field{
		{"subject", &c.Subject}, {"issuer", &c.Issuer}, {"notBefore", &c.NotBefore}, {"notAfter", &c.NotAfter},
		{"sans", &c.SANs}, {"sha256", &c.SHA256}, {"serial", &c.Serial},
	}
}
