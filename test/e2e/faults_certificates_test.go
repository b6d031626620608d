//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// issuer is a certificate that can sign others.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue returns a certificate that ends after some days. It is self-signed if by is nil, and an authority if name
// has no dot.
func issue(t *testing.T, by *issuer, name string, days int) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, BasicConstraintsValid: true, IsCA: filepath.Ext(name) == "",
		NotBefore: time.Now().AddDate(-1, 0, 0), NotAfter: time.Now().Add(time.Duration(days)*24*time.Hour - time.Hour),
	}
	if !cert.IsCA {
		cert.DNSNames = []string{name}
	}
	parent, signer := cert, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return &issuer{cert, key}
}

func (i *issuer) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.cert.Raw}))
}

// certificateFiles are what a server needs. Everybody can read them.
type certificateFiles struct {
	chain, key string
	both       string // chain and key in one file
}

// shopCertificates are chains for shop.test by their faults, and the trusted root.
type shopCertificates struct {
	root  string // PEM
	files map[string]certificateFiles
}

// The names of certificates.
const (
	goodCert, soonCert, expiredCert, selfSignedCert = "good", "ends soon", "expired", "self-signed"
	wrongNameCert, noIntermediate, unknownAuthority = "wrong name", "missing intermediate", "unknown authority"
)

func newShopCertificates(t *testing.T) *shopCertificates {
	t.Helper()
	root, other := issue(t, nil, "shop root", 3000), issue(t, nil, "other root", 3000)
	ca, strange := issue(t, root, "shop ca", 300), issue(t, other, "other ca", 300)
	leaf := issue(t, ca, "shop.test", 90)
	all := &shopCertificates{root.pem(), make(map[string]certificateFiles)}
	dir := dataFolder(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, chain := range map[string][]*issuer{
		goodCert:         {leaf, ca},
		soonCert:         {issue(t, ca, "shop.test", 5), ca},
		expiredCert:      {issue(t, ca, "shop.test", -2), ca},
		selfSignedCert:   {issue(t, nil, "shop.test", 90)},
		wrongNameCert:    {issue(t, ca, "mail.test", 90), ca},
		noIntermediate:   {leaf},
		unknownAuthority: {issue(t, strange, "shop.test", 90), strange},
	} {
		all.files[name] = writeChain(t, filepath.Join(dir, name), chain)
	}
	return all
}

// writeChain writes the files of a chain. Their names begin with path.
func writeChain(t *testing.T, path string, chain []*issuer) certificateFiles {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(chain[0].key)
	if err != nil {
		t.Fatal(err)
	}
	var certs string
	for _, i := range chain {
		certs += i.pem()
	}
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	f := certificateFiles{path + ".crt", path + ".key", path + ".pem"}
	for name, text := range map[string]string{f.chain: certs, f.key: key, f.both: certs + key} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// tls returns the config of a shipped plugin that trusts the root and wants shop.test, with more fields.
func (c *shopCertificates) tls(fields object) object {
	config := object{"tlsConfig": object{"serverName": "shop.test", "ca": c.root}, "certificateAge": object{"warn": "336h", "fail": "24h"}}
	maps.Copy(config, fields)
	return config
}

// faults returns the rows of servers with each certificate at their addresses. A message about a failed handshake
// begins with prefix, and a success is good.
func (c *shopCertificates) faults(at map[string]string, probe object, prefix, good string) (rows []fault) {
	prefix += "tls: failed to verify certificate: x509: "
	for name, cause := range map[string]string{
		expiredCert:      prefix + `certificate has expired or is not yet valid: current time … is after …: certificate 1 of 2, "CN=shop.test", ended 2 days ago`,
		selfSignedCert:   prefix + `certificate signed by unknown authority: self-signed certificate "CN=shop.test"`,
		wrongNameCert:    prefix + `certificate is valid for mail.test, not shop.test`,
		noIntermediate:   prefix + `certificate signed by unknown authority: the server does not send the intermediate "CN=shop ca", or this is an authority that is not trusted`,
		unknownAuthority: prefix + `certificate signed by unknown authority "CN=other root"`,
	} {
		rows = append(rows, fault{name, at[name], probe, "failure", cause})
	}
	return append(rows,
		fault{"certificate that ends soon", at[soonCert], probe, "warning", `certificate 1 of 2, "CN=shop.test", ends in 4 days, less than 336h`},
		fault{"good certificate", at[goodCert], probe, "success", good})
}
