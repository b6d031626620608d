//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// authority signs certificates for db.internal. pem is its own certificate.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0), IsCA: true, BasicConstraintsValid: true,
	}
	der, key := a.create(t, template)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a.cert, a.key, a.pem = cert, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return a
}

// create returns a certificate. It is self-signed if there is no authority.
func (a *authority) create(t *testing.T, template *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, parentKey := a.cert, a.key
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

// write writes server.crt and server.key to a folder, for a certificate that expires after some days
// and an hour.
func (a *authority) write(t *testing.T, dir string, days int) {
	t.Helper()
	der, key := a.create(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "db.internal"}, DNSNames: []string{"db.internal"},
		NotBefore: time.Now().AddDate(-1, 0, 0), NotAfter: time.Now().Add(time.Duration(days)*24*time.Hour + time.Hour),
	})
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"server.crt": {Type: "CERTIFICATE", Bytes: der},
		"server.key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// openssl starts OpenSSL's server with a certificate that expires after some days.
func openssl(t *testing.T, a *authority, days int) string {
	t.Helper()
	dir := t.TempDir()
	a.write(t, dir, days)
	address := freeAddress(t)
	listening(t, address, exec.Command("openssl", "s_server", "-accept", address, "-quiet",
		"-cert", filepath.Join(dir, "server.crt"), "-key", filepath.Join(dir, "server.key")))
	return address
}

// TestTLSExpiry probes OpenSSL, and PostgreSQL, which needs a request before TLS.
func TestTLSExpiry(t *testing.T) {
	t.Parallel()
	a, stranger := newAuthority(t), newAuthority(t)
	good := openssl(t, a, 90)
	config := func(fields map[string]any) string {
		doc, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return string(doc)
	}
	trusted := config(map[string]any{"ca": a.pem, "serverName": "db.internal"})
	for _, c := range []struct{ name, address, config, result, text string }{
		{"long valid certificate", good, trusted, "success", "CN=db.internal ends in 90 days"},
		{"ends soon", openssl(t, a, 14), trusted, "warning", "CN=db.internal ends in 14 days"},
		{"ends too soon", openssl(t, a, 3), trusted, "failure", "CN=db.internal ends in 3 days"},
		{"has ended", openssl(t, a, -5), trusted, "failure", "CN=db.internal ended 4 days ago"},
		{"expired, not verified", openssl(t, a, -5), `{"verify":"none"}`, "failure", "CN=db.internal ended 4 days ago"},
		{"another name", good, config(map[string]any{"ca": a.pem}), "failure", "CN=db.internal ends in 90 days"},
		{"another authority", good, config(map[string]any{"ca": stranger.pem, "serverName": "db.internal"}),
			"failure", "certificate signed by unknown authority"},
		{"no TLS", saying(t, "220 mail.example.com\r\n"), trusted, "failure", "does not look like a TLS handshake"},
		{"connection refused", freeAddress(t), trusted, "failure", "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, code := probePlugin(t, "tls-expiry", c.address, c.config)
			want(t, v, code, c.result, c.text)
		})
	}
	t.Run("postgres", func(t *testing.T) {
		v, code := probePlugin(t, "tls-expiry", securePostgres(t, a),
			config(map[string]any{"ca": a.pem, "serverName": "db.internal", "starttls": "postgres"}))
		want(t, v, code, "success", "CN=db.internal ends in 60 days")
	})
}

// securePostgres starts PostgreSQL with a certificate that expires after 60 days.
func securePostgres(t *testing.T, a *authority) string {
	t.Helper()
	data := filepath.Join(dataFolder(t), "data")
	run(t, pg(t, "initdb", "-D", data, "-U", "postgres", "--no-sync", "--locale=C", "-E", "UTF8"))
	a.write(t, data, 60)
	if os.Getuid() == 0 {
		uid, gid := nobody(t)
		for _, name := range []string{"server.crt", "server.key"} {
			if err := os.Chown(filepath.Join(data, name), uid, gid); err != nil {
				t.Fatal(err)
			}
		}
	}
	address, _ := serve(t, data, "ssl=on")
	return address
}
