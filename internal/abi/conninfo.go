package abi

import (
	"maps"
	"slices"
	"time"
)

// ConnInfo describes a connection, as the function info returns it. As JSON:
//
//	{"network": "tcp", "local": "10.0.0.1:4711", "remote": "10.0.0.7:5432",
//	 "timings": {"dns": 0.001, "connect": 0.002, "tls": 0.01},
//	 "tls": {"version": "TLS 1.3", "cipher": "TLS_AES_128_GCM_SHA256", "alpn": "h2", "serverName": "db",
//	         "peer": [{"subject": "CN=db", "issuer": "CN=ca", "notBefore": 1700000000, "notAfter": 1800000000,
//	                   "sans": ["db.internal", "10.0.0.7"], "sha256": "ab12…"}]}}
//
// Timings are in seconds, points in time in seconds since 1970. tls is absent without
// TLS; peer begins with the server's own certificate.
type ConnInfo struct {
	Network           string // "tcp", "udp", "tls" or "unix"
	Local, Remote     string // addresses
	DNS, Connect, TLS time.Duration
	Peer              *TLSInfo // nil without TLS
}

// TLSInfo is what was agreed on in a handshake.
type TLSInfo struct {
	Version, Cipher, ALPN, ServerName string
	Certificates                      []Certificate
}

// Certificate is one of the peer's chain.
type Certificate struct {
	Subject, Issuer     string
	NotBefore, NotAfter time.Time
	SANs                []string
	SHA256              string // of the certificate, hexadecimal
}

// AppendConnInfo appends i to b as JSON.
func AppendConnInfo(b []byte, i *ConnInfo) []byte {
	b = append(b, '{')
	b = appendField(b, "network", i.Network)
	b = appendField(b, "local", i.Local)
	b = appendField(b, "remote", i.Remote)
	b = append(appendName(b, "timings"), '{')
	b = appendSeconds(b, "dns", i.DNS)
	b = appendSeconds(b, "connect", i.Connect)
	if i.Peer != nil {
		b = appendSeconds(b, "tls", i.TLS)
	}
	return append(appendTLSInfo(append(b, '}'), i.Peer), '}')
}

func appendTLSInfo(b []byte, i *TLSInfo) []byte {
	if i == nil {
		return b
	}
	b = append(appendName(b, "tls"), '{')
	b = appendField(b, "version", i.Version)
	b = appendField(b, "cipher", i.Cipher)
	b = appendField(b, "alpn", i.ALPN)
	b = appendField(b, "serverName", i.ServerName)
	b = appendList(b, "peer", len(i.Certificates), func(b []byte, n int) []byte {
		c := &i.Certificates[n]
		b = append(b, '{')
		b = appendField(b, "subject", c.Subject)
		b = appendField(b, "issuer", c.Issuer)
		b = appendInt(b, "notBefore", c.NotBefore.Unix())
		b = appendInt(b, "notAfter", c.NotAfter.Unix())
		b = appendTexts(b, "sans", c.SANs)
		return append(appendField(b, "sha256", c.SHA256), '}')
	})
	return append(b, '}')
}

func (d *decoder) certificate() (Certificate, error) {
	var c Certificate
	texts := textFields{{"subject", &c.Subject}, {"issuer", &c.Issuer}, {"sha256", &c.SHA256}}
	err := d.fields(texts, func(name string) (mine bool, err error) {
		switch name {
		case "sans":
			err = d.texts(&c.SANs)
		case "notBefore":
			err = d.unix(&c.NotBefore)
		case "notAfter":
			err = d.unix(&c.NotAfter)
		default:
			return false, nil
		}
		return true, err
	})
	return c, err
}

func (d *decoder) unix(to *time.Time) error {
	n, err := d.int()
	*to = time.Unix(n, 0)
	return err
}

func appendSeconds(b []byte, name string, d time.Duration) []byte {
	return appendFloat(appendName(b, name), d.Seconds())
}

func appendMap(b []byte, name string, texts map[string]string) []byte {
	if len(texts) == 0 {
		return b
	}
	b = append(appendName(b, name), '{')
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		b = AppendString(appendName(b, key), texts[key])
	}
	return append(b, '}')
}
