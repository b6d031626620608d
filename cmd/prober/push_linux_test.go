package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// pushTarget returns a server that answers as an agent does, and the reports that it gets.
func pushTarget(t *testing.T) (server string, reports <-chan string) {
	t.Helper()
	all := make(chan string, 8)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.FormValue("started") == "" {
			all <- r.FormValue("result") + " " + string(body)
		}
		_, _ = io.WriteString(w, `{"name":"backup"}`)
	}))
	t.Cleanup(s.Close)
	return s.URL, all
}

// A command at a terminal gets one SIGINT, the terminal's.
func TestPushAtTerminal(t *testing.T) {
	t.Parallel()
	server, reports := pushTarget(t)
	const script = "sleep 600 & n=0; trap 'n=$((n+1))' INT; echo ready; wait; sleep 0.3; kill -KILL $!; echo got $n; exit 5"
	cmd := exec.CommandContext(t.Context(), "prober", "push", "--server", server, "backup", "--", "sh", "-c", script)
	s := openTerminal(t, 100, 10, cmd)
	s.await("ready")
	s.press("\x03")
	if code := s.wait(); code != 5 {
		t.Errorf("exit code %d", code)
	}
	if report := <-reports; !strings.HasPrefix(report, "failure exit status 5 after ") || !strings.HasSuffix(report, ": got 1") {
		t.Errorf("report %q", report)
	}
}

// pushScript runs a script with the address of an agent as $1, and compares its output and the begin of the
// report.
func pushScript(t *testing.T, script, output, report string) {
	t.Helper()
	server, reports := pushTarget(t)
	out, err := exec.CommandContext(t.Context(), "sh", "-c", script, "sh", server).CombinedOutput()
	if err != nil || string(out) != output {
		t.Errorf("got %v, %s", err, out)
	}
	if got := <-reports; !strings.HasPrefix(got, report) {
		t.Errorf("report %q", got)
	}
}

// SIGPIPE ends the command, and not prober before its report.
func TestPushWithoutReader(t *testing.T) {
	t.Parallel()
	pushScript(t, `prober push --server "$1" backup -- yes | head -n 1`, "y\n", "failure signal: broken pipe after ")
}

// The command ignores the signals that prober was started to ignore, as under nohup.
func TestPushKeepsIgnoredSignals(t *testing.T) {
	t.Parallel()
	const script = `trap "" HUP; exec prober push --server "$1" backup -- sh -c 'kill -HUP $PPID $$; echo alive'`
	pushScript(t, script, "alive\n", "success after ")
}

// One file as stdout and stderr keeps the order of the output.
func TestPushKeepsOrder(t *testing.T) {
	t.Parallel()
	server, reports := pushTarget(t)
	cmd := exec.CommandContext(t.Context(), "prober", "push", "--server", server, "backup", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo out $i; echo err $i >&2; done")
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(file.Name())
	if want := "out 1\nerr 1\nout 2\nerr 2\nout 3\n"; err != nil || !strings.HasPrefix(string(text), want) || strings.Count(string(text), "\n") != 16 {
		t.Errorf("got %v, %s", err, text)
	}
	if report := <-reports; !strings.HasSuffix(report, ": err 8") {
		t.Errorf("report %q", report)
	}
}
