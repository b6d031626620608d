package cert_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/plugin/plugintest/internal/cert"
)

func TestHandshake(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name   string
		spec   *cert.Spec
		config *tls.Config
		want   string // in the error; "" for none
	}{
		{"valid certificate", cert.Valid(), &tls.Config{ServerName: "db.internal"}, ""},
		{"IP address", &cert.Spec{Names: []string{"10.0.0.7"}, NotAfter: time.Hour}, &tls.Config{ServerName: "10.0.0.7"}, ""},
		{"another name", cert.Valid(), &tls.Config{ServerName: "web"}, "certificate is valid for db.internal, not web"},
		{"expired", &cert.Spec{NotBefore: -2, NotAfter: -time.Hour}, &tls.Config{ServerName: "db.internal"}, "current time 2026-01-02T03:04:05Z is after 2026-01-02T02:04:05Z"},
		{"not yet valid", &cert.Spec{NotBefore: time.Hour}, &tls.Config{ServerName: "db.internal"}, "is before 2026-01-02T04:04:05Z"},
		{"expired, without verification", &cert.Spec{NotAfter: -1}, &tls.Config{InsecureSkipVerify: true}, ""},
		{"error of the case", &cert.Spec{Error: "bad certificate"}, &tls.Config{}, "bad certificate"},
		{"no TLS", nil, &tls.Config{}, "first record does not look like a TLS handshake"},
	} {
		state, err := c.spec.Handshake("tls://db.internal:1", now, c.config)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		if err == nil && len(state.PeerCertificates) != 1 {
			t.Errorf("%s: %d certificates", c.name, len(state.PeerCertificates))
		}
	}
	_, err := cert.Valid().Handshake("tls://a:1", now, &tls.Config{ServerName: "b"})
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
		t.Errorf("got %T, want the error of crypto/tls", err)
	}
}

func TestAuthoritySigns(t *testing.T) {
	ca, err := cert.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	spec := &cert.Spec{Names: []string{"db.internal", "10.0.0.7"}, NotBefore: -time.Hour, NotAfter: time.Hour}
	signed, err := ca.Sign(spec, "db.internal", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(signed.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM)
	if _, err := leaf.Verify(x509.VerifyOptions{DNSName: "db.internal", Roots: roots}); err != nil {
		t.Error(err)
	}
	if left := time.Until(leaf.NotAfter); left < time.Hour || left > time.Hour+time.Minute+time.Second {
		t.Errorf("it is valid for %v, want an hour and the margin", left)
	}
	of := cert.Of(tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}, leaf.NotAfter.Add(-time.Hour))
	if diff := cmp.Diff(spec.Names, of.Names); diff != "" || of.NotAfter != time.Hour {
		t.Errorf("got %+v", of)
	}
}
