//go:build e2e

package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// starts starts a command that begins a session of its own, and kills all processes of it at the end of the test. It
// logs the output if the test did not get its verdicts.
func starts(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = said, said
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil { // not stopped by the test
			signalAll(cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
		}
		if text, err := os.ReadFile(said.Name()); t.Failed() {
			t.Logf("%s has said %s, %v", cmd.Args[0], text[max(0, len(text)-400):], err)
		}
		said.Close()
	})
	return cmd
}

// signalAll sends a signal to a process and its descendants. Some servers make process groups.
func signalAll(pid int, signal syscall.Signal) {
	_ = syscall.Kill(pid, syscall.SIGSTOP) // from when it is stopped, it makes no children
	for range 1000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") T ") || strings.Contains(string(stat), ") Z ") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		for child := range strings.FieldsSeq(string(text)) {
			if id, err := strconv.Atoi(child); err == nil {
				signalAll(id, signal)
			}
		}
	}
	_ = syscall.Kill(pid, signal)
}

// server is a running server.
type server struct {
	t   *testing.T
	at  string
	cmd *exec.Cmd
}

// serves starts a server and waits until it listens at an address.
func serves(t *testing.T, at string, cmd *exec.Cmd) *server {
	t.Helper()
	starts(t, cmd)
	s := &server{t, at, cmd}
	await(t, cmd.Args[0]+" to listen at "+at, func() bool {
		if exited(cmd.Process.Pid) {
			t.Fatalf("%q has ended", cmd.Args)
		}
		conn, err := net.Dial("tcp", at)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return s
}

// takeConnection takes the only connection that a server allows until the end of the test. The server must answer hello
// with a line that begins with want.
func takeConnection(t *testing.T, at, hello, want string) {
	t.Helper()
	await(t, "the connection to "+at, func() bool { // the connection that showed that the server listens may still count
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprint(conn, hello)
		line, _ := bufio.NewReader(conn).ReadString('\n')
		return strings.HasPrefix(line, want)
	})
}

// exited reports whether a child is a zombie.
func exited(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// stop kills the server, and returns its address.
func (s *server) stop() string {
	s.t.Helper()
	signalAll(s.cmd.Process.Pid, syscall.SIGKILL)
	_ = s.cmd.Wait()
	return s.at
}

// freeze stops the processes of the server as SIGSTOP does: the kernel still accepts connections. It returns the
// address.
func (s *server) freeze() string {
	s.t.Helper()
	signalAll(s.cmd.Process.Pid, syscall.SIGSTOP)
	return s.at
}

// choke freezes the server and fills its queue of connections. It returns the address.
func (s *server) choke() string {
	s.t.Helper()
	s.freeze()
	for {
		conn, err := net.DialTimeout("tcp", s.at, 300*time.Millisecond)
		if err != nil {
			return s.at
		}
		s.t.Cleanup(func() { conn.Close() })
	}
}

// between starts a proxy before a server, and returns its address. Each connection ends when answer returns, which
// copies the answers of the server to the client.
func between(t *testing.T, at string, answer func(client io.Writer, server io.Reader) error) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	relay := func(client net.Conn) {
		defer client.Close()
		upstream, err := net.Dial("tcp", at)
		if err != nil {
			return
		}
		defer upstream.Close()
		go io.Copy(upstream, client)
		_ = answer(client, upstream)
	}
	go func() {
		for {
			client, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go relay(client)
			}
		}
	}()
	return l.Addr().String()
}

// cut returns the address of a server whose connections end after n bytes of its answers.
func cut(t *testing.T, at string, n int64) string {
	t.Helper()
	return between(t, at, func(client io.Writer, server io.Reader) error {
		_, err := io.CopyN(client, server, n)
		return err
	})
}

// stalled returns the address of a server that sends n bytes of an answer, and then nothing more.
func stalled(t *testing.T, at string, n int64) string {
	t.Helper()
	return between(t, at, func(client io.Writer, server io.Reader) error {
		_, err := io.CopyN(client, server, n)
		<-t.Context().Done()
		return err
	})
}

// slow returns the address of a server whose answers come after a delay.
func slow(t *testing.T, at string, delay time.Duration) string {
	t.Helper()
	return between(t, at, func(client io.Writer, server io.Reader) error {
		first := make([]byte, 1)
		if _, err := io.ReadFull(server, first); err != nil {
			return err
		}
		<-time.After(delay)
		_, _ = client.Write(first)
		_, err := io.Copy(client, server)
		return err
	})
}
