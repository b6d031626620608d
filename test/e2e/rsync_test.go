//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRsync probes with a plugin in Rust.
func TestRsync(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	config := fmt.Sprintf(`use chroot = no
motd file = %[1]s/motd
[backup]
path = %[1]s
comment = nightly backups
[locked]
path = %[1]s
auth users = probe
secrets file = %[1]s/none
[hidden]
path = %[1]s
list = no
[far]
path = %[1]s
hosts allow = 10.0.0.1
`, folder)
	for name, text := range map[string]string{"rsyncd.conf": config, "motd": "Welcome to the mirror\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := freeAddress(t)
	host, port, _ := net.SplitHostPort(address)
	listening(t, address, exec.Command("rsync", "--daemon", "--no-detach", "--config="+filepath.Join(folder, "rsyncd.conf"), "--address="+host, "--port="+port))
	for _, c := range []struct{ name, address, config, result, text string }{
		{"list", address, `{"modules":["locked","backup"]}`, "success", "3 modules"},
		{"module that is not in the list", address, `{"modules":["hidden"]}`, "failure", "the list of modules does not have hidden"},
		{"open module", address, `{"module":"backup"}`, "success", "backup opens"},
		{"hidden module", address, `{"module":"hidden"}`, "success", "hidden opens"},
		{"module with a login", address, `{"module":"locked"}`, "success", "locked asks for a login"},
		{"module for other hosts", address, `{"module":"far"}`, "failure", "@ERROR: access denied to far"},
		{"unknown module", address, `{"module":"lost"}`, "failure", "@ERROR: Unknown module 'lost'"},
		{"server of another protocol", saying(t, "220 mail.example.com\r\n"), `{}`, "failure", `not rsync: the server sent "220 mail.example.com"`},
		{"greeting that does not end", saying(t, "@RSYNCD: "+strings.Repeat("3", 300<<10)), `{}`, "failure", "the greeting: the server sent more than 256 KiB"},
		{"connection refused", freeAddress(t), `{}`, "failure", "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, code := probePlugin(t, "rsync", c.address, c.config)
			want(t, v, code, c.result, c.text)
		})
	}
}
