package execprobe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/builtin/execprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

// sh runs script with a HostRunner and the environment env.
func sh(t testing.TB, timeout time.Duration, script string, env ...string) (string, error) {
	t.Helper()
	r := &execprobe.HostRunner{Environment: func(string) (string, []string, error) {
		return "", append([]string{"PATH=" + os.Getenv("PATH")}, env...), nil
	}}
	out, err := r.RunInContainer(t.Context(), "c", []string{"sh", "-c", script}, timeout)
	return string(out), err
}

// witness is a FIFO that processes hold open. End of file shows that all of them have ended.
type witness struct {
	path string
	file *os.File
}

func newWitness(t *testing.T) witness {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return witness{path, file}
}

// script returns a shell command that makes the shell and its children hold w.
func (w witness) script() string { return "exec 3>'" + w.path + "'; echo held >&3; " }

// wantGone checks that w was held and then released.
func (w witness) wantGone(t *testing.T) {
	t.Helper()
	w.wantEnd(t, "held\n")
}

// wantEnd checks that text is the rest of w, and that w is released.
func (w witness) wantEnd(t *testing.T, text string) {
	t.Helper()
	_ = w.file.SetReadDeadline(time.Now().Add(time.Minute))
	if got, err := io.ReadAll(w.file); err != nil || string(got) != text {
		t.Errorf("the witness gave %q, %v: a process survives", got, err)
	}
}

// onceHeld calls do when w is held.
func (w witness) onceHeld(t *testing.T, do func()) {
	t.Helper()
	own, err := os.OpenFile(w.path, os.O_WRONLY, 0) // without a writer, reading would end at once
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer do()
		defer own.Close()
		_, _ = io.ReadFull(w.file, make([]byte, len("held\n")))
	}()
}

func TestHostRunner(t *testing.T) {
	t.Run("stdout, then stderr", func(t *testing.T) {
		out, err := sh(t, time.Minute, "echo err1 >&2; echo out1; echo err2 >&2; echo out2")
		if err != nil || out != "out1\nout2\nerr1\nerr2\n" {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("#84 long output is cut", func(t *testing.T) {
		out, err := sh(t, time.Minute, "head -c 5000000 /dev/zero; echo end >&2")
		if err != nil || len(out) != probe.MaxOutput {
			t.Errorf("got %d bytes, %v", len(out), err)
		}
	})
	t.Run("#85 exit status and output", func(t *testing.T) {
		out, err := sh(t, time.Minute, "echo foo; exit 3")
		exit, ok := errors.AsType[*execprobe.CommandExitError](err)
		if out != "foo\n" || !ok || exit.ExitStatus() != 3 || err.Error() != "command terminated with exit code 3" {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("a signal", func(t *testing.T) {
		_, err := sh(t, time.Minute, "kill -TERM $$")
		if exit, ok := errors.AsType[*execprobe.CommandExitError](err); !ok || exit.Code != 128+15 {
			t.Errorf("got %v", err)
		}
	})
	t.Run("without a timeout", func(t *testing.T) {
		if out, err := sh(t, 0, "echo hi"); err != nil || out != "hi\n" {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("zero value has the agent's environment", func(t *testing.T) {
		t.Setenv("BUILTIN_TEST_WORD", "here")
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		out, err := new(execprobe.HostRunner).RunInContainer(t.Context(), "c", []string{"sh", "-c", "echo $BUILTIN_TEST_WORD; pwd"}, time.Minute)
		if want := "here\n" + dir + "\n"; err != nil || string(out) != want {
			t.Errorf("got %q, %v; want %q", out, err, want)
		}
	})
}

func TestHostRunnerEnvironment(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "check"), []byte("#!/bin/sh\necho \"$WORD in $(pwd) for $1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var asked string
	r := &execprobe.HostRunner{Environment: func(id string) (string, []string, error) {
		asked = id
		return dir, []string{"PATH=/nowhere:.:/usr/bin:/bin", "WORD=hello"}, nil
	}}
	for _, name := range []string{"check", "./check", filepath.Join(dir, "check")} {
		out, err := r.RunInContainer(t.Context(), "local://1", []string{name, "me"}, time.Minute)
		if want := "hello in " + dir + " for me\n"; err != nil || string(out) != want || asked != "local://1" {
			t.Errorf("%s: got %q, %v; want %q", name, out, err, want)
		}
	}
	for _, name := range []string{"missing", "./missing", "/missing"} {
		if _, err := r.RunInContainer(t.Context(), "c", []string{name}, time.Minute); err == nil || !strings.Contains(err.Error(), "missing") {
			t.Errorf("%s: %v; want an error that names it", name, err)
		} else if _, ok := errors.AsType[*execprobe.CommandExitError](err); ok {
			t.Errorf("%s: %v reads as a verdict", name, err)
		}
	}
	if _, err := r.RunInContainer(t.Context(), "c", nil, time.Minute); err == nil {
		t.Error("an empty command: no error")
	}
	gone := errors.New("container is gone")
	r.Environment = func(string) (string, []string, error) { return "", nil, gone }
	if _, err := r.RunInContainer(t.Context(), "c", []string{"true"}, time.Minute); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

func TestHostRunnerKillsGroup(t *testing.T) {
	t.Run("#183 a command that hangs", func(t *testing.T) {
		w := newWitness(t)
		out, err := sh(t, 3*time.Second, w.script()+"echo before; trap '' TERM; sleep 300 & sleep 300")
		if out != "before\n" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %q, %v", out, err)
		}
		if text := err.Error(); !strings.HasPrefix(text, `command timed out: "sh -c `) || !strings.HasSuffix(text, " timed out after 3s") {
			t.Errorf("text %q", text)
		}
		w.wantGone(t)
	})
	t.Run("#185 a failing command with one in the background", func(t *testing.T) {
		w := newWitness(t)
		h := handler(t, new(execprobe.HostRunner), "sh", "-c", w.script()+"sleep 300 & exit 1")
		got, err := rig.Attempt(t, h, probe.Request{}, time.Minute)
		rig.Want(t, got, err, probe.Failure, "")
		rig.WantReason(t, got, probe.ReasonExecExit)
		w.wantGone(t)
	})
	t.Run("successful command with one in the background", func(t *testing.T) {
		w := newWitness(t)
		if out, err := sh(t, time.Minute, w.script()+"(sleep 300; echo late) & echo $$"); err != nil || out == "" {
			t.Errorf("got %q, %v", out, err)
		} else if _, err := os.Stat("/proc/" + strings.TrimSpace(out)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("process %s was not reaped: %v", out, err)
		}
		w.wantGone(t)
	})
	t.Run("cancelled", func(t *testing.T) {
		w := newWitness(t)
		ctx, cancel := context.WithCancel(t.Context())
		r := &execprobe.HostRunner{Environment: func(string) (string, []string, error) {
			w.onceHeld(t, cancel)
			return "", nil, nil
		}}
		_, err := r.RunInContainer(ctx, "c", []string{"sh", "-c", w.script() + "sleep 300"}, time.Minute)
		if !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		w.wantEnd(t, "")
	})
	t.Run("nothing is started after the deadline", func(t *testing.T) {
		ctx, cancel := context.WithDeadline(t.Context(), time.Now())
		defer cancel()
		file := filepath.Join(t.TempDir(), "f")
		_, err := new(execprobe.HostRunner).RunInContainer(ctx, "c", []string{"touch", file}, time.Minute)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the command ran: %v", err)
		}
	})
}

func init() {
	roles["EXECPROBE_TEST_ESCAPE"] = escapeSession
	roles["EXECPROBE_TEST_CLOSED"] = runWithoutStreams
}

// escapeSession starts a process in another session that holds stdout open, and prints its process ID.
func escapeSession() {
	c := exec.Command("sleep", "300")
	c.Stdout = os.Stdout
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	fmt.Println(c.Process.Pid)
}

// TestHostRunnerDoesNotWaitForEscapedProcess has a command that leaves a process in another session,
// which holds the output open.
func TestHostRunnerDoesNotWaitForEscapedProcess(t *testing.T) {
	if _, err := exec.LookPath("sleep"); err != nil {
		t.Fatal(err)
	}
	r := &execprobe.HostRunner{Environment: func(string) (string, []string, error) {
		return "", append(os.Environ(), "EXECPROBE_TEST_ESCAPE=1"), nil
	}}
	start := time.Now()
	out, err := r.RunInContainer(t.Context(), "c", []string{os.Args[0]}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the process did not escape: %v", err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("took %v: waited for the process that escaped", took)
	}
}
