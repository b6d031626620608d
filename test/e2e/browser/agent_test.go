package browser

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is the time limit for each wait: the machine may be busy.
const patience = 90 * time.Second

// root is the folder of the main module.
const root = "../../.."

func binary(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, "bin/prober"))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("make build first: %v", err)
	}
	return path
}

// agent is a process of `prober run`.
type agent struct {
	t      testing.TB
	dir    string // has the files and the socket
	addr   string
	token  string
	args   []string
	cmd    *exec.Cmd
	stderr *output
}

// output collects the output of a program.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// prepare writes files, by their paths, to a folder that is removed at the end of the test.
func prepare(t testing.TB, files map[string]string) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "page") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

// runAgent runs an agent in a folder until the test ends.
func runAgent(t testing.TB, dir string, args ...string) *agent {
	t.Helper()
	a := &agent{t: t, dir: dir, token: "token-of-the-browser-tests-0123456789", addr: freeAddr(t)}
	write(t, filepath.Join(dir, "token"), a.token+"\n")
	a.args = append([]string{
		"run", "--listen", a.addr, "--socket", filepath.Join(dir, "s"), "--token-file", filepath.Join(dir, "token"),
	}, args...)
	t.Cleanup(a.stop)
	a.start()
	return a
}

func write(t testing.TB, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// freeAddr returns a free loopback address. The agent uses the same address after a restart. The port is below the
// ones that the system gives to programs that ask for any.
func freeAddr(t testing.TB) string {
	t.Helper()
	for range 100 {
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 10_000+rand.IntN(22_000))); err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

func (a *agent) start() {
	a.t.Helper()
	a.stderr = new(output)
	a.cmd = exec.Command(binary(a.t), a.args...)
	a.cmd.Dir, a.cmd.Stderr = a.dir, a.stderr
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := a.cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; {
		if response, err := http.Get(a.url("healthz")); err == nil {
			_ = response.Body.Close()
			return
		}
		if time.Now().After(end) {
			a.t.Fatalf("the agent does not listen:\n%s", a.stderr)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// stop sends SIGTERM to the agent and waits for its end.
func (a *agent) stop() {
	if a.cmd == nil || a.cmd.Process == nil || a.cmd.ProcessState != nil {
		return
	}
	ended := make(chan error, 1)
	_ = a.cmd.Process.Signal(syscall.SIGTERM)
	go func() { ended <- a.cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(patience):
		_ = syscall.Kill(-a.cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		a.t.Errorf("SIGTERM did not end the agent:\n%s", a.stderr)
	}
}

// waitLine waits for a line of the agent's log.
func (a *agent) waitLine(pattern string) {
	a.t.Helper()
	want := regexp.MustCompile(pattern)
	for end := time.Now().Add(patience); ; {
		if want.MatchString(a.stderr.String()) {
			return
		}
		if time.Now().After(end) {
			a.t.Fatalf("no line like %s in\n%s", pattern, a.stderr)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (a *agent) url(hash string) string { return fmt.Sprintf("http://%s/%s", a.addr, hash) }

// prober runs a command of the client, and returns its output, even if it fails.
func (a *agent) prober(args ...string) string {
	cmd := exec.Command(binary(a.t), args...)
	cmd.Env = append(os.Environ(), "PROBER_SERVER=unix:"+filepath.Join(a.dir, "s"))
	text, _ := cmd.CombinedOutput()
	return string(text)
}
