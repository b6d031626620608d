//go:build e2e

package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFTP probes with a plugin in AssemblyScript.
func TestFTP(t *testing.T) {
	t.Parallel()
	cert, key, ca := pemFiles(t, selfSigned(t, 24*time.Hour))
	keyPEM, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	both := filepath.Join(filepath.Dir(cert), "both.pem")
	if err := os.WriteFile(both, append([]byte(ca), keyPEM...), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	listening(t, address, exec.Command("/usr/bin/python3", "testdata/ftpd.py", port, both, t.TempDir()))
	trusted := `"startTLS":true,"serverName":"mail.example.com","ca":` + jsonText(t, ca)
	for _, c := range []struct{ name, address, config, result, text string }{
		{"greeting", address, `{}`, "success", "files.example.com ready"},
		{"anonymous", address, `{"username":"anonymous","password":"probe@example.com","features":["MDTM","REST STREAM"]}`, "success", "files.example.com ready"},
		{"missing feature", address, `{"features":["XCRC"]}`, "failure", "the server does not offer XCRC"},
		{"over TLS", address, `{"username":"probe","password":"open sesame",` + trusted + `}`, "success", "files.example.com ready"},
		{"wrong password", address, `{"username":"probe","password":"guess"}`, "failure", "PASS: the server says 530 Authentication failed."},
		{"certificate of an unknown authority", address, `{"startTLS":true,"serverName":"mail.example.com"}`, "failure", "certificate signed by unknown authority"},
		{"server of another protocol", saying(t, "SSH-2.0-OpenSSH_9\r\n"), `{}`, "failure", "not FTP: the server sent SSH-2.0-OpenSSH_9"},
		{"busy server", saying(t, "421 too many users\r\n"), `{}`, "failure", "greeting: the server says 421 too many users"},
		{"connection refused", freeAddress(t), `{}`, "failure", "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, code := probePlugin(t, "ftp", c.address, c.config)
			want(t, v, code, c.result, c.text)
			if strings.Contains(v.Output, "guess") || strings.Contains(v.Output, "sesame") {
				t.Errorf("the output has the password: %q", v.Output)
			}
		})
	}
}
