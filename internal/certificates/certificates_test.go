package certificates_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/internal/certificates"
)

const day = 24 * time.Hour

// now is later than the certificates' begin, so that they can end before it.
var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// entity is a certificate with its key.
type entity struct {
	*x509.Certificate
	key *ecdsa.PrivateKey
}

// issue returns a certificate that issuer signs, or that is self-signed if issuer is nil. It ends after left.
func issue(t *testing.T, issuer *entity, name string, left time.Duration) *entity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return reissue(t, issuer, &entity{key: key}, name, left)
}

// reissue is like issue, with the key of another certificate.
func reissue(t *testing.T, issuer, of *entity, name string, left time.Duration) *entity {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-365 * day), NotAfter: now.Add(left), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true, IsCA: !strings.Contains(name, "."),
	}
	if !template.IsCA {
		template.DNSNames = []string{name}
	}
	if left > 3650*day {
		template.NotBefore = now.Add(3 * day)
	}
	if issuer == nil {
		issuer = &entity{template, of.key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.Certificate, of.key.Public(), issuer.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &entity{cert, of.key}
}

// shake makes a handshake with a server that sends certificates, and returns the state or error of the client.
func shake(t *testing.T, config *tls.Config, sent ...*entity) (tls.ConnectionState, error) {
	t.Helper()
	own := tls.Certificate{PrivateKey: sent[0].key}
	for _, cert := range sent {
		own.Certificate = append(own.Certificate, cert.Raw)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if there, err := l.Accept(); err == nil {
			_, _ = io.Copy(io.Discard, there)
			there.Close()
		}
	}()
	here, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	config.Time = func() time.Time { return now }
	client := tls.Client(here, config)
	err = client.Handshake()
	return client.ConnectionState(), err
}

func pool(roots ...*entity) *x509.CertPool {
	p := x509.NewCertPool()
	for _, root := range roots {
		p.AddCert(root.Certificate)
	}
	return p
}

// Reported as blackbox_exporter 885.
func TestExplainNamesCertificateAtFault(t *testing.T) {
	root, other := issue(t, nil, "shop root", 3000*day), issue(t, nil, "other root", 3000*day)
	inter := issue(t, root, "shop ca", 300*day)
	leaf := issue(t, inter, "shop.test", 30*day)
	oldRoot := issue(t, nil, "shop root", 3000*day)
	for _, c := range []struct {
		name string
		sent []*entity
		root *entity
		want string
	}{
		{"expired", []*entity{issue(t, inter, "shop.test", -2*day-time.Hour), inter}, root, `: certificate 1 of 2, "CN=shop.test", ended 2 days ago`},
		{"alone and expired", []*entity{issue(t, root, "shop.test", -time.Hour)}, root, `: certificate "CN=shop.test" ended 60 minutes ago`},
		{"not yet valid", []*entity{issue(t, inter, "shop.test", 3651*day), inter}, root, `: certificate 1 of 2, "CN=shop.test", begins in 3 days`},
		{"expired intermediate", func() []*entity {
			old := reissue(t, root, inter, "shop ca", -5*time.Hour)
			return []*entity{leaf, old}
		}(), root, `: certificate 2 of 2, "CN=shop ca", ended 5 hours ago`},
		{"expired and self-signed", []*entity{issue(t, nil, "shop.test", -3*day)}, nil, `: certificate "CN=shop.test" ended 3 days ago`},
		{"self-signed", []*entity{issue(t, nil, "shop.test", 30*day)}, root, `unknown authority: self-signed certificate "CN=shop.test"`},
		{"missing intermediate", []*entity{leaf}, root, `unknown authority: the server does not send the intermediate "CN=shop ca", or this is an authority that is not trusted`},
		{"unrelated intermediate", []*entity{leaf, issue(t, root, "mail ca", 30*day)}, root, `: the server does not send the intermediate "CN=shop ca", or`},
		{"unknown authority", []*entity{leaf, inter}, other, `certificate signed by unknown authority "CN=shop root"`},
		{"unknown authority that is sent", []*entity{leaf, inter, root}, other, `certificate signed by unknown authority "CN=shop root"`},
		{"authority with another key", []*entity{issue(t, oldRoot, "shop.test", 30*day)}, root, `certificate "shop root"): "CN=shop root" is not a trusted authority`},
		{"wrong name", []*entity{issue(t, inter, "mail.test", 30*day), inter}, root, `certificate is valid for mail.test, not shop.test`},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := &tls.Config{ServerName: "shop.test", RootCAs: x509.NewCertPool()}
			if c.root != nil {
				config.RootCAs = pool(c.root)
			}
			_, err := shake(t, config, c.sent...)
			got := certificates.Explain(err, now)
			if got == nil || !strings.HasPrefix(got.Error(), "tls: failed to verify certificate: x509: ") || !strings.Contains(got.Error(), c.want) {
				t.Errorf("got %v, want %s", got, c.want)
			}
			if _, ok := errors.AsType[*tls.CertificateVerificationError](got); !ok {
				t.Errorf("%v does not wrap the error of the handshake", got)
			}
		})
	}
}

func TestExplainKeepsOtherErrors(t *testing.T) {
	if err := certificates.Explain(io.EOF, now); err != io.EOF {
		t.Error(err)
	}
}

// TestEndsOfVerifiedChain has a server that still sends an expired cross-certificate of its root.
func TestEndsOfVerifiedChain(t *testing.T) {
	root, old := issue(t, nil, "new root", 3000*day), issue(t, nil, "old root", 3000*day)
	inter := issue(t, root, "shop ca", 40*day)
	leaf := issue(t, inter, "shop.test", 80*day)
	cross := reissue(t, old, root, "new root", -100*day)
	for _, c := range []struct {
		name   string
		config *tls.Config
		sent   []*entity
		chain  string
	}{
		{"expired cross-certificate", &tls.Config{RootCAs: pool(root)}, []*entity{leaf, inter, cross}, `certificate 2 of 3, "CN=shop ca", ends in 40 days`},
		{"expired cross-certificate of two roots", &tls.Config{RootCAs: pool(root, old)}, []*entity{leaf, inter, cross}, `certificate 2 of 3, "CN=shop ca", ends in 40 days`},
		{"root that ends first", &tls.Config{RootCAs: pool(reissue(t, nil, root, "new root", 5*day))}, []*entity{leaf, inter}, `root certificate "CN=new root" ends in 5 days`},
		{"no verification", &tls.Config{InsecureSkipVerify: true}, []*entity{leaf, inter, issue(t, nil, "unrelated", day)}, `certificate 2 of 3, "CN=shop ca", ends in 40 days`},
		{"no verification, and the better of two", &tls.Config{InsecureSkipVerify: true}, []*entity{leaf, reissue(t, old, inter, "shop ca", -day), inter}, `certificate 3 of 3, "CN=shop ca", ends in 40 days`},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.config.ServerName = "shop.test"
			state, err := shake(t, c.config, c.sent...)
			if err != nil {
				t.Fatal(err)
			}
			chain, own := certificates.Ends(&state, now)
			if chain.Text != c.chain || !strings.Contains(own.Text, `"CN=shop.test", ends in 80 days`) || !own.NotAfter.Equal(leaf.NotAfter) {
				t.Errorf("got %q and %q, want %q", chain.Text, own.Text, c.chain)
			}
		})
	}
}

func TestTextsAreBounded(t *testing.T) {
	leaf := issue(t, nil, strings.Repeat("x\x1b", 500)+".test", 30*day)
	_, err := shake(t, &tls.Config{ServerName: "shop.test", RootCAs: x509.NewCertPool()}, leaf)
	detail := strings.TrimPrefix(certificates.Explain(err, now).Error(), err.Error())
	if len(detail) > 600 || strings.ContainsRune(detail, '\x1b') {
		t.Errorf("%d bytes: %q", len(detail), detail)
	}
}
