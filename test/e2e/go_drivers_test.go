//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/sdk/sdktest"
)

// goGuest builds the guest in testdata/name, which is a module of its own, and returns a plugin folder with
// it.
func goGuest(t *testing.T, name string) string {
	t.Helper()
	code, err := sdktest.Build(t.Context(), filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, name+".wasm", string(code))
	return dir
}

// blackHole returns an address that drops connections.
func blackHole(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { err = syscall.Listen(int(fd), 0) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for { // until the queue of the socket is full
		conn, err := net.DialTimeout("tcp", l.Addr().String(), 200*time.Millisecond)
		if err != nil {
			return l.Addr().String()
		}
		t.Cleanup(func() { conn.Close() })
	}
}

// silent returns the address of a server that accepts connections and sends nothing.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// wantTimeout fails unless a probe of target with a timeout of 1 s fails after 1 s.
func wantTimeout(t *testing.T, plugins, plugin, target, config string) {
	t.Helper()
	v, code := probePluginIn(t, plugins, plugin, target, config, "--timeout", "1s")
	want(t, v, code, "failure", "timed out after 1s")
}

// TestGuestWithGoRedis probes with a guest whose client is github.com/redis/go-redis.
func TestGuestWithGoRedis(t *testing.T) {
	t.Parallel()
	plugins := goGuest(t, "goredis")
	plain := redis(t)
	locked := redis(t, "--requirepass", "open sesame")
	_, port, _ := net.SplitHostPort(plain)
	for _, c := range []struct{ name, target, config, result, text string }{
		{"sets and gets", plain, `{}`, "success", `redis keeps "was here"`},
		{"by a name", "localhost:" + port, `{}`, "success", `redis keeps "was here"`},
		{"with a password", locked, `{"password":"open sesame"}`, "success", `redis keeps "was here"`},
		{"with a wrong password", locked, `{"password":"guess"}`, "failure", "WRONGPASS"},
		{"connection refused", freeAddress(t), `{}`, "failure", "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, code := probePluginIn(t, plugins, "goredis", c.target, c.config)
			want(t, v, code, c.result, c.text)
		})
	}
	t.Run("black hole", func(t *testing.T) { wantTimeout(t, plugins, "goredis", blackHole(t), `{}`) })
	t.Run("silent server", func(t *testing.T) { wantTimeout(t, plugins, "goredis", silent(t), `{}`) })
}

// TestGuestWithPgx probes with a guest whose client is database/sql with github.com/jackc/pgx.
func TestGuestWithPgx(t *testing.T) {
	t.Parallel()
	plugins := goGuest(t, "pgx")
	address := primary(t)
	_, port, _ := net.SplitHostPort(address)
	ca := secure(t, address)
	secured := func(user, password string) string {
		config, err := json.Marshal(map[string]string{"user": user, "password": password, "ca": ca})
		if err != nil {
			t.Fatal(err)
		}
		return string(config)
	}
	for _, c := range []struct{ name, target, config, result, text string }{
		{"trusted", address, `{}`, "success", "PostgreSQL answers 15"},
		{"by a name", "localhost:" + port, `{}`, "success", "PostgreSQL answers 15"},
		{"a query of many rows", address, `{"query":"SELECT string_agg(i::text, ' ') FROM generate_series(1, 1200) i"}`, "success", " 1199 1200"},
		{"with a password in clear text", address, `{"user":"clear","password":"open sesame"}`, "success", "PostgreSQL answers 15"},
		{"with a password by SCRAM", address, `{"user":"scram","password":"open sesame"}`, "success", "PostgreSQL answers 15"},
		{"with a wrong password", address, `{"user":"scram","password":"guess"}`, "failure", "28P01"},
		{"over TLS", "localhost:" + port, secured("scram", "open sesame"), "success", "PostgreSQL answers 15"},
		{"over TLS with a wrong password", "localhost:" + port, secured("scram", "guess"), "failure", "28P01"},
		{"over TLS to a name that is not in the certificate", address, secured("scram", "open sesame"), "failure", "x509: "},
		{"invalid query", address, `{"query":"SELEKT 1"}`, "failure", "42601"},
		{"connection refused", freeAddress(t), `{}`, "failure", "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, code := probePluginIn(t, plugins, "pgx", c.target, c.config)
			want(t, v, code, c.result, c.text)
			if strings.Contains(v.Output, "guess") {
				t.Errorf("the output tells the password: %q", v.Output)
			}
		})
	}
	t.Run("slow query", func(t *testing.T) {
		wantTimeout(t, plugins, "pgx", address, `{"query":"SELECT pg_sleep(10)::text"}`)
	})
	t.Run("black hole", func(t *testing.T) { wantTimeout(t, plugins, "pgx", blackHole(t), `{}`) })
	t.Run("silent server", func(t *testing.T) { wantTimeout(t, plugins, "pgx", silent(t), `{}`) })
}

// secure installs a certificate for localhost in the server at address, and returns the certificate as PEM.
func secure(t *testing.T, address string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := dataFolder(t)
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	for name, data := range map[string]string{
		"cert": text,
		"key":  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})),
	} {
		write(t, dir, name, data)
		file := filepath.Join(dir, name)
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
		if os.Getuid() == 0 {
			uid, gid := nobody(t)
			if err := os.Chown(file, uid, gid); err != nil {
				t.Fatal(err)
			}
		}
		sql(t, address, "ALTER SYSTEM SET ssl_"+name+"_file = '"+file+"'")
	}
	sql(t, address, "ALTER SYSTEM SET ssl = on")
	sql(t, address, "SELECT pg_reload_conf()")
	await(t, "PostgreSQL to speak TLS", func() bool { return strings.TrimSpace(sql(t, address, "SHOW ssl")) == "on" })
	return text
}
