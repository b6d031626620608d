//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// network is a network namespace with its own mounts.
type network struct {
	t   *testing.T
	pid string // a process in it
}

func newNetwork(t *testing.T) network {
	t.Helper()
	cmd := exec.Command("unshare", "-n", "-m", "sh", "-c", "ip link set lo up && echo up && exec sleep 600")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if n, err := out.Read(make([]byte, 1)); n == 0 {
		t.Fatal(err)
	}
	return network{t, strconv.Itoa(cmd.Process.Pid)}
}

// command returns a command that runs in n.
func (n network) command(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"-t", n.pid, "-n", "-m"}, args...)...)
}

// do runs a script in n.
func (n network) do(format string, args ...any) {
	n.t.Helper()
	if out, err := n.command("sh", "-ec", fmt.Sprintf(format, args...)).CombinedOutput(); err != nil {
		n.t.Fatalf("%v: %s", err, out)
	}
}

// start runs a command in n until the end of the test.
func (n network) start(args ...string) {
	n.t.Helper()
	cmd := n.command(args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// TestUplink interrupts the network of a host in several ways, with an agent, a witness and targets behind a
// router. The agent must not report targets as failed then, but must report a target that is down.
//
// Reported as gatus 461.
func TestUplink(t *testing.T) {
	t.Parallel()
	host, router := newNetwork(t), newNetwork(t)
	host.do("mount --bind %s /etc/resolv.conf; ip link add name host0 type veth peer name router0; ip link set router0 netns %s",
		file(t, "resolv.conf", "nameserver 10.9.0.2\noptions timeout:1 attempts:1\n"), router.pid)
	router.do("ip addr add 10.9.0.2/24 dev router0; ip link set router0 up; ip addr add 172.20.0.7/32 dev lo; ip addr add 172.20.0.8/32 dev lo")
	host.do("ip addr add 10.9.0.1/24 dev host0; ip link set host0 up; ip route add default via 10.9.0.2")
	router.start("dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--pid-file=", "--user=", "--listen-address=10.9.0.2", "--bind-interfaces",
		"--address=/shop.test/172.20.0.8")
	router.start("python3", "-m", "http.server", "80", "--directory", t.TempDir())
	await(t, "the servers", func() bool {
		return host.command("/bin/bash", "-c", ": </dev/tcp/172.20.0.7/80 && : </dev/tcp/10.9.0.2/53").Run() == nil
	})

	socket, told := filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), "told")
	prober, err := filepath.Abs(filepath.Join(bin, "prober"))
	if err != nil {
		t.Fatal(err)
	}
	host.start(prober, "run", "--listen", "127.0.0.1:9876", "--socket", socket, "--config", file(t, "prober.yaml", fmt.Sprintf(`
apiVersion: prober.dev/v1
kind: AgentConfig
targets:
- {name: gateways, static: [10.9.0.2], probe: {tcpSocket: {port: 53}, period: 500ms, failureThreshold: 1}}
- {name: shops, static: ["172.20.0.7:80", "http://shop.test:80/"], probe: {httpGet: {}, period: 500ms, failureThreshold: 1}}
- {name: pings, static: [172.20.0.7], probe: {plugin: {name: icmp}, period: 500ms, timeout: 1s, failureThreshold: 1}}
uplink: [gateways]
notify:
  receivers: [{name: file, groupWait: 1s, groupInterval: 1s, exec: {command: [/bin/sh, -c, "cat >>%s"]}}]
`, told)))

	states := func() (all string) {
		out, err := exec.Command(prober, "get", "probes", "-o", "json", "--server", "unix:"+socket).Output()
		var list struct {
			Items []struct{ Pod, State string }
		}
		if err != nil || json.Unmarshal(out, &list) != nil {
			return ""
		}
		for _, p := range list.Items {
			all += p.Pod + "=" + p.State + " "
		}
		return all
	}
	is := func(gateway, pings, others, shop string) {
		t.Helper()
		want := fmt.Sprintf("gateways-10-9-0-2=%s pings-172-20-0-7=%s shops-172-20-0-7-80=%s shops-shop-test-80=%s ", gateway, pings, others, shop)
		var last string
		defer func() {
			if t.Failed() {
				t.Logf("the last states: %s", last)
			}
		}()
		await(t, want, func() bool { last = states(); return last == want })
	}
	failures := func() string {
		out, err := exec.Command(prober, "get", "events", "--server", "unix:"+socket).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var failed []string
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "Unhealthy") && !strings.Contains(line, "gateways-") {
				failed = append(failed, line)
			}
		}
		return strings.Join(failed, "")
	}
	is("success", "success", "success", "success")
	for name, way := range map[string]struct{ lose, restore string }{
		"the cable is pulled":    {"ip link set router0 down", "ip link set router0 up"},
		"nothing comes back":     {"ip route add blackhole 10.9.0.1", "ip route del blackhole 10.9.0.1"},
		"the router has no more": {"ip addr del 10.9.0.2/24 dev router0", "ip addr add 10.9.0.2/24 dev router0"},
	} {
		t.Run(name, func(t *testing.T) {
			router.do("%s", way.lose)
			is("failure", "unknown", "unknown", "unknown")
			router.do("%s", way.restore)
			is("success", "success", "success", "success")
			if got := failures(); got != "" {
				t.Errorf("targets were reported as failed:\n%s", got)
			}
		})
	}
	out, err := exec.Command(prober, "get", "events", "--server", "unix:"+socket).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "HostNetwork") {
		t.Errorf("%v: no event about the host in\n%s", err, out)
	}
	messages := func() string {
		text, _ := os.ReadFile(told)
		return string(text)
	}
	await(t, "the messages about the gateway", func() bool { return strings.Count(messages(), "gateways-10-9-0-2") >= 6 })
	if text := messages(); strings.Contains(text, "shops-") || strings.Contains(text, "pings-") {
		t.Errorf("the targets were told too:\n%s", text)
	}

	router.do("ip addr del 172.20.0.7/32 dev lo; ip route add blackhole 172.20.0.7")
	is("success", "failure", "failure", "success")
	await(t, "a message about the shop", func() bool { return strings.Contains(messages(), "shops-172-20-0-7-80") })
}
