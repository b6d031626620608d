package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLogReaderDoesNotStopAgent closes the reader of the log, or stops reading. Containers still run and are
// probed, until a signal stops them gracefully.
func TestLogReaderDoesNotStopAgent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		stop func(reader *os.File) error
	}{
		{"ended", (*os.File).Close},                            // prober run 2>&1 | head -1
		{"reads no more", func(*os.File) error { return nil }}, // … | less
	} {
		t.Run(c.name, func(t *testing.T) {
			hits := make(chan struct{})
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusTeapot) // a line for each probe
				select {
				case hits <- struct{}{}:
				default:
				}
			}))
			defer web.Close()
			story := newStory(t)
			agent, url := runIntoPipe(t, fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations:
    prober.dev/probes: |
      web: {readiness: {httpGet: {path: /, port: %s}, period: 20ms, timeout: 30s}}
spec:
  containers:
  - name: web
  - name: app
    command: [sh, -c, 'exec 3<>"$1"; trap "sleep 0.2; echo graceful >&3; exit" TERM; seq 20000; echo wrote >&3; sleep 600 & wait', sh, %q]
`, web.URL[strings.LastIndex(web.URL, ":")+1:], story.path), c.stop)
			story.await(t, "wrote")
			deadline := time.After(patience)
			next := func() {
				select {
				case <-hits:
				case <-deadline:
					t.Fatal("the probes have stopped")
				}
			}
			for next(); dropped(t, url, "stdout") == 0; next() {
			}
			for range 20 {
				next()
			}
			if c.name == "ended" && dropped(t, url, "stderr") == 0 {
				t.Error("lines of stderr are not counted")
			}
			if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			story.await(t, "graceful")
			ended := make(chan error, 1)
			go func() { ended <- agent.Wait() }()
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-deadline:
				t.Fatal("SIGTERM does not end the agent")
			}
		})
	}
}

// runIntoPipe runs an agent whose output goes to one small pipe. It reads the pipe until the agent listens,
// and then passes the reader to stop.
func runIntoPipe(t *testing.T, manifest string, stop func(*os.File) error) (agent *exec.Cmd, url string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close() })
	if _, err := unix.FcntlInt(write.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	agent = &exec.Cmd{
		Path: exe, Args: []string{"prober", "run", "-f", path, "--listen", "127.0.0.1:0"}, Stdout: write, Stderr: write,
	}
	err = agent.Start()
	_ = write.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = agent.Process.Kill() // it has ended if all went well
		_ = agent.Wait()
	})
	if err := read.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewReader(read); url == ""; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if _, after, ok := strings.Cut(line, "msg=listening address="); ok {
			url = "http://" + strings.TrimSpace(after)
		}
	}
	if err := stop(read); err != nil {
		t.Fatal(err)
	}
	return agent, url
}

// dropped returns how many lines of a stream the agent has dropped.
func dropped(t *testing.T, url, stream string) (n float64) {
	t.Helper()
	res, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^prober_log_lines_dropped_total\{stream="` + stream + `"\} (\S+)$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("no count of %s in\n%s", stream, text)
	}
	if _, err := fmt.Sscan(string(found[1]), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// story is a named pipe with lines that a container writes for the test.
type story struct {
	path  string
	pipe  *os.File
	lines *bufio.Reader
}

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{path: filepath.Join(t.TempDir(), "story")}
	if err := syscall.Mkfifo(s.path, 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.pipe, err = os.OpenFile(s.path, os.O_RDWR|syscall.O_NONBLOCK, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.pipe.Close() })
	s.lines = bufio.NewReader(s.pipe)
	return s
}

// await reads the next line of the container, which must be want.
func (s *story) await(t *testing.T, want string) {
	t.Helper()
	if err := s.pipe.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if line, err := s.lines.ReadString('\n'); err != nil || line != want+"\n" {
		t.Fatalf("the container says %q, %v; want %q", line, err, want)
	}
}
