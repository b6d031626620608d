package plugintest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin/plugintest"
)

// fakePeer is the first argument of this test program when it plays a peer. The second one is its behaviour.
const fakePeer = "fake-peer"

// playPeer is the main function of a peer. It returns its exit status.
func playPeer(behaviour string) int {
	switch behaviour {
	case "answer":
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		fmt.Printf("got %s", line)
	case "moody": // it answers, and fails when its input ends
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		fmt.Printf("got %s", line)
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 1
	case "crash":
		fmt.Fprintln(os.Stderr, "no such table:\n  jobs")
		return 3
	case "flood":
		_, _ = io.Copy(os.Stdout, endless{})
	case "deaf":
		time.Sleep(time.Hour) // until it is killed
	case "family": // the child has the standard output, too
		child := exec.Command(os.Args[0], fakePeer, "sleep")
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			return 1
		}
		if err := os.WriteFile(os.Args[3], []byte(strconv.Itoa(child.Process.Pid)), 0o600); err != nil {
			return 1
		}
		time.Sleep(time.Hour)
	case "sleep":
		time.Sleep(time.Hour)
	case "tcp":
		return serveTCP()
	case "udp":
		return serveUDP()
	}
	return 0
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func serveTCP() int {
	l, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PROBER_PEER_PORT"))
	if err != nil {
		return 1
	}
	for i := 1; ; i++ {
		conn, err := l.Accept()
		if err != nil {
			return 1
		}
		line, _ := bufio.NewReader(conn).ReadString('\n')
		fmt.Fprintf(conn, "connection %d: %s", i, line)
		conn.Close()
	}
}

func serveUDP() int {
	conn, err := net.ListenPacket("udp", "127.0.0.1:"+os.Getenv("PROBER_PEER_PORT"))
	if err != nil {
		return 1
	}
	fmt.Println("ready")
	buf := make([]byte, 100)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return 1
		}
		_, _ = conn.WriteTo(append([]byte("datagram: "), buf[:n]...), from)
	}
}

// command returns the value of the field command for a behaviour.
func command(behaviour string, args ...string) string {
	return "[" + strings.Join(append([]string{os.Args[0], fakePeer, behaviour}, args...), ", ") + "]"
}

func TestCommandsPlayPeers(t *testing.T) {
	t.Parallel()
	const target = "timeout: 1m, request: {target: {host: a, port: 1}, config: {do: talk}}"
	f := load(t, `
- {name: pipe, `+target+`, want: {result: success, message: "got hello\n"}, host: {net: [{dial: "tcp://a:1", peer: {command: `+command("answer")+`}}]}}
- {name: port, timeout: 1m, request: {target: {host: a, port: 1}, config: {do: talks, says: ["one\n", "two\n"]}}, want: {result: success, message: "connection 1: one\nconnection 2: two\n"}, host: {net: [{dial: "tcp://a:1", peer: {command: `+command("tcp")+`, listens: true}}]}}
- {name: datagrams, timeout: 1m, request: {target: {host: a, port: 1}, config: {do: talk, network: udp}}, want: {result: success, message: "datagram: hello\n"}, host: {net: [{dial: "udp://a:1", peer: {command: `+command("udp")+`, listens: true}}]}}
- {name: beside a script, timeout: 1m, request: {target: {host: a, port: 1}, config: {do: talks, says: ["one\n", "two\n"]}}, want: {result: success, message: "got one\nscripted"}, host: {net: [{dial: "tcp://a:1", peer: {command: `+command("answer")+`}}, {dial: "tcp://a:1", script: [{recv: any}, {wait: 30ms}, {send: {text: scripted}}, {close: {}}]}]}}
- {name: moody, `+strings.Replace(target, "do: talk", "do: once", 1)+`, want: {result: success, message: "got hello\n"}, host: {net: [{dial: "tcp://a:1", peer: {command: `+command("moody")+`}}]}}
- {name: deaf, timeout: 300ms, request: {target: {host: a, port: 1}, config: {do: talk}}, want: {result: failure, message: /timed out/}, host: {net: [{dial: "tcp://a:1", peer: {command: `+command("deaf")+`}}]}}
`)
	for _, r := range run(t, f, plugintest.Config{CasesOnly: true, Commands: true}).Results {
		if !r.OK() || r.LeftOut != "" {
			t.Errorf("%s: %q %s\n%s", r.Name, r.Failures, r.LeftOut, r.Diff)
		}
	}
	for _, r := range run(t, f, plugintest.Config{CasesOnly: true}).Results {
		if r.LeftOut != "a peer is a process, and this run starts no commands" {
			t.Errorf("without Commands: %s: left out: %q", r.Name, r.LeftOut)
		}
	}
	if failures := judge(t, &f.Cases[0]); !strings.Contains(strings.Join(failures, "\n"), "line 5: tcp://a:1: this run starts no commands") {
		t.Errorf("natively: %q", failures)
	}
}

func TestCommandsPlayPeersOfProcesses(t *testing.T) {
	t.Parallel()
	f := load(t, `
- {name: pipe, timeout: 20s, request: {target: {host: a, port: 1}}, want: {result: success, message: /got hello/}, host: {net: [{dial: "tcp://a:1", peer: {command: `+command("answer")+`}}]}}
- {name: crash, timeout: 20s, request: {target: {host: a, port: 1}}, want: {result: failure}, host: {net: [{dial: "tcp://a:1", peer: {command: `+command("crash")+`}}]}}
`)
	cfg := plugintest.Config{Plugin: askerProcess(t), Process: startProcess, CasesOnly: true, Commands: true}
	results := run(t, f, cfg).Results
	if r := &results[0]; !r.OK() || r.LeftOut != "" {
		t.Errorf("%q %s\n%s", r.Failures, r.LeftOut, r.Diff)
	}
	if got := strings.Join(results[1].Failures, "\n"); !strings.Contains(got, "fake-peer crash ended with status 3: no such table: jobs") {
		t.Errorf("got %q", got)
	}
	cfg.Commands = false
	if r := run(t, f, cfg).Results[0]; r.LeftOut != "a peer is a process, and this run starts no commands" {
		t.Errorf("without Commands: left out: %q", r.LeftOut)
	}
}

// A case with a command is compared with no other run of it, and is in no check that needs virtual time.
func TestCommandsStayOutOfComparisons(t *testing.T) {
	t.Parallel()
	const talk = "timeout: 1m, request: {target: {host: a, port: 1}, config: {do: talk}}"
	f := load(t, `
- {name: command, `+talk+`, want: {result: success, message: "got hello\n"}, host: {net: [{dial: "tcp://a:1", peer: {command: `+command("answer")+`}}]}}
- {name: script, `+talk+`, want: {result: success, message: scripted}, host: {net: [{dial: "tcp://a:1", script: [{recv: any}, {send: {text: scripted}}, {close: {}}]}]}}
`)
	for _, c := range []struct {
		name    string
		cfg     plugintest.Config
		leftOut string // of the case with a command
	}{
		{"checks", plugintest.Config{Commands: true, Run: regexp.MustCompile("agree|manifest|growth")}, ""},
		{"checks without commands", plugintest.Config{Run: regexp.MustCompile("command|agree|manifest|growth")}, "a peer is a process, and this run starts no commands"},
		{"variants", plugintest.Config{Commands: true, Matrix: true, CasesOnly: true}, ""},
		{"variants without commands", plugintest.Config{Matrix: true, CasesOnly: true}, "a peer is a process, and this run starts no commands"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.Patience = time.Millisecond
			report := run(t, f, c.cfg)
			if len(report.Results) < 3 {
				t.Fatalf("%d results", len(report.Results))
			}
			for _, r := range report.Results {
				if !r.OK() || r.Name == "command" && r.LeftOut != c.leftOut {
					t.Errorf("%s, %s: left out %q, %q\n%s", r.Name, r.Variant, r.LeftOut, r.Failures, r.Diff)
				}
			}
		})
	}
}

// A case with a command may take longer than a call of a guest without one.
func TestCommandsMayWaitUntilDeadline(t *testing.T) {
	t.Parallel()
	f := load(t, `
- {name: spin, request: {config: {do: spin}}, want: {result: success}}
- {name: deaf, timeout: 3s, request: {target: {host: a, port: 1}, config: {do: talk}}, want: {result: failure, message: /timed out after 3s/}, host: {net: [{dial: "tcp://a:1", peer: {command: `+command("deaf")+`}}]}}
`)
	results := run(t, f, plugintest.Config{CasesOnly: true, Commands: true, Stuck: 200 * time.Millisecond}).Results
	if results[0].OK() {
		t.Error("the guest that spins is not stuck")
	}
	if r := results[1]; !r.OK() {
		t.Errorf("%q\n%s", r.Failures, r.Diff)
	}
}

// TestSessionsStartNoCommands edits a session, which may come from others.
func TestSessionsStartNoCommands(t *testing.T) {
	t.Parallel()
	session := filepath.Join(t.TempDir(), "session.yaml")
	text := "apiVersion: prober.dev/v1\nkind: PluginSession\nrequest: {}\nhost:\n  net:\n  - {dial: 'tcp://a:1', peer: {command: a}}\n"
	if err := os.WriteFile(session, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := loadCase(t, "  replay: "+session+"\n")
	if want := session + ":6: host.net[0].peer: a session cannot start a command"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestCommandsFailCases(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, config, peer, want string }{
		{"a crash", "do: talk", command("crash"), "fake-peer crash ended with status 3: no such table: jobs"},
		{"too much output", "do: talk", command("flood"), "more than 1048576 bytes"},
		{"no such program", "do: talk", "./nosuch", "line 5: tcp://a:1: fork/exec ./nosuch: no such file or directory"},
		{"an end before it listens", "do: talk", command("crash") + ", listens: true", "ended before it listened at 127.0.0.1:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := load(t, "\n- {name: a, timeout: 1m, request: {target: {host: a, port: 1}, config: {"+c.config+"}}, want: {result: success}, host: {net: [{dial: 'tcp://a:1', peer: {command: "+c.peer+"}}]}}\n")
			r := &run(t, f, plugintest.Config{CasesOnly: true, Commands: true}).Results[0]
			// What ends a flood first, the limit of the peer or the guest's own, depends on chance.
			if got := strings.Join(r.Failures, "\n") + "\n" + r.Diff; !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %q", got, c.want)
			}
		})
	}
}

func TestCommandsAreKilledWithTheirGroup(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	f := load(t, "\n- {name: a, timeout: 3s, request: {target: {host: a, port: 1}, config: {do: talk}}, want: {result: failure}, host: {net: [{dial: 'tcp://a:1', peer: {command: "+command("family", file)+"}}]}}\n")
	if r := &run(t, f, plugintest.Config{CasesOnly: true, Commands: true}).Results[0]; !r.OK() {
		t.Fatalf("%q\n%s", r.Failures, r.Diff)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); running(pid); {
		if time.Now().After(end) {
			t.Fatalf("the child %d of a peer still runs", pid)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// running reports whether a process runs. A killed child of a killed process may wait for init as a zombie.
func running(pid int) bool {
	if p, err := os.FindProcess(pid); err != nil || p.Signal(syscall.Signal(0)) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}
