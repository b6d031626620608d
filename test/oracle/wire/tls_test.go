package wire

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"
)

// certificate returns a self-signed certificate, with the changes of change.
func certificate(key crypto.Signer, change func(*x509.Certificate)) tls.Certificate {
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if change != nil {
		change(c)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		panic(fmt.Sprintf("certificate: %v", err))
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

var (
	ecdsaKey = sync.OnceValue(func() crypto.Signer {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			panic(err)
		}
		return key
	})
	// The signatures of this kind of key all have the same length.
	ed25519Key = sync.OnceValue(func() crypto.Signer {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			panic(err)
		}
		return key
	})
	rsaKey = sync.OnceValue(func() crypto.Signer {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		return key
	})
	ecdsaCertificate = sync.OnceValue(func() tls.Certificate { return certificate(ecdsaKey(), nil) })
)

// certified returns the TLS config of a server that offers protocols.
func certified(protocols ...string) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{ecdsaCertificate()}, NextProtos: protocols}
}
