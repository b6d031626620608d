//go:build soak

package soak

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is the timeout of every wait.
const patience = 2 * time.Minute

// agent is a running `prober run`.
type agent struct {
	cmd    *exec.Cmd
	url    string
	ended  chan struct{} // closed when it has ended
	client *http.Client
}

// start starts an agent that writes to stderr and stdout, and waits until it listens.
func start(t *testing.T, stdout, stderr *os.File, args ...string) *agent {
	t.Helper()
	addr := filepath.Join(t.TempDir(), "addr")
	args = append([]string{"run", "--listen", "127.0.0.1:0", "--addr-file", addr}, args...)
	a := &agent{cmd: exec.Command(binary, args...), ended: make(chan struct{}), client: &http.Client{Timeout: 30 * time.Second}}
	a.cmd.Stdout, a.cmd.Stderr = stdout, stderr
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = a.cmd.Wait()
		close(a.ended)
	}()
	t.Cleanup(func() {
		_ = a.cmd.Process.Kill() // does nothing if the agent has ended
		<-a.ended
		a.client.CloseIdleConnections()
	})
	for giveUp := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(addr); err == nil {
			a.url = "http://" + string(text)
			return a
		}
		select {
		case <-a.ended:
			t.Fatal("the agent ended at its start: ", a.cmd.ProcessState)
		default:
		}
		if time.Now().After(giveUp) {
			t.Fatal("the agent does not listen")
		}
	}
}

// end sends SIGTERM, and returns how long the agent took to end.
func (a *agent) end(t *testing.T) time.Duration {
	t.Helper()
	begin := time.Now()
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error("SIGTERM: ", err)
	}
	select {
	case <-a.ended:
	case <-time.After(patience):
		t.Errorf("the agent has not ended %v after SIGTERM", patience)
		return patience
	}
	if code := a.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the agent ended after SIGTERM with %v, want exit code 0", a.cmd.ProcessState)
	}
	return time.Since(begin)
}

// probeView is an item of /api/v1/probes.
type probeView struct {
	Pod, Container, ContainerID, Kind, Handler, Result string
	Spec                                               struct{ FailureThreshold int }
	Last                                               *tick
	History                                            []tick
}

type tick struct {
	Result, Output, Error string
	Time                  time.Time
}

func (p *probeView) key() string { return p.Pod + "/" + p.Container + "/" + p.Kind }

// probes asks for probes; query is "" or "?pod=…".
func (a *agent) probes(query string) ([]probeView, error) {
	var all struct{ Items []probeView }
	return all.Items, a.ask("/api/v1/probes"+query, func(r io.Reader) error { return json.NewDecoder(r).Decode(&all) })
}

// restarts returns how often each container was restarted, by pod and container.
func (a *agent) restarts() (map[string]int, error) {
	type status struct {
		Name         string
		RestartCount int
	}
	var all struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct{ ContainerStatuses []status }
		}
	}
	err := a.ask("/api/v1/pods", func(r io.Reader) error { return json.NewDecoder(r).Decode(&all) })
	counts := make(map[string]int)
	for _, pod := range all.Items {
		for _, c := range pod.Status.ContainerStatuses {
			counts[pod.Metadata.Name+"/"+c.Name] = c.RestartCount
		}
	}
	return counts, err
}

// metrics returns the samples of /metrics, by name and labels.
func (a *agent) metrics() (map[string]float64, error) {
	all := make(map[string]float64)
	err := a.ask("/metrics", func(r io.Reader) error {
		text, err := io.ReadAll(r)
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
				all[line[:at]], _ = strconv.ParseFloat(line[at+1:], 64)
			}
		}
		return err
	})
	return all, err
}

func (a *agent) ask(path string, read func(io.Reader) error) error {
	res, err := a.client.Get(a.url + path)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, res.Status)
	}
	return read(res.Body)
}
