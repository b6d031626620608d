//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/daeace23/prober/internal/doctest"
)

const monitPage = "../../docs/migration/monit.md"

// monit runs Debian's monit with a control file, and returns a function that reads its log.
func monit(t *testing.T, control string) (log func() string) {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(control)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "monitrc")
	own := fmt.Sprintf("set log %[1]s/log\nset pidfile %[1]s/pid\nset statefile %[1]s/state\nset idfile %[1]s/id\n", dir)
	if err := os.WriteFile(path, append([]byte(own), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := run(t, exec.Command("monit", "-t", "-c", path)); !strings.HasSuffix(out, "Control file syntax OK\n") || strings.Contains(out, path+":") {
		t.Errorf("monit -t says\n%s", out)
	}
	cmd := exec.Command("monit", "-I", "-c", path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log = func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "log"))
		return string(text)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if t.Failed() {
			t.Logf("monit has said\n%s", log())
		}
	})
	return log
}

// restarts makes the service of a supervisor fail, and then kills it. The supervisor must restart it after
// three failed checks, and then at once.
func restarts(t *testing.T, s *shop) {
	t.Helper()
	first := s.healthy(t, 1)
	s.fail(first)
	second := s.healthy(t, 2)
	if n := s.failed(first); n != 3 {
		t.Errorf("it was started again after %d failed checks, want 3", n)
	}
	if err := syscall.Kill(second, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	third := s.healthy(t, 3)
	if n := s.started(); n != 3 || third == second {
		t.Errorf("it was started %d times, want 3", n)
	}
}

// TestMonitPageRestart supervises the service of the page by monit and by prober, with a cycle and a period
// of one second.
func TestMonitPageRestart(t *testing.T) {
	files := doctest.Files(t, monitPage)
	t.Run("monit", func(t *testing.T) {
		s := newShop(t, filepath.Join(t.TempDir(), "pid"))
		t.Cleanup(func() { // monit leaves it running
			if pid := s.last(); pid > 0 {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		})
		background := filepath.Join(t.TempDir(), "shopd")
		if err := os.WriteFile(background, []byte("#!/bin/sh\nsetsid "+s.program+" >/dev/null 2>&1 </dev/null &\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		dir := put(t, map[string]string{"monitrc": files["monitrc"]}, "set daemon 10", "set daemon 1", "/usr/local/bin/shop --daemon", background,
			"/run/shop.pid", s.pidfile, "port 8080", "port "+s.port(t), "with timeout 20 seconds", "with timeout 5 seconds")
		log := monit(t, filepath.Join(dir, "monitrc"))
		restarts(t, s)
		if n := strings.Count(log(), "'shop' failed protocol test [HTTP]"); n != 3 {
			t.Errorf("monit has told of %d failed checks, want 3", n)
		}
	})
	t.Run("prober", func(t *testing.T) {
		s := newShop(t, "-")
		dir := put(t, map[string]string{"pods/shop.yaml": files["pods/shop.yaml"]}, "/usr/local/bin/shop", s.program, "8080", s.port(t), "periodSeconds: 10", "periodSeconds: 1")
		address := agent(t, "-f", filepath.Join(dir, "pods"))
		restarts(t, s)
		await(t, "two restarts", func() bool { return strings.Contains(get(t, address, "/api/v1/pods"), `"restartCount":2`) })
		if events := get(t, address, "/api/v1/events"); !strings.Contains(events, "Container shop failed liveness probe, will be restarted") || !strings.Contains(events, "cause exit, exit code 137 (SIGKILL)") {
			t.Errorf("the events are %s", events)
		}
		if err := os.Rename(filepath.Join(dir, "pods"), filepath.Join(dir, "away")); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(dir, "pods"), 0o700); err != nil {
			t.Fatal(err)
		}
		await(t, "the service to stop", func() bool { return syscall.Kill(s.last(), 0) == syscall.ESRCH })
	})
}

// TestMonitPageTargets checks the same host, files and programs by monit and by prober.
func TestMonitPageTargets(t *testing.T) {
	t.Parallel()
	files := doctest.Files(t, monitPage)
	mail, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mail.Close()
	var greeted atomic.Int32
	go func() {
		for {
			conn, err := mail.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("220 mail.example\r\n"))
			greeted.Add(1)
			_ = conn.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(mail.Addr().String())
	here := t.TempDir()
	write(t, here, "shop.conf", "port=8080\n")
	write(t, here, "recent", "")
	write(t, here, "backup-is-recent", "#!/bin/sh\ntest \"$*\" = '--hours 26' && test -e "+here+"/recent\n")
	if err := os.Chmod(filepath.Join(here, "backup-is-recent"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, here, "shop.sha256", run(t, exec.Command("sha256sum", filepath.Join(here, "shop.conf"))))
	dir := put(t, map[string]string{"hostrc": files["hostrc"], "prober.yaml": files["prober.yaml"]},
		"set daemon 30", "set daemon 1", "core > 2 ", "core > 1000 ", "100,2,100", "1000,1000,1000", "period: 30s", "period: 1s", "mail.example:25", "127.0.0.1:"+port, "mail.example", "127.0.0.1", "port 25", "port "+port,
		"/etc/shop.conf", here+"/shop.conf", "/etc/prober/shop.sha256", here+"/shop.sha256", "/usr/local/bin/backup-is-recent", here+"/backup-is-recent")

	log := monit(t, filepath.Join(dir, "hostrc"))
	await(t, "two cycles of monit", func() bool { return greeted.Load() >= 2 })
	address := agent(t, "--config", filepath.Join(dir, "prober.yaml"))
	is := func(state string, groups ...string) bool {
		metrics := get(t, address, "/metrics")
		return !slices.ContainsFunc(groups, func(group string) bool {
			return !regexp.MustCompile(`prober_probe_state\{[^}]*pod="` + group + `-[^}]*state="` + state + `"[^}]*\} 1\n`).MatchString(metrics)
		})
	}
	await(t, "success of all", func() bool { return is("success", "ping", "smtp", "conf", "backup", "disk", "load", "cron") })

	write(t, here, "shop.conf", "port=9090\n")
	if err := os.Remove(filepath.Join(here, "recent")); err != nil {
		t.Fatal(err)
	}
	mail.Close()
	await(t, "failures of what has changed", func() bool { return is("failure", "smtp", "conf", "backup") })
	if !is("success", "ping", "disk", "load", "cron") {
		t.Error("something fails that has not changed")
	}
	for _, said := range []string{"'conf' checksum changed to ", "'backup' status failed (1)", "error    : 'mail' failed protocol test [generic]"} {
		await(t, said, func() bool { return strings.Contains(log(), said) })
	}
}
