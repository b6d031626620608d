package execprobe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/builtin/execprobe"
	"github.com/daeace23/prober/probe"
)

// peer runs a command with os/exec. It returns stdout followed by stderr, and the exit status.
func peer(t *testing.T, dir string, env, command []string) (string, int, error) {
	t.Helper()
	c := exec.Command(command[0], command[1:]...)
	var stdout, stderr bytes.Buffer
	c.Dir, c.Env, c.Stdout, c.Stderr, c.SysProcAttr = dir, env, &stdout, &stderr, &syscall.SysProcAttr{Setpgid: true}
	err := c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status := exit.Sys().(syscall.WaitStatus)
		if status.Signaled() {
			return stdout.String() + stderr.String(), 128 + int(status.Signal()), nil
		}
		return stdout.String() + stderr.String(), status.ExitStatus(), nil
	}
	return stdout.String() + stderr.String(), 0, err
}

func TestHostRunnerAnswersAsOSExec(t *testing.T) {
	dir := t.TempDir()
	path := "PATH=" + os.Getenv("PATH")
	shell := func(script string) []string { return []string{"/bin/sh", "-c", script} }
	for name, c := range map[string]struct {
		dir     string
		env     []string
		command []string
	}{
		"output of both streams":           {"", nil, shell("echo err >&2; echo out; echo more >&2")},
		"no output":                        {"", nil, shell(":")},
		"no final newline":                 {"", nil, shell("printf 'a\\000b'; printf c >&2")},
		"exit code":                        {"", nil, shell("echo no; exit 42")},
		"killed":                           {"", nil, shell("kill -KILL $$")},
		"aborted":                          {"", nil, shell("kill -ABRT $$")},
		"stdin is empty":                   {"", nil, shell("cat; echo end; readlink /proc/self/fd/0")},
		"streams closed by the command":    {"", nil, shell("echo first; exec >&- 2>&-; sleep 0.1; exit 3")},
		"output after a while":             {"", nil, shell("echo one; sleep 0.2; echo two >&2; sleep 0.1; echo three")},
		"stdout opened by its name":        {"", nil, shell("echo out > /dev/stdout; echo err > /dev/stderr")},
		"descriptors":                      {"", nil, shell("ls /proc/self/fd")},
		"no signal is blocked or ignored":  {"", nil, shell("grep -E '^Sig(Blk|Ign)' /proc/self/status")},
		"directory":                        {dir, nil, shell("pwd; echo $PWD; echo $OLDPWD")},
		"directory and environment":        {dir, []string{path}, shell("pwd; env | sort")},
		"empty environment":                {"", []string{}, shell("/usr/bin/env | sort")},
		"environment with duplicates":      {"", []string{"A=1", path, "A=2", "=odd", "bare"}, shell("env | sort")},
		"variable that contains NUL":       {"", []string{"A=1\x002"}, shell(":")},
		"argument that contains NUL":       {"", nil, shell("echo \x00")},
		"missing program":                  {"", nil, []string{"/missing/program"}},
		"missing program in the directory": {dir, nil, []string{"./program"}},
		"missing directory":                {"/missing", nil, shell(":")},
		"program that is a directory":      {"", nil, []string{dir}},
		"program that is not executable":   {"", nil, []string{"/etc/passwd"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &execprobe.HostRunner{Environment: func(string) (string, []string, error) { return c.dir, c.env, nil }}
			out, err := r.RunInContainer(t.Context(), "c", c.command, time.Minute)
			status := 0
			if exit, ok := errors.AsType[*execprobe.CommandExitError](err); ok {
				status, err = exit.ExitStatus(), nil
			}
			wantOut, wantStatus, wantErr := peer(t, c.dir, c.env, c.command)
			if string(out) != wantOut || status != wantStatus || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("got %q, status %d, error %v; os/exec: %q, status %d, error %v", out, status, err, wantOut, wantStatus, wantErr)
			}
		})
	}
}

func TestHostRunnerOutputLargerThanPipe(t *testing.T) {
	const both = "head -c 300000 /dev/zero | tr '\\0' e >&2; head -c 300000 /dev/zero | tr '\\0' o; echo end >&2"
	for name, c := range map[string]struct{ script, want string }{
		"both streams": {both, strings.Repeat("o", probe.MaxOutput)},
		"stderr":       {"head -c 300000 /dev/zero | tr '\\0' e >&2; echo out", "out\n" + strings.Repeat("e", probe.MaxOutput-4)},
		"at the end":   {"sleep 0.2; " + both, strings.Repeat("o", probe.MaxOutput)},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := sh(t, time.Minute, c.script); err != nil || out != c.want {
				t.Errorf("got %d bytes, %v; want %d", len(out), err, len(c.want))
			}
		})
	}
	t.Run("endless", func(t *testing.T) {
		out, err := sh(t, 300*time.Millisecond, "yes & yes >&2")
		if len(out) != probe.MaxOutput || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %d bytes, %v", len(out), err)
		}
	})
}

// TestHostRunnerLeavesNothing concurrently runs commands that end in all possible ways.
func TestHostRunnerLeavesNothing(t *testing.T) {
	runs := 200
	if n, err := strconv.Atoi(os.Getenv("EXECPROBE_TEST_RUNS")); err == nil {
		runs = n
	}
	all := []func() error{
		func() error { _, err := sh(t, time.Minute, "echo out; echo err >&2"); return err },
		func() error { _, err := sh(t, time.Minute, "sleep 300 & exit 3"); return err },
		func() error { _, err := sh(t, 60*time.Millisecond, "echo out; sleep 300"); return err },
		func() error {
			_, err := new(execprobe.HostRunner).RunInContainer(t.Context(), "c", []string{"/missing"}, time.Minute)
			return err
		},
	}
	round := func(runs int) {
		var wg sync.WaitGroup
		for slot := range 8 {
			wg.Go(func() {
				for i := slot; i < runs; i += 8 {
					if err := all[i%len(all)](); (err == nil) != (i%len(all) == 0) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
	round(16)
	descriptors, goroutines := countDescriptors(t), runtime.NumGoroutine()
	round(runs)
	// A goroutine may run for a moment after it has sent its result.
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		d, g := countDescriptors(t), runtime.NumGoroutine()
		if d <= descriptors && g <= goroutines {
			break
		}
		if time.Now().After(end) {
			t.Errorf("%d descriptors and %d goroutines, before %d and %d", d, g, descriptors, goroutines)
			break
		}
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("wait4: %d, %v: a process was not reaped", pid, err)
	}
	threads, _ := os.ReadDir("/proc/self/task")
	t.Logf("%d threads", len(threads))
}

func countDescriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// runWithoutStreams runs a command in a process without descriptors 0, 1 and 2, so that its pipes get these
// numbers. It writes the result to a file.
func runWithoutStreams() {
	for fd := range 3 {
		_ = syscall.Close(fd)
	}
	out, err := new(execprobe.HostRunner).RunInContainer(context.Background(), "c", []string{"/bin/sh", "-c", "cat; echo out; echo err >&2"}, time.Minute)
	_ = os.WriteFile(os.Getenv("EXECPROBE_TEST_CLOSED"), fmt.Appendf(nil, "%q, %v", out, err), 0o600)
}

func TestHostRunnerWithoutStandardStreams(t *testing.T) {
	file := t.TempDir() + "/result"
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "EXECPROBE_TEST_CLOSED="+file)
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != `"out\nerr\n", <nil>` {
		t.Errorf("got %s, %v", got, err)
	}
}

func BenchmarkHostRunner(b *testing.B) {
	r := &execprobe.HostRunner{Environment: func(string) (string, []string, error) { return "", []string{}, nil }}
	command := []string{"/bin/true"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.RunInContainer(b.Context(), "c", command, time.Minute); err != nil {
			b.Fatal(err)
		}
	}
}
