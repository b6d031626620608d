package cert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"
)

// Authority signs the certificates that processes see.
type Authority struct {
	PEM []byte // its certificate

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// lifetime is how far from now the authority is valid, in years: longer than any certificate.
const lifetime = 100

// NewAuthority returns an authority with a key of its own.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: issuer},
		NotBefore: now.AddDate(-lifetime, 0, 0), NotAfter: now.AddDate(lifetime, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), cert, key}, err
}

// Sign returns a certificate for a host as s describes it. Future times are later by margin, since
// the process sees the certificate some time after Sign.
func (a *Authority) Sign(s *Spec, host string, margin time.Duration) (tls.Certificate, error) {
	now := time.Now()
	template := s.certificate(host, now)
	template.NotBefore, template.NotAfter = toSeconds(template.NotBefore, now, margin), toSeconds(template.NotAfter, now, margin)
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// toSeconds rounds t to seconds, the precision of a certificate. It rounds a future time up and adds
// margin.
func toSeconds(t, now time.Time, margin time.Duration) time.Time {
	if t.After(now) {
		return t.Add(margin + time.Second - 1).Truncate(time.Second)
	}
	return t.Truncate(time.Second)
}
