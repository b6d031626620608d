package plugintest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"strings"
	"time"
)

const (
	tlsHandshake = 0x16 // first byte of a connection that begins with TLS
	noTLS        = "no TLS is spoken here\r\n"
)

// handshakeFailure is the alert that ends a handshake without saying why.
var handshakeFailure = []byte{0x15, 3, 3, 0, 2, 2, 40}

// authority is of whom the peers of processes have their certificates. It lasts for a file.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// lifetime is how far from now the authority is good for: farther than any certificate is.
const lifetime = 100 // years

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: playedAuthority},
		NotBefore: now.AddDate(-lifetime, 0, 0), NotAfter: now.AddDate(lifetime, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, err
}

// certify makes the certificate that shown asks for. Times to come are by spare farther
// away, so that they are as far as they should be when a process looks at them.
func (a *authority) certify(shown *TLS, host string, spare time.Duration) (tls.Certificate, error) {
	now := time.Now()
	template := shown.certificate(host, now)
	template.NotBefore, template.NotAfter = inSeconds(template.NotBefore, now, spare), inSeconds(template.NotAfter, now, spare)
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// inSeconds is t as certificates can tell it.
func inSeconds(t, now time.Time, spare time.Duration) time.Time {
	if t.After(now) {
		return t.Add(spare + time.Second - 1).Truncate(time.Second)
	}
	return t.Truncate(time.Second)
}

// replay is a connection of which the beginning was read already.
type replay struct {
	net.Conn
	begun []byte
}

// Read implements [net.Conn].
func (r *replay) Read(p []byte) (int, error) {
	if len(r.begun) > 0 {
		n := copy(p, r.begun)
		r.begun = r.begun[n:]
		return n, nil
	}
	return r.Conn.Read(p)
}

// beginsWithTLS reports whether the peer expects a handshake before anything else.
func (c *conn) beginsWithTLS() bool {
	p := c.served()
	return p.Behaviour == "" && strings.HasPrefix(p.Dial, "tls:")
}

// takesAsTLS reports whether data is the beginning of a handshake, rather than something
// that the script waits for.
func (c *conn) takesAsTLS(data []byte) bool {
	c.script.Lock()
	defer c.script.Unlock()
	if c.secured || c.peer.Behaviour != "" || len(data) < 2 || data[0] != tlsHandshake || data[1] != 3 {
		return false
	}
	if c.peer.TLS != nil || c.step >= len(c.peer.Script) || c.peer.Script[c.step].Recv == nil {
		return true
	}
	_, _, err := c.peer.Script[c.step].Recv.match(data)
	return err != nil
}

// upgrade makes the TLS of a connection, whose handshake has begun with first. It reports
// false where there is none to be made.
func (l *loopback) upgrade(w *line, c *conn, first []byte, addr string) bool {
	shown := c.served().TLS
	if shown == nil {
		_, _ = w.Write([]byte(noTLS))
		return false
	}
	secured, err := l.secure(&replay{w.Conn, first}, shown, l.hostAt(addr))
	if err != nil {
		return false
	}
	w.put(secured)
	c.secure()
	return true
}

// secure makes the TLS of a peer that shows a certificate, or fails to.
func (l *loopback) secure(conn *replay, shown *TLS, host string) (*tls.Conn, error) {
	if shown.Error != "" {
		l.mu.Lock()
		l.why[conn.RemoteAddr().String()] = shown.Error
		l.mu.Unlock()
		_, _ = conn.Write(handshakeFailure)
		return nil, errors.New(shown.Error)
	}
	cert, err := l.ca.certify(shown, host, l.spare)
	if err != nil {
		return nil, err
	}
	secured := tls.Server(conn, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		config := &tls.Config{Certificates: []tls.Certificate{cert}}
		if len(hello.SupportedProtos) > 0 {
			config.NextProtos = hello.SupportedProtos[:1]
		}
		return config, nil
	}})
	return secured, secured.HandshakeContext(l.ctx)
}
