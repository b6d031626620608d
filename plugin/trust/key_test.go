package trust_test

import (
	"crypto"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin/trust"
)

func readPublic(t *testing.T, k trust.Key) crypto.PublicKey {
	t.Helper()
	block, _ := pem.Decode(k.PEM())
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestReadKeys(t *testing.T) {
	key := private(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	good := string(key.PEM())
	for _, c := range []struct{ name, want, data string }{
		{"empty", "no PEM block", ""},
		{"garbage", "no PEM block", "-----BEGIN"},
		{"two keys", "more than one PEM block", good + string(private(t).PEM())},
		{"a private key", "a private key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"},
		{"a certificate", `the PEM block is "CERTIFICATE"`, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
		{"no key in it", "asn1", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"},
		{"RSA", "*rsa.PublicKey, must be Ed25519, or ECDSA on P-256", string(publicPEM(t, &rsaKey.PublicKey))},
		{"P-384", "ECDSA key on P-384", string(publicPEM(t, &ecdsaKey(t, elliptic.P384()).PublicKey))},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := trust.ParseKey("k.pub", []byte(c.data))
			if err == nil || !strings.HasPrefix(err.Error(), "key k.pub: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "k.pub")
	if _, err := trust.ReadKeys([]string{file, filepath.Dir(file)}); err == nil || !strings.Contains(err.Error(), "no such file") ||
		!strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v for a file that is not there and a folder", err)
	}
	write(t, file, good)
	if got, err := trust.ReadKeys([]string{file}); err != nil || got[0].ID != key.ID {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestReadPrivateKey(t *testing.T) {
	dir := t.TempDir()
	key, file := private(t), filepath.Join(dir, "ops.key")
	if err := key.Write(file); err != nil {
		t.Fatal(err)
	}
	if got, err := trust.ReadPrivateKey(file); err != nil || got.ID != key.ID {
		t.Errorf("got %v, %v; want %s", got.Key, err, key.ID)
	}
	if err := private(t).Write(file); !errors.Is(err, os.ErrExist) {
		t.Errorf("got %v for a file that is there", err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o601} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := trust.ReadPrivateKey(file); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("has the mode %04o", mode)) {
			t.Errorf("mode %o: got %v", mode, err)
		}
	}
	link := filepath.Join(dir, "link.key")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if _, err := trust.ReadPrivateKey(link); err == nil {
		t.Error("a link hides the mode of the key")
	}
	ec, err := x509.MarshalPKCS8PrivateKey(ecdsaKey(t, elliptic.P256()))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		data       []byte
	}{
		{"public.key", `the PEM block is "PUBLIC KEY"`, key.PEM()},
		{"cosign.key", "the key is encrypted", pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY"})},
		{"broken.key", "not a private key in PKCS #8", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")})},
		{"ec.key", "*ecdsa.PrivateKey, must be Ed25519", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: ec})},
	} {
		path := filepath.Join(dir, c.name)
		write(t, path, string(c.data))
		if _, err := trust.ReadPrivateKey(path); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
