//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/doctest"
)

const systemdPage = "../../docs/migration/systemd.md"

// asRoot returns a command that runs as root, which namespaces for systemd need.
func asRoot(name string, args ...string) *exec.Cmd {
	if os.Getuid() != 0 {
		return exec.Command("sudo", append([]string{"-n", name}, args...)...)
	}
	return exec.Command(name, args...)
}

// system is a systemd that runs in namespaces.
type system struct {
	t   *testing.T
	pid string // systemd, in the host's PID namespace
}

// boot starts systemd with the units of a folder. It has its own control groups, mounts and processes, and
// the network of the host.
func boot(t *testing.T, units, target string) *system {
	t.Helper()
	group := "prober-e2e-" + strconv.Itoa(os.Getpid())
	const leave = `for d in /sys/fs/cgroup/$0 /sys/fs/cgroup/*/$0; do
	[ ! -d "$d" ] || find "$d" -depth -type d -exec rmdir {} + || exit
done 2>/dev/null`
	const enter = `for d in /sys/fs/cgroup /sys/fs/cgroup/*; do
	[ -e "$d/cgroup.procs" ] && mkdir -p "$d/$0" && echo $$ >"$d/$0/cgroup.procs"
done 2>/dev/null
exec unshare --pid --mount --cgroup --uts --ipc --fork --kill-child --mount-proc "$@"`
	script, err := filepath.Abs("testdata/systemd/boot")
	if err != nil {
		t.Fatal(err)
	}
	cmd := asRoot("sh", "-c", enter, group, script, units, target)
	log := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &system{t: t}
	t.Cleanup(func() {
		if s.pid != "" {
			_ = asRoot("kill", "-KILL", s.pid).Run() // PID 1 of its namespace, all of which ends
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		file.Close()
		await(t, "the control groups to be removed", func() bool { return asRoot("sh", "-c", leave, group).Run() == nil })
		if text, _ := os.ReadFile(log); t.Failed() {
			t.Logf("systemd has said\n%s", text)
		}
	})
	await(t, "systemd to run", func() bool {
		s.pid = below(strconv.Itoa(cmd.Process.Pid), "systemd")
		return s.pid != "" && s.command("systemctl", "is-active", target).Run() == nil
	})
	return s
}

// below returns the first descendant of a process that has a name, or "".
func below(pid, name string) string {
	children, _ := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	for child := range strings.FieldsSeq(string(children)) {
		if comm, _ := os.ReadFile("/proc/" + child + "/comm"); string(comm) == name+"\n" {
			return child
		}
		if found := below(child, name); found != "" {
			return found
		}
	}
	return ""
}

// command returns a command that runs inside.
func (s *system) command(name string, args ...string) *exec.Cmd {
	return asRoot("nsenter", append([]string{"-t", s.pid, "-p", "-m", "-C", "--", name}, args...)...)
}

// property returns a property of a unit.
func (s *system) property(unit, name string) string {
	s.t.Helper()
	return strings.TrimSpace(run(s.t, s.command("systemctl", "show", "--value", "-p", name, unit)))
}

// probed is a systemd target that wants only the units of the pages.
const probed = "[Unit]\nDescription=Units of a test\nDefaultDependencies=no\nWants=shop.service\n"

// TestSystemdPage runs the service of the page under a real systemd: its watchdog gets messages while
// the service is healthy, and restarts it when it is not. An agent looks at the unit and at the service.
func TestSystemdPage(t *testing.T) {
	files := doctest.Files(t, systemdPage)
	s := newShop(t, "-")
	prober, err := filepath.Abs(filepath.Join(bin, "prober"))
	if err != nil {
		t.Fatal(err)
	}
	dir := put(t, map[string]string{"shop.service": files["shop.service"], "watchdog": files["watchdog"], "prober.yaml": files["prober.yaml"], "probed.target": probed},
		"/usr/local/bin/shop", s.program, "prober probe", prober+" probe", "[Unit]\nDescription=Shop\n", "[Unit]\nDefaultDependencies=no\n",
		"8080", s.port(t), "sleep 5", "sleep 1", "WatchdogSec=30", "WatchdogSec=12", "period: 10s", "period: 1s", "period: 5s", "period: 1s",
		"/usr/local/lib/prober/watchdog", "WATCHDOG", ", backup.timer", "")
	unit := filepath.Join(dir, "shop.service")
	text, err := os.ReadFile(unit)
	if err == nil {
		err = os.WriteFile(unit, []byte(strings.ReplaceAll(string(text), "ExecStartPost=WATCHDOG", "ExecStartPost="+filepath.Join(dir, "watchdog"))), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out := run(t, exec.Command("systemd-analyze", "verify", unit)); strings.Contains(out, unit) {
		t.Errorf("systemd-analyze verify says\n%s", out)
	}
	host := boot(t, dir, "probed.target")
	first := s.healthy(t, 1)
	await(t, "the unit to be active", func() bool { return host.property("shop.service", "ActiveState") == "active" })

	address, socket := freeAddress(t), filepath.Join(t.TempDir(), "s")
	listening(t, address, host.command(prober, "run", "--config", filepath.Join(dir, "prober.yaml"), "--listen", address, "--socket", socket))
	result := func(group, result string) bool {
		return strings.Contains(get(t, address, "/api/v1/probes?result="+result), `"pod":"`+group+`-`)
	}
	await(t, "success of the unit and the service", func() bool { return result("unit", "success") && result("shop", "success") })
	if n := s.started(); n != 1 || host.property("shop.service", "NRestarts") != "0" {
		t.Fatalf("it was started %d times before it failed", n)
	}

	s.fail(first)
	await(t, "failure of the service, which is active", func() bool { return result("shop", "failure") })
	s.healthy(t, 2)
	await(t, "the restart to end", func() bool { return host.property("shop.service", "ActiveState") == "active" })
	if n := host.property("shop.service", "NRestarts"); n != "1" {
		t.Errorf("systemd has counted %s restarts, want 1", n)
	}
	await(t, "success after the restart", func() bool { return result("unit", "success") && result("shop", "success") })

	run(t, host.command("systemctl", "stop", "shop.service"))
	await(t, "failure of the unit", func() bool { return result("unit", "failure") && result("shop", "failure") })
}

// TestSystemdPageUnits verifies the units that the page replaces with systemd.
func TestSystemdPageUnits(t *testing.T) {
	units := make(map[string]string)
	for name, text := range doctest.Files(t, systemdPage) {
		if ext := filepath.Ext(name); ext == ".service" || ext == ".timer" {
			units[name] = text
		}
	}
	if len(units) < 4 {
		t.Fatalf("the page has %d units", len(units))
	}
	dir := put(t, units, "/usr/local/bin/shop-migrate", "/bin/true", "/usr/local/bin/shop", "/bin/true", "/usr/local/bin/backup-is-recent", "/bin/true",
		"/usr/local/lib/prober/watchdog", "/bin/true", "/usr/bin/curl", "/bin/true")
	for name := range units {
		unit := filepath.Join(dir, name)
		if out := run(t, exec.Command("systemd-analyze", "verify", "--man=no", unit)); out != "" {
			t.Errorf("systemd-analyze verify %s says\n%s", name, out)
		}
	}
}
