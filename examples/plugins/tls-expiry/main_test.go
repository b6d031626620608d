package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk/sdktest"
)

var suite = sdktest.NewSuite(check{})

func TestMain(m *testing.M) { suite.Main(m) }

// TestCases runs the cases natively, for coverage and for a debugger, and in the sandbox with
// the conformance checks, as prober plugin test does.
func TestCases(t *testing.T) { suite.Run(t) }

// signer is a certificate that signs others.
type signer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// sign returns a certificate that expires after a time. Without names, it is the certificate of an
// authority. If s is nil, it is the root.
func (s *signer) sign(t *testing.T, subject string, left time.Duration, names ...string) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: subject}, DNSNames: names,
		NotBefore: time.Now().Add(-1000 * day), NotAfter: time.Now().Add(left + time.Hour),
		IsCA: len(names) == 0, BasicConstraintsValid: true,
	}
	parent, parentKey := cert, key
	if s != nil {
		parent, parentKey = s.cert, s.key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return &signer{cert, key}
}

// config returns a config of the plugin that trusts s.
func (s *signer) config(t *testing.T, more map[string]any) string {
	t.Helper()
	config := map[string]any{"serverName": "db.internal"}
	config["ca"] = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.cert.Raw}))
	maps.Copy(config, more)
	doc, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

// listen starts a server with a chain of certificates, optionally after a greeting.
func listen(t *testing.T, before func(net.Conn) error, leaf *signer, chain ...*signer) probe.Target {
	t.Helper()
	shown := tls.Certificate{Certificate: [][]byte{leaf.cert.Raw}, PrivateKey: leaf.key}
	for _, s := range chain {
		shown.Certificate = append(shown.Certificate, s.cert.Raw)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				if before != nil && before(conn) != nil {
					return
				}
				secured := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{shown}})
				if secured.Handshake() == nil {
					_, _ = io.Copy(io.Discard, secured)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return probe.Target{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port}
}

func attempt(t *testing.T, h probe.Preparer, config string, target probe.Target) probe.Outcome {
	t.Helper()
	out, err := sdktest.Attempt(t, h, config, target, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Real chains, which the simulated peers of the cases do not have.
func TestChains(t *testing.T) {
	var none *signer
	root := none.sign(t, "root", 1000*day)
	other := none.sign(t, "other", 1000*day)
	middle := root.sign(t, "middle", 200*day)
	leaf := middle.sign(t, "leaf", 90*day, "db.internal")
	old := root.sign(t, "middle", 10*day)
	for _, c := range []struct {
		name   string
		target probe.Target
		config string
		want   probe.Result
		output string
		days   int
	}{
		{"the leaf ends first", listen(t, nil, leaf, middle), root.config(t, nil), probe.Success, "CN=leaf ends in 90 days", 90},
		{"an intermediate ends first", listen(t, nil, old.sign(t, "leaf", 90*day, "db.internal"), old), root.config(t, nil),
			probe.Warning, "CN=middle ends in 10 days", 10},
		{"an intermediate that no chain needs", listen(t, nil, root.sign(t, "leaf", 90*day, "db.internal"), old), root.config(t, nil),
			probe.Success, "CN=leaf ends in 90 days", 90},
		{"an intermediate that is not looked at", listen(t, nil, old.sign(t, "leaf", 90*day, "db.internal"), old),
			root.config(t, map[string]any{"certificates": "leaf"}), probe.Success, "CN=leaf ends in 90 days", 90},
		{"an authority that is not trusted", listen(t, nil, leaf, middle), other.config(t, nil),
			probe.Failure, "signed by unknown authority", 90},
		{"an intermediate that is missing", listen(t, nil, leaf), root.config(t, nil), probe.Failure, "signed by unknown authority", 90},
		{"another name", listen(t, nil, leaf, middle), root.config(t, map[string]any{"serverName": "web.internal"}),
			probe.Failure, "not web.internal; CN=leaf ends in 90 days", 90},
		{"a leaf that has ended", listen(t, nil, middle.sign(t, "leaf", -3*day, "db.internal"), middle), root.config(t, nil),
			probe.Failure, "CN=leaf ended 2 days ago", -2},
		{"TLS after a greeting", listen(t, greet, leaf, middle), root.config(t, map[string]any{"starttls": "pop3"}),
			probe.Success, "CN=leaf ends in 90 days", 90},
	} {
		t.Run(c.name, func(t *testing.T) {
			for kind, h := range suite.Handlers() {
				got := attempt(t, h, c.config, c.target)
				if got.Result != c.want || !strings.Contains(got.Output, c.output) {
					t.Errorf("%s: got %v %q, want %v %q", kind, got.Result, got.Output, c.want, c.output)
				}
				if days := got.Metrics[0]; days.Name != "earliest_expiry_days" || int(days.Value) != c.days {
					t.Errorf("%s: got %+v, want %d days", kind, days, c.days)
				}
			}
		})
	}
}

// greet is the part of a POP3 server before TLS.
func greet(conn net.Conn) error {
	if _, err := io.WriteString(conn, "+OK ready\r\n"); err != nil {
		return err
	}
	line := make([]byte, len("STLS\r\n"))
	if _, err := io.ReadFull(conn, line); err != nil || string(line) != "STLS\r\n" {
		return fmt.Errorf("got %q, %v", line, err)
	}
	_, err := io.WriteString(conn, "+OK begin\r\n")
	return err
}
