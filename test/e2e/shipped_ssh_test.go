//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestShippedSSH(t *testing.T) {
	t.Parallel()
	dir, at := t.TempDir(), freeAddress(t)
	keys, lines := map[string]string{}, ""
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		path := filepath.Join(dir, kind)
		run(t, exec.Command("ssh-keygen", "-q", "-t", kind, "-N", "", "-f", path))
		keys[kind] = strings.Fields(run(t, exec.Command("ssh-keygen", "-l", "-f", path+".pub")))[1]
		lines += "HostKey " + path + "\n"
	}
	run(t, exec.Command("mkdir", "-p", "/run/sshd"))
	path, err := exec.LookPath("sshd") // sshd runs itself by its absolute path
	if err != nil {
		t.Fatal(err)
	}
	serves(t, at, exec.Command(path, "-D", "-e", "-f", file(t, "sshd_config", fmt.Sprintf("ListenAddress %s\nPidFile none\nUsePAM no\n%s", at, lines))))
	key := func(kind, as string) string { return fmt.Sprintf(`{"hostKey":%q,"hostKeyType":%q}`, keys[kind], as) }
	runShipped(t, "ssh", at, []shippedCase{
		{"identification", `{"software":"OpenSSH_"}`, "success", "SSH-2.0-OpenSSH_"},
		{"other software", `{"software":"dropbear_"}`, "failure", "the software is OpenSSH_"},
		{"host key of Ed25519", fmt.Sprintf(`{"hostKey":%q}`, keys["ed25519"]), "success", "ssh-ed25519 " + keys["ed25519"]},
		{"host key of ECDSA", key("ecdsa", "ecdsa"), "success", "ecdsa-sha2-nistp256 " + keys["ecdsa"]},
		{"host key of RSA", key("rsa", "rsa"), "success", "ssh-rsa " + keys["rsa"]},
		{"another host key", key("rsa", "ed25519"), "failure", "the host key is ssh-ed25519 " + keys["ed25519"] + ", want " + keys["rsa"]},
	})
	old := sshd(t, "KexAlgorithms ecdh-sha2-nistp256\n").at
	runShipped(t, "ssh", old, []shippedCase{
		{"no common key exchange", key("ed25519", "ed25519"), "failure", "the server does not offer the key exchange curve25519-sha256, but ecdh-sha2-nistp256"},
	})
	runShipped(t, "ssh", sshd(t, "").at, []shippedCase{
		{"no host key of the type", key("rsa", "rsa"), "failure", "the server has no host key of rsa-sha2-512, rsa-sha2-256, ssh-rsa, but of ssh-ed25519"},
	})
	full := sshd(t, "MaxStartups 1\n").at
	takeConnection(t, full, "", "SSH-2.0")
	runShipped(t, "ssh", full, []shippedCase{{"too many clients", `{}`, "failure", `no identification of SSH after "Exceeded MaxStartups"`}})
	runShipped(t, "ssh", freeAddress(t), []shippedCase{{"connection refused", `{}`, "failure", "refused"}})
}
