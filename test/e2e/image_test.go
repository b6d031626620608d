//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// defaultCapabilities are the capabilities of a container that requests none.
var defaultCapabilities = strings.Fields("CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE")

// ctr starts a separate containerd, and returns a function that runs ctr with it.
func ctr(t *testing.T) func(args ...string) *exec.Cmd {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctd") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { does(t, privileged("rm", "-rf", "--one-file-system", dir)) })
	config := fmt.Sprintf("version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = %q\n",
		dir+"/root", dir+"/state", dir+"/s")
	if err := os.WriteFile(dir+"/config.toml", []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	daemon := privileged("containerd", "-c", dir+"/config.toml", "-l", "error")
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	daemon.Stdout, daemon.Stderr = log, log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Signal(os.Interrupt)
		_ = daemon.Wait()
	})
	run := func(args ...string) *exec.Cmd {
		return privileged(append([]string{"ctr", "-a", dir + "/s"}, args...)...)
	}
	await(t, "containerd", func() bool { return run("version").Run() == nil })
	return run
}

// testImage runs the image in containerd, read-only, as nobody, without capabilities.
func testImage(t *testing.T, image string) {
	ctr := ctr(t)
	does(t, ctr("image", "import", "--base-name", "localhost/prober", image))
	config := filepath.Join(t.TempDir(), "prober.yaml")
	if err := os.WriteFile(config, []byte(`apiVersion: prober.dev/v1
kind: AgentConfig
targets:
- name: self
  static: ["http://127.0.0.1:9876/healthz"]
  probe: {httpGet: {}, period: 1s}
- name: module
  static: ["127.0.0.1"]
  probe: {plugin: {name: dns, config: {queryName: a.example}}, period: 1s}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Dir(config), filepath.Dir(filepath.Dir(config))} {
		if err := os.Chmod(dir, 0o755); err != nil { // the user of the image reads the file
			t.Fatal(err)
		}
	}
	args := []string{"run", "-d", "--read-only", "--cgroup", fmt.Sprint("/prober-image-", os.Getpid()),
		"--mount", "type=bind,src=" + config + ",dst=/etc/prober/prober.yaml,options=rbind:ro",
		"--mount", "type=tmpfs,src=tmpfs,dst=/run/prober,options=uid=65532:mode=0700"}
	for _, c := range defaultCapabilities {
		args = append(args, "--cap-drop", "CAP_"+c)
	}
	does(t, ctr(append(args, "localhost/prober:0.1.0", "probes")...))
	t.Cleanup(func() {
		_ = ctr("task", "kill", "-s", "KILL", "probes").Run()
		await(t, "the end of the container", func() bool { return ctr("container", "rm", "probes").Run() == nil })
	})

	in := func(args ...string) *exec.Cmd { // a program in the container
		execs++
		return ctr(append([]string{"task", "exec", "--exec-id", fmt.Sprint("e", execs), "probes", "/usr/bin/prober"}, args...)...)
	}
	await(t, "the agent to be ready", func() bool { return in("probe", "http", "http://127.0.0.1:9876/readyz").Run() == nil })
	await(t, "a probe to succeed", func() bool {
		out, _ := in("get", "probes", "--no-headers").CombinedOutput()
		return strings.Contains(string(out), "self-127-0-0-1-9876") && strings.Contains(string(out), "success")
	})
	if out := does(t, in("get", "plugins")); !strings.Contains(out, "dns") {
		t.Errorf("a plugin is compiled: %s", out)
	}
	fields := strings.Fields(does(t, ctr("task", "ls")))
	pid := fields[len(fields)-2]
	status := does(t, privileged("cat", "/proc/"+pid+"/status"))
	for _, want := range []string{"Uid:\t65532\t65532\t65532\t65532", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(status, want) {
			t.Errorf("%q is not in\n%s", want, status)
		}
	}
	if mounts := does(t, privileged("cat", "/proc/"+pid+"/mounts")); !strings.HasPrefix(mounts, "overlay / overlay ro,") {
		t.Errorf("the root can be written: %s", mounts)
	}
	if out, err := ctr("task", "exec", "--exec-id", "sh", "probes", "/bin/sh").CombinedOutput(); err == nil || !strings.Contains(string(out), "no such file") {
		t.Errorf("there is a shell: %v, %s", err, out)
	}
	does(t, ctr("task", "kill", "-s", "TERM", "probes"))
	await(t, "the end of the agent", func() bool {
		out, _ := ctr("task", "ls").CombinedOutput()
		return strings.Contains(string(out), "STOPPED")
	})
}

// execs counts the programs that were run in the container.
var execs int
