package access_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent/access"
)

func TestWebCheck(t *testing.T) {
	dir := t.TempDir()
	writePair(t, dir)
	const (
		tls    = "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"
		users  = "basic_auth_users: {ann: $2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi}\n"
		mutual = "tls_server_config: {cert_file: cert.pem, key_file: key.pem, client_ca_file: cert.pem, client_auth_type: "
	)
	for _, c := range []struct {
		name, ip, config string
		insecure         bool
		want             string // of the error; "": none
	}{
		{"loopback", "127.0.0.1", "", false, ""},
		{"another loopback", "127.8.0.1", "", false, ""},
		{"IPv6 loopback", "::1", "", false, ""},
		{"all addresses", "0.0.0.0", "", false, "listen on 0.0.0.0:9876: TLS and credentials are required where other hosts can connect"},
		{"all IPv6 addresses", "::", "", false, "TLS and credentials are required"},
		{"one address", "192.0.2.1", "", false, "TLS and credentials are required"},
		{"with a flag", "0.0.0.0", "", true, ""},
		{"TLS and users", "0.0.0.0", tls + users, false, ""},
		{"TLS and certificates of clients", "0.0.0.0", mutual + "RequireAndVerifyClientCert}\n", false, ""},
		{"TLS and any certificate", "0.0.0.0", mutual + "RequireAnyClientCert}\n", false, "has no basic_auth_users"},
		{"TLS alone", "0.0.0.0", tls, false, "has no basic_auth_users, and no client_auth_type RequireAndVerifyClientCert"},
		{"users alone", "0.0.0.0", users, false, "has no tls_server_config"},
		{"an empty file", "0.0.0.0", "\n", false, "has no tls_server_config"},
		{"users on loopback", "127.0.0.1", users, false, ""},
		{"a wrong field", "127.0.0.1", "tls: {}\n", false, "field tls not found"},
		{"no hash", "127.0.0.1", "basic_auth_users: {ann: secret}\n", false, "hashedSecret too short"},
		{"no certificate", "127.0.0.1", "tls_server_config: {cert_file: none.pem, key_file: key.pem}\n", false, "none.pem: no such file"},
		{"a folder", "127.0.0.1", "tls_server_config: {cert_file: ., key_file: key.pem}\n", false, "not a regular file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := access.Web{Insecure: c.insecure}
			if c.config != "" {
				w.ConfigFile = filepath.Join(dir, "web.yml")
				if err := os.WriteFile(w.ConfigFile, []byte(c.config), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := w.Check(&net.TCPAddr{IP: net.ParseIP(c.ip), Port: 9876})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if strings.Contains(c.want, "no basic") && !errors.Is(err, access.ErrExposed) {
				t.Errorf("%v is not ErrExposed", err)
			}
		})
	}
}
