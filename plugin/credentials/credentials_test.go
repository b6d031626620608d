package credentials_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/plugin/credentials"
)

// write writes a new certificate of that name, and its key.
func write(t *testing.T, dir, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file(t, dir, "cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	file(t, dir, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func file(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "first")
	var s credentials.Store
	if _, err := s.TLS("httpcheck", "client"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v from an empty store", err)
	}
	client := config.Credentials{Name: "client", CA: "cert.pem", Cert: "cert.pem", Key: "key.pem", ServerName: "db", Plugins: []string{"httpcheck"}}
	s.Set(filepath.Join(dir, "prober.yaml"), []config.Credentials{client})
	for _, c := range [][2]string{{"expect", "client"}, {"httpcheck", "other"}, {"*", "client"}, {"", ""}} {
		if _, err := s.TLS(c[0], c[1]); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%q: got %v", c, err)
		}
	}
	holder := func() string {
		t.Helper()
		got, err := s.TLS("httpcheck", "client")
		if err != nil {
			t.Fatal(err)
		}
		if got.ServerName != "db" || got.RootCAs == nil || got.InsecureSkipVerify {
			t.Errorf("got %+v", got)
		}
		return got.Certificates[0].Leaf.Subject.CommonName
	}
	if got := holder(); got != "first" {
		t.Errorf("got %s", got)
	}
	write(t, dir, "second")
	if got := holder(); got != "second" {
		t.Errorf("got %s after a renewal", got)
	}
	file(t, dir, "key.pem", []byte("half of a ke"))
	if got := holder(); got != "second" {
		t.Errorf("got %s in the middle of a renewal", got)
	}
}

func TestUnusableFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a")
	file(t, dir, "empty.pem", nil)
	for _, c := range []struct {
		entry config.Credentials
		want  string
	}{
		{config.Credentials{CA: "gone.pem"}, "gone.pem: no such file or directory"},
		{config.Credentials{CA: "."}, "not a regular file"},
		{config.Credentials{CA: "empty.pem"}, "empty.pem has no certificate in PEM"},
		{config.Credentials{Cert: "cert.pem", Key: "cert.pem"}, "cert.pem and cert.pem: tls: found a certificate rather than a key"},
	} {
		var s credentials.Store
		c.entry.Name, c.entry.Plugins = "x", []string{"p"}
		s.Set(filepath.Join(dir, "prober.yaml"), []config.Credentials{c.entry})
		if _, err := s.TLS("p", "x"); err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, fs.ErrPermission) {
			t.Errorf("%+v: got %v, want %q", c.entry, err, c.want)
		}
	}
}

func TestWithdrawnFiles(t *testing.T) {
	for name, c := range map[string]struct {
		withdraw func(dir string) error
		want     string
	}{
		"ca":       {func(dir string) error { return os.Remove(filepath.Join(dir, "ca.pem")) }, "ca.pem: no such file or directory"},
		"key":      {func(dir string) error { return os.Remove(filepath.Join(dir, "key.pem")) }, "key.pem: no such file or directory"},
		"empty ca": {func(dir string) error { return os.Truncate(filepath.Join(dir, "ca.pem"), 0) }, "ca.pem has no certificate in PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, s := used(t)
			if err := c.withdraw(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := s.TLS("p", "client"); err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, fs.ErrPermission) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

var client = config.Credentials{Name: "client", CA: "ca.pem", Cert: "cert.pem", Key: "key.pem", Plugins: []string{"p"}}

// used returns a store whose credentials were used once, and the folder of their files.
func used(t *testing.T) (string, *credentials.Store) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "authority")
	if err := os.Rename(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "ca.pem")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "holder")
	s := new(credentials.Store)
	s.Set(filepath.Join(dir, "prober.yaml"), []config.Credentials{client})
	if _, err := s.TLS("p", "client"); err != nil {
		t.Fatal(err)
	}
	return dir, s
}

func TestAuthoritiesChangeDuringRenewal(t *testing.T) {
	dir, s := used(t)
	before, err := s.TLS("p", "client")
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(dir, "cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	file(t, dir, "ca.pem", ca)
	file(t, dir, "key.pem", []byte("half of a ke"))
	for range 2 { // of the files, and of what was kept
		got, err := s.TLS("p", "client")
		if err != nil {
			t.Fatal(err)
		}
		if got.RootCAs.Equal(before.RootCAs) || got.Certificates[0].Leaf.Subject.CommonName != "holder" {
			t.Error("want the new authorities, and the certificate from before")
		}
	}
}

func TestSetForgets(t *testing.T) {
	dir, s := used(t)
	file(t, dir, "key.pem", []byte("half of a ke"))
	path := filepath.Join(dir, "prober.yaml")
	s.Set(path, []config.Credentials{client})
	if _, err := s.TLS("p", "client"); err != nil {
		t.Errorf("after the same entries: %v", err)
	}
	s.Set(path, nil)
	s.Set(path, []config.Credentials{client})
	if _, err := s.TLS("p", "client"); err == nil {
		t.Error("credentials that were taken out of prober.yaml are still used")
	}
}
