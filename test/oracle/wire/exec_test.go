package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	utilexec "k8s.io/utils/exec"
)

// run is an exec probe.
type run []string

func (r run) ask(int) question {
	return question{action: v1.ProbeHandler{Exec: &v1.ExecAction{Command: r}}}
}

// runtimeCommand runs a command of the kubelet's side by os/exec. Like a container runtime, it returns the
// whole stdout before stderr.
type runtimeCommand struct {
	utilexec.Cmd
	command []string
	writer  io.Writer
}

func (c *runtimeCommand) SetStdout(w io.Writer) { c.writer = w }
func (c *runtimeCommand) SetStderr(w io.Writer) { c.writer = w }
func (c *runtimeCommand) Wait() error           { return nil }

func (c *runtimeCommand) Start() error {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(c.command[0], c.command[1:]...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	_, _ = c.writer.Write(append(stdout.Bytes(), stderr.Bytes()...)) // the writer truncates it
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code := exit.ExitCode()
		if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
			code = 128 + int(status.Signal())
		}
		return utilexec.CodeExitError{Err: err, Code: code}
	}
	return err
}

// TestExec compares commands. The runner of our side is [execprobe.HostRunner].
func TestExec(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	shell := func(text string) run { return run{"/bin/sh", "-c", text} }
	var table []situation
	add := func(name string, p run) { table = append(table, situation{name: name, probe: p}) }
	for _, code := range []int{0, 1, 2, 3, 42, 126, 127, 128, 129, 137, 200, 254, 255, 256} {
		add(fmt.Sprintf("code %d", code), shell(fmt.Sprintf("exit %d", code)))
		add(fmt.Sprintf("code %d and output", code), shell(fmt.Sprintf("echo out; exit %d", code)))
		add(fmt.Sprintf("code %d and errors", code), shell(fmt.Sprintf("echo err >&2; exit %d", code)))
		add(fmt.Sprintf("code %d and both", code), shell(fmt.Sprintf("echo out; echo err >&2; exit %d", code)))
	}
	for _, signal := range []int{1, 2, 6, 9, 11, 13, 14, 15} {
		add(fmt.Sprintf("signal %d", signal), shell(fmt.Sprintf("kill -%d $$", signal)))
		add(fmt.Sprintf("output and signal %d", signal), shell(fmt.Sprintf("echo out; kill -%d $$", signal)))
	}
	for _, size := range []int{0, 1, 4095, 4096, 10239, 10240, 10241, 65536, 65537, 1 << 20} {
		add(fmt.Sprintf("%d bytes", size), shell(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", size)))
		add(fmt.Sprintf("%d bytes of errors", size), shell(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x >&2", size)))
		add(fmt.Sprintf("%d bytes and code 1", size), shell(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; exit 1", size)))
	}
	add("no newline", shell("printf ok"))
	add("NUL", shell(`printf 'a\0b'`))
	add("bytes that are not UTF-8", shell(`printf '\377\376\200'`))
	add("CR LF", shell(`printf 'a\r\nb\r\n'`))
	table = append(table, situation{
		name:  "characters over the limit",
		probe: shell("printf a; i=0; while [ $i -lt 6000 ]; do printf é; i=$((i+1)); done"), differs: "A cut falls between characters",
	})
	add("a program of the path", run{"echo", "ok"})
	add("a program without a path", run{"true"})
	add("a program that fails", run{"false"})
	add("arguments with spaces", run{"printf", "%s|", "a b", "", "c\nd", "*", "$HOME", "'", "\""})
	add("an empty argument", run{"echo", ""})
	add("a program that does not exist", run{"does-not-exist-anywhere"})
	add("a path that does not exist", run{"/does/not/exist"})
	add("a relative path that does not exist", run{"./does-not-exist"})
	add("a folder", run{folder})
	add("a file that is not executable", run{file("plain", "#!/bin/sh\necho no\n", 0o644)})
	add("a script", run{file("script", "#!/bin/sh\necho script $1\n", 0o755), "x"})
	add("a script without an interpreter", run{file("nothing", "echo ok\n", 0o755)})
	add("a script with an unknown interpreter", run{file("unknown", "#!/does/not/exist\n", 0o755)})
	add("an empty file", run{file("empty", "", 0o755)})
	add("garbage", run{file("garbage", "\x7fELFgarbage", 0o755)})
	add("a path through a file", run{filepath.Join(folder, "plain", "x")})
	add("a name with NUL", run{"a\x00b"})
	add("an argument with NUL", run{"echo", "a\x00b"})
	add("a path of 5,000 bytes", run{"/" + fmt.Sprintf("%05000d", 0)})
	add("an argument of 200 KB", run{"true", fmt.Sprintf("%0200000d", 0)})
	add("input that has ended", run{"cat"})
	add("input of nothing", shell("read x; echo \"code $? $x\""))
	add("closed output", shell("exec >&-; exec 2>&-; exit 3"))
	add("output after it is closed", shell("exec >&-; echo x; echo err >&2"))
	add("descriptors", shell("ls /proc/self/fd | wc -l"))
	add("the folder", run{"pwd"})
	judgeAll(t, table)
}
