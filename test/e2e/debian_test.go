//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/daeace23/prober/handlers/shipped"
)

// released builds a release of this source for this machine, with a version, and returns its folder.
func released(t *testing.T, version string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dist")
	cmd := exec.Command("go", "run", "./internal/release", "-version", version, "-date", "1700000000", "-platforms", "linux/"+runtime.GOARCH, "-out", dir)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// privileged returns a command that runs as root.
func privileged(args ...string) *exec.Cmd {
	if os.Getuid() != 0 {
		args = append([]string{"sudo"}, args...)
	}
	return exec.Command(args[0], args[1:]...)
}

// does runs a command, and returns its output.
func does(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}

// one returns the only file that matches a pattern.
func one(t *testing.T, pattern ...string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pattern...))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v: %q, %v; want one file", pattern, files, err)
	}
	return files[0]
}

func TestRelease(t *testing.T) {
	t.Parallel()
	older, first := released(t, "0.1.0-rc.1"), released(t, "0.1.0")
	check := exec.Command("sha256sum", "--check", "--strict", "checksums.txt")
	check.Dir = first
	if out := does(t, check); strings.Count(out, ": OK\n") != 4 {
		t.Errorf("want an archive, an SBOM, a package and an image:\n%s", out)
	}
	t.Run("package", func(t *testing.T) { testDebianPackage(t, one(t, older, "*.deb"), one(t, first, "*.deb")) })
	t.Run("image", func(t *testing.T) { testImage(t, one(t, first, "*_image.tar")) })
}

// debian is a running Debian system.
type debian struct {
	t    *testing.T
	root string
	init string // PID of its systemd
}

// bootDebian boots the Debian that test/e2e/run has installed, without further packages.
func bootDebian(t *testing.T) *debian {
	t.Helper()
	d := &debian{t: t, root: filepath.Join(t.TempDir(), "root")}
	does(t, privileged("mkdir", "-m", "755", d.root))
	t.Cleanup(func() { does(t, privileged("rm", "-rf", "--one-file-system", d.root)) })
	does(t, privileged("tar", "-C", d.root, "-xf", os.Getenv("DEBIAN_ROOT")))
	script, err := filepath.Abs("testdata/debian/boot")
	if err != nil {
		t.Fatal(err)
	}
	const enter = `for top in /sys/fs/cgroup/unified /sys/fs/cgroup; do
	[ ! -e $top/cgroup.controllers ] || break
done
mkdir -p $top/$0
echo $$ >$top/$0/cgroup.procs
exec unshare -m -p -u -i -n -C -f --kill-child "$@"`
	group := fmt.Sprint("prober-debian-", os.Getpid())
	var log bytes.Buffer
	cmd := privileged("sh", "-ec", enter, group, script, d.root)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("boot: %s", log.String())
			out, _ := d.command("journalctl --no-pager -n 100").CombinedOutput()
			t.Logf("%s", out)
		}
		_ = privileged("kill", "-KILL", d.init).Run() // PID 1: its whole namespace ends
		_ = cmd.Wait()
		const leave = `for d in /sys/fs/cgroup/unified/$0 /sys/fs/cgroup/$0; do [ ! -d $d ] || find $d -depth -type d -exec rmdir {} +; done`
		await(t, "the control groups to be removed", func() bool { return privileged("sh", "-c", leave, group).Run() == nil })
	})
	await(t, "systemd to run", func() bool {
		d.init = childOf(fmt.Sprint(cmd.Process.Pid), "systemd")
		return d.init != "" && d.command("systemctl is-active multi-user.target").Run() == nil
	})
	return d
}

// childOf returns the process with a name among the descendants of a process, or "".
func childOf(pid, name string) string {
	children, _ := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	for _, child := range strings.Fields(string(children)) {
		if comm, _ := os.ReadFile("/proc/" + child + "/comm"); string(comm) == name+"\n" {
			return child
		}
		if found := childOf(child, name); found != "" {
			return found
		}
	}
	return ""
}

// command returns a shell command that runs in the system as root.
func (d *debian) command(script string) *exec.Cmd {
	return privileged("nsenter", "-t", d.init, "-m", "-p", "-u", "-i", "-n", "-C", "--",
		"env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "sh", "-ec", script)
}

// does runs a script in the system, and returns its output.
func (d *debian) does(script string) string {
	d.t.Helper()
	return does(d.t, d.command(script))
}

// install installs a package.
func (d *debian) install(file string) {
	d.t.Helper()
	does(d.t, privileged("cp", file, filepath.Join(d.root, "root", "prober.deb")))
	d.does("dpkg -i /root/prober.deb")
}

// has checks that the output of a script contains a text.
func (d *debian) has(script, want string) {
	d.t.Helper()
	if got := d.does(script); !strings.Contains(got, want) {
		d.t.Errorf("%s\n%swant %q", script, got, want)
	}
}

// works is a script that succeeds if an agent probes.
const works = "prober get probes --no-headers | grep self | grep -q success"

// awaits waits until a script in the system succeeds.
func (d *debian) awaits(what, script string) {
	d.t.Helper()
	await(d.t, what, func() bool { return d.command(script).Run() == nil })
}

// testDebianPackage installs, upgrades and removes the package on a minimal Debian with systemd. Each step
// depends on the previous ones.
func testDebianPackage(t *testing.T, old, newer string) {
	var linting sync.WaitGroup
	defer linting.Wait()
	linting.Go(func() {
		out, err := exec.Command("lintian", "--allow-root", "--pedantic", "--display-info", "--display-experimental", "--fail-on=error,warning,info,pedantic", newer).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("lintian: %v\n%s", err, out)
		}
	})
	d := bootDebian(t)
	d.install(old)
	d.installed()
	d.probes()
	d.reloads()
	d.restarts()
	d.users()
	d.does(`echo kept >/var/lib/prober/mine; echo '# mine' >>/etc/default/prober; echo '# mine' >>/etc/prober/prober.yaml`)
	d.install(newer)
	d.has("prober version", "prober 0.1.0 (")
	d.has("systemctl show -P ActiveState prober", "active")
	d.has("cat /var/lib/prober/mine; tail -n 1 /etc/default/prober /etc/prober/prober.yaml", "kept")
	d.has("grep -c '# mine' /etc/default/prober /etc/prober/prober.yaml", "/etc/default/prober:1\n/etc/prober/prober.yaml:1\n")
	d.awaits("the probes of the new version", works)

	d.does("dpkg -r prober")
	d.has("pgrep -c prober || systemctl is-active prober || stat -c %n /etc/prober/prober.yaml /var/lib/prober/mine", "/etc/prober/prober.yaml\n/var/lib/prober/mine\n")
	d.install(newer) // again, with the remaining files
	d.awaits("the probes after a second installation", works)
	d.does("dpkg -P prober")
	d.has("! getent passwd prober && ! getent group prober && ! systemctl cat prober 2>/dev/null && echo gone", "gone\n")
	left := d.does("find / -xdev -name '*prober*' -not -path '/root/*' -not -path '/var/log/*'; find /etc/prober -type f")
	if want := "/etc/prober\n/etc/prober/pods.d/pod.yaml\n"; left != want { // a file of the administrator
		t.Errorf("%swant what the administrator has made:\n%s", left, want)
	}
}

// installed checks the results of the installation.
func (d *debian) installed() {
	for script, want := range map[string]string{
		"systemctl show -P StatusText prober":                                              "probing",
		"systemctl is-enabled prober":                                                      "enabled",
		"prober version":                                                                   "prober 0.1.0-rc.1",
		"prober probe http http://127.0.0.1:9876/readyz":                                   "success",
		"stat -c '%U %a' /var/lib/prober /run/prober/prober.sock":                          "prober 750\nprober 600",
		"ls /usr/share/man/man1/prober-run.1.gz /usr/share/zsh/vendor-completions/_prober": "_prober",
		"ls /usr/share/prober/prometheus":                                                  "dashboard.json\nprober.rules.yaml\n",
		"ls /usr/share/doc/prober/docs/start/debian.md /usr/share/doc/prober/handlers/shipped/postgres/README.md": "README.md",
		"prober plugin list | grep -cE '^(" + strings.Join(shipped.Names(), "|") + ") '":                          fmt.Sprintln(len(shipped.Names())),
		"systemd-analyze verify --man=no prober.service && echo verified":                                         "verified",
		"grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/$(systemctl show -P MainPID prober)/status":                  "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1",
		// The threshold is in tenths. 0 would be a unit with all possible restrictions.
		"systemd-analyze security --offline=true --no-pager --threshold=20 prober.service": "OK",
	} {
		d.has(script, want)
	}
}

// probes checks that built-in handlers, commands, WebAssembly and containers work in the unit.
func (d *debian) probes() {
	d.does(`cat >>/etc/prober/prober.yaml <<'END'
targets:
- name: self
  static: ["http://127.0.0.1:9876/healthz"]
  probe: {httpGet: {}, period: 1s}
- name: command
  static: ["127.0.0.1"]
  probe: {exec: {command: [sh, -c, "id -un; ! touch /usr/bin/x 2>/dev/null && read x </proc/loadavg"]}, period: 1s}
- name: module
  static: ["127.0.0.1"]
  probe: {plugin: {name: dns, config: {queryName: a.example}}, period: 1s}
END
cat >/etc/prober/pods.d/pod.yaml <<'END'
apiVersion: v1
kind: Pod
metadata: {name: local}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    command: [sh, -c, "sleep 1000 & sleep 1000"]
    livenessProbe: {exec: {command: ["true"]}, periodSeconds: 1}
END`)
	d.awaits("the probes", `prober get probes -o json >/tmp/probes && grep -q '"output": "prober' /tmp/probes && grep -q '"handler": "dns"' /tmp/probes && grep -q '"pod": "local"' /tmp/probes && ! prober get probes --no-headers | grep -v dns | grep -v success`)
	d.has("prober get plugins", "dns") // it was compiled: nothing may forbid memory that is written and executed
}

// reloads checks systemctl reload, which waits and reports.
func (d *debian) reloads() {
	d.does("systemctl reload prober")
	d.does("cp /etc/prober/prober.yaml /tmp/good; echo 'what: ever' >>/etc/prober/prober.yaml; ! systemctl reload prober 2>/dev/null")
	d.has("systemctl is-active prober; journalctl --no-pager -u prober", "what: unknown field")
	d.does("cp /tmp/good /etc/prober/prober.yaml; systemctl reload prober; systemctl kill -s HUP --kill-who=main prober")
	d.awaits("the end of the reload by a signal", "[ \"$(systemctl show -P StatusText prober)\" = probing ]; "+works)
}

// restarts checks that systemd restarts an agent that hangs, and that no process of the old one is left.
func (d *debian) restarts() {
	d.does(`mkdir -p /run/systemd/system/prober.service.d
printf '[Service]\nWatchdogSec=10s\n' >/run/systemd/system/prober.service.d/test.conf
systemctl daemon-reload; systemctl restart prober`)
	d.does("kill -STOP $(systemctl show -P MainPID prober)")
	d.awaits("the watchdog", "[ $(systemctl show -P NRestarts prober) = 1 ]; "+works)
	d.has("journalctl --no-pager -u prober", "Failed with result 'watchdog'")
	d.awaits("the container, its child and nothing more", "[ $(pgrep -c -x sleep) = 2 ]")
	d.does("rm -r /run/systemd/system/prober.service.d; systemctl daemon-reload")
}

// users checks the drop-in for runAsUser in docs/probe/users.md.
func (d *debian) users() {
	page, err := os.ReadFile("../../docs/probe/users.md")
	if err != nil {
		d.t.Fatal(err)
	}
	_, dropIn, ok := strings.Cut(string(page), "can with this drop-in:\n\n")
	dropIn, _, end := strings.Cut(dropIn, "\n\n")
	if !ok || !end {
		d.t.Fatal("docs/probe/users.md has no drop-in for runAsUser")
	}
	d.does(`mkdir -p /run/systemd/system/prober.service.d
cat >/run/systemd/system/prober.service.d/test.conf <<'END'
` + dropIn + `
END
cat >/etc/prober/pods.d/other.yaml <<'END'
apiVersion: v1
kind: Pod
metadata: {name: other}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {runAsUser: 65534, runAsNonRoot: true}
  containers:
  - name: c
    command: [sh, -c, "echo $(id -un) writes >/dev/stdout; setsid sleep 2000 & sleep 2000"]
    livenessProbe: {exec: {command: [sh, -c, '[ $(id -un) = nobody ]']}, periodSeconds: 1}
END
systemctl daemon-reload; systemctl restart prober`)
	d.awaits("a probe of another user", "prober get probes --no-headers | grep other | grep -q success")
	d.awaits("the container of another user, and its child", "[ $(pgrep -c -u nobody -x sleep) = 2 ]")
	d.has("ps -o user=,args= -C sleep | grep 2000 | sort | uniq -c; journalctl --no-pager -u prober", "2 nobody   sleep 2000")
	d.has("journalctl --no-pager -u prober", "nobody writes")
	d.does("rm /etc/prober/pods.d/other.yaml; prober reload")
	d.awaits("the end of its processes", "! pgrep -u nobody")
	d.does("rm -r /run/systemd/system/prober.service.d; systemctl daemon-reload; systemctl restart prober")
	d.has("systemctl show -P User prober; stat -c %U /var/lib/prober", "prober\nprober\n")
}
