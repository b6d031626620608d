//go:build unix

package pushcmd_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"
)

// durations matches the changing words of a message.
var durations = regexp.MustCompile(`after [0-9.]+(µs|ms|s)\b`)

func TestCommand(t *testing.T) {
	a := newFakeAgent(t)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sh := func(script string) []string { return []string{"--", "sh", "-c", script} }
	for _, c := range []struct {
		args   []string
		code   int
		report string
		stdout string
		stderr string
	}{
		{[]string{"--", "true"}, 0, "success after #", "", ""},
		{sh("echo one; echo two; echo '  '"), 0, "success after #: two", "one\ntwo\n  \n", ""},
		{sh("printf 'a\\rb\\r\\033[0m\\n'"), 0, "success after #: b", "a\rb\r\x1b[0m\n", ""},
		{sh("echo out; echo err >&2"), 0, "success after #: out", "out\n", "err\n"},
		{sh("echo out; echo err >&2; exit 3"), 3, "failure exit status 3 after #: err", "out\n", "err\n"},
		{sh("printf out; exit 255"), 255, "failure exit status 255 after #: out", "out", ""},
		{sh("kill -TERM $$"), 143, "failure signal: terminated after #", "", ""},
		{sh("cat"), 0, "success after #: of stdin", "line\nof stdin", ""},
		{[]string{"--", "/nonexistent"}, 127, "failure cannot be started: fork/exec /nonexistent: no such file or directory", "", "prober: error: fork/exec /nonexistent: no such file or directory\n"},
		{[]string{"--", "no-such-program"}, 127, `failure cannot be started: exec: "no-such-program": executable file not found in $PATH`, "", `prober: error: exec: "no-such-program": executable file not found in $PATH` + "\n"},
		{[]string{"--", script}, 126, "failure cannot be started: fork/exec " + script + ": permission denied", "", "prober: error: fork/exec " + script + ": permission denied\n"},
		{append([]string{"--timeout", "1h"}, sh("exit 4")...), 4, "failure exit status 4 after #", "", ""},
		{append([]string{"--timeout", "50ms"}, sh("sleep 600; true")...), 137, "failure killed after the timeout of 50ms", "", ""},
		{append([]string{"--nagios"}, sh("echo 'OK - 3 | a=1;2'; echo more")...), 0, "success OK - 3 | a=1;2", "OK - 3 | a=1;2\nmore\n", ""},
		{append([]string{"--nagios"}, sh("echo slow; exit 1")...), 1, "warning slow", "slow\n", ""},
		{append([]string{"--nagios"}, sh("echo bad; echo err >&2; exit 2")...), 2, "failure bad", "bad\n", "err\n"},
		{append([]string{"--nagios"}, sh("echo 'no idea' >&2; exit 3")...), 3, "unknown no idea", "", "no idea\n"},
		{append([]string{"--nagios"}, sh("exit 0")...), 0, "success after #, without output", "", ""},
		{append([]string{"--nagios"}, sh("echo a; echo b; exit 4")...), 4, "failure exit status 4 after #: a", "a\nb\n", ""},
		{append([]string{"--nagios"}, sh("kill -KILL $$")...), 137, "failure signal: killed after #", "", ""},
	} {
		call := &call{stdin: strings.NewReader("line\nof stdin")}
		code, stdout, stderr := call.run(append([]string{"push", "--server", a.URL, "backup"}, c.args...)...)
		report, _ := a.last()
		if report = durations.ReplaceAllString(report, "after #"); code != c.code || report != c.report || stdout != c.stdout || stderr != c.stderr {
			t.Errorf("%q: exit code %d, report %q, stdout %q, stderr %q", c.args, code, report, stdout, stderr)
		}
	}
}

// fifo returns the path of a named pipe.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The command ends only when its start was reported.
func TestStartIsReportedBesideCommand(t *testing.T) {
	for _, form := range []string{"name", "url"} {
		a := newFakeAgent(t)
		at := fifo(t)
		a.answer = func(n int, _ *http.Request) int {
			if n == 1 {
				if err := os.WriteFile(at, []byte("go\n"), 0o600); err != nil {
					t.Error(err)
				}
			}
			return http.StatusOK
		}
		args := []string{"push", "--server", a.URL, "backup", "--", "cat", at}
		if form == "url" {
			args = []string{"push", "--url", a.URL + "/push/" + token, "--", "cat", at}
		}
		code, stdout, stderr := new(call).run(args...)
		if code != 0 || stdout != "go\n" || stderr != "" || len(a.reports) != 2 || a.reports[0] != "started" || !strings.HasPrefix(a.reports[1], "success after ") {
			t.Errorf("%s: exit code %d, %q, %q, reports %q", form, code, stdout, stderr, a.reports)
		}
	}
}

// A report of the start that hangs delays neither the command nor the report of its end.
func TestHungStartReport(t *testing.T) {
	a := newFakeAgent(t)
	var ended sync.WaitGroup
	ended.Add(1)
	a.answer = func(_ int, r *http.Request) int {
		if r.FormValue("started") != "" {
			defer ended.Done()
			<-r.Context().Done()
			return -1
		}
		ended.Wait()
		return http.StatusOK
	}
	start := time.Now()
	code, _, stderr := push(a.URL, "backup", "--request-timeout", "1h", "--", "true")
	if took := time.Since(start); took > 8*time.Second { // the report of the start has 10 s, but 1 s after the end
		t.Errorf("took %v", took)
	}
	if report, _ := a.last(); code != 0 || stderr != "" || !strings.HasPrefix(report, "success after ") {
		t.Errorf("exit code %d, %q, report %q", code, stderr, report)
	}
}

func TestCommandWithoutAgent(t *testing.T) {
	a := newFakeAgent(t)
	a.answer = func(int, *http.Request) int { return http.StatusBadGateway }
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--server", "unix:/nowhere/s", "backup", "--retry", "0"}, "dial unix /nowhere/s: connect: no such file or directory"},
		{[]string{"--server", "unix:/nowhere/s", "backup", "--retry", "100ms"}, "dial unix /nowhere/s: connect: no such file or directory"},
		{[]string{"--server", a.URL, "backup", "--retry", "0"}, strings.TrimPrefix(a.URL, "http://") + ": not  [31mtoday /api/v1/push/backup"},
		{[]string{"--server", a.URL, "backup", "--token-file", "/nonexistent"}, "--token-file: token file: open /nonexistent: no such file or directory"},
		{[]string{"--url", a.URL + "/push/" + token, "--retry", "0"}, a.URL + "/push/…: 502 Bad Gateway"},
	} {
		code, stdout, stderr := new(call).run(append(append([]string{"push"}, c.args...), "--", "sh", "-c", "echo out; exit 7")...)
		if code != 7 || stdout != "out\n" || stderr != "prober: warning: the report was not delivered: "+c.want+"\n" {
			t.Errorf("%q: exit code %d, %q, %q", c.args, code, stdout, stderr)
		}
	}
}

func TestEndIsReportedAgain(t *testing.T) {
	a := newFakeAgent(t)
	failed := 0
	a.answer = func(_ int, r *http.Request) int {
		if failed++; r.FormValue("started") == "" && failed < 4 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	code, _, stderr := push(a.URL, "backup", "--", "false")
	if report, _ := a.last(); code != 1 || stderr != "" || !strings.HasPrefix(report, "failure exit status 1 after ") {
		t.Errorf("exit code %d, %q, report %q", code, stderr, report)
	}
}

// signaller is a stdout that sends a signal to prober when the command writes.
type signaller struct {
	bytes.Buffer
	once    sync.Once
	signals chan<- os.Signal
}

func (s *signaller) Write(p []byte) (int, error) {
	s.once.Do(func() { s.signals <- syscall.SIGTERM })
	return s.Buffer.Write(p)
}

func TestSignalsReachCommand(t *testing.T) {
	for _, c := range []struct {
		flags  []string
		script string
		code   int
		report string
	}{
		{nil, "sleep 600 & trap 'kill -KILL $!; echo got TERM; exit 9' TERM; echo ready; wait", 9, "failure exit status 9 after #: got TERM"},
		{nil, "echo ready; exec sleep 600", 143, "failure signal: terminated after #: ready"},
		// The group gets the signal: sh waits for its child before it runs the trap.
		{[]string{"--timeout", "1h"}, "trap 'echo got TERM >&2; exit 9' TERM; sh -c 'echo ready; exec sleep 600'", 9, "failure exit status 9 after #: got TERM"},
	} {
		a := newFakeAgent(t)
		signals := make(chan os.Signal, 1)
		call := &call{signals: signals, stdout: &signaller{signals: signals}}
		code, _, _ := call.run(append(append([]string{"push", "--server", a.URL, "backup"}, c.flags...), "--", "sh", "-c", c.script)...)
		report, _ := a.last()
		if report = durations.ReplaceAllString(report, "after #"); code != c.code || report != c.report {
			t.Errorf("%s: exit code %d, report %q", c.script, code, report)
		}
		for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGPIPE} {
			if !slices.Contains(call.watched, s) {
				t.Errorf("%v is not watched", s)
			}
		}
	}
}

// A signal after the end of the command ends the retries, and not the first attempt.
func TestSignalAfterEnd(t *testing.T) {
	a := newFakeAgent(t)
	signals := make(chan os.Signal, 2)
	a.answer = func(_ int, r *http.Request) int {
		if r.FormValue("started") == "" {
			signals <- syscall.SIGTERM
		}
		return http.StatusServiceUnavailable
	}
	code, _, stderr := (&call{signals: signals}).run("push", "--server", a.URL, "--retry", "10h", "backup", "--", "true")
	if code != 0 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "warning: the report was not delivered: ") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// counter counts the bytes written to it, and keeps none.
type counter struct{ n int }

func (c *counter) Write(p []byte) (int, error) { c.n += len(p); return len(p), nil }

func TestLongOutputTakesBoundedMemory(t *testing.T) {
	a := newFakeAgent(t)
	const size = 20 << 20
	for _, script := range []string{
		"head -c %d /dev/zero | tr '\\0' x",
		"head -c %d /dev/zero | tr '\\0' '\\n'",
		"head -c %d /dev/zero",
	} {
		var before, after runtime.MemStats
		out := new(counter)
		call := &call{stdout: out}
		runtime.ReadMemStats(&before)
		code, _, stderr := call.run("push", "--server", a.URL, "backup", "--", "sh", "-c", fmt.Sprintf(script, size))
		runtime.ReadMemStats(&after)
		report, _ := a.last()
		if code != 0 || stderr != "" || out.n != size || len(report) > 1100 {
			t.Errorf("%s: exit code %d, %q, %d bytes, report of %d bytes", script, code, stderr, out.n, len(report))
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > size/2 {
			t.Errorf("%s: allocated %d bytes", script, took)
		}
	}
}

func TestHostileOutput(t *testing.T) {
	var all []byte
	for i := range 256 {
		all = append(all, byte(i))
	}
	for name, text := range map[string]string{
		"bytes":     string(all),
		"escapes":   "\x1b]0;title\aname \x1b[31mred\x1b[0m \u202eback\u202c \u009b31m",
		"long line": strings.Repeat("é\x1b[1m", 5000),
		"letters":   strings.Repeat("日本", 5000),
	} {
		a := newFakeAgent(t)
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := push(a.URL, "backup", "--", "cat", file)
		report, _ := a.last()
		if code != 0 || stdout != text || stderr != "" {
			t.Errorf("%s: exit code %d, %q, %q", name, code, stdout, stderr)
		}
		_, line, _ := strings.Cut(report, ": ")
		if line == "" || len(line) > 1<<10 || strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }) {
			t.Errorf("%s: report %q", name, report)
		}
		if name == "letters" && !strings.HasSuffix(line, "…") {
			t.Errorf("the line is not marked as cut: %q", line)
		}
	}
}

// closedPipe returns a file whose reader has ended.
func closedPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	_ = r.Close()
	return w
}

// The command gets SIGPIPE when nobody reads the output, and its end is reported.
func TestOutputWithoutReader(t *testing.T) {
	a := newFakeAgent(t)
	call := &call{stdout: closedPipe(t)}
	code, _, stderr := call.run("push", "--server", a.URL, "backup", "--", "yes")
	if report, _ := a.last(); code != 141 || stderr != "" || !strings.HasPrefix(report, "failure signal: broken pipe after ") {
		t.Errorf("exit code %d, %q, report %q", code, stderr, report)
	}
}

// A process that the command leaves behind is not waited for.
func TestProcessLeftBehind(t *testing.T) {
	a := newFakeAgent(t)
	code, stdout, stderr := push(a.URL, "backup", "--", "sh", "-c", "sleep 600 & echo $!")
	pid, err := strconv.Atoi(strings.TrimSpace(stdout))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the process does not run any more: %v", err)
	}
	if report, _ := a.last(); code != 0 || stderr != "" || !strings.HasSuffix(report, ": "+strconv.Itoa(pid)) {
		t.Errorf("exit code %d, %q, report %q", code, stderr, report)
	}
}

func TestTimeoutKillsGroup(t *testing.T) {
	a := newFakeAgent(t)
	at := fifo(t)
	// The second process holds the FIFO open until it is killed.
	code, _, _ := push(a.URL, "backup", "--timeout", "50ms", "--", "sh", "-c", "sleep 600 < "+at+" & : > "+at+"; wait")
	if report, _ := a.last(); code != 137 || !strings.HasPrefix(report, "failure killed after the timeout of 50ms") {
		t.Errorf("exit code %d, report %q", code, report)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) { // a killed process closes its files a little later
		f, err := os.OpenFile(at, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return
		}
		f.Close()
		if time.Now().After(end) {
			t.Fatal("a process of the group still runs")
		}
	}
}
