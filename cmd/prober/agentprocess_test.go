package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/probe"
)

// probeView is an item of /api/v1/probes.
type probeView struct {
	Container, ContainerID, Kind, Handler, Result string
	OnHold                                        bool
	Last                                          *struct {
		Result, Output, Error string
		Metrics               []probe.Metric
	}
}

// state is the state in the responses of the API.
type state struct {
	pod    v1.Pod
	probes map[string]probeView // by container and kind, "web/readiness"
}

// agentProcess is a running `prober run`.
type agentProcess struct {
	cmd    *exec.Cmd
	url    string
	socket string        // its path
	stderr *bytes.Buffer // to be read after reader
	reader sync.WaitGroup
	events chan event
	now    state
}

// event is one event of the stream.
type event struct {
	name string
	data []byte
}

// runAgent runs an agent with a pod.
func runAgent(t *testing.T, manifest, plugins string) *agentProcess {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	return startAgent(t, nil, "-f", path, "--plugins", plugins, "--restart-backoff", "1s")
}

// startAgent runs `prober run` with flags, and with additional environment variables.
func startAgent(t *testing.T, env []string, flags ...string) *agentProcess {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	short, err := os.MkdirTemp("", "p") // a path that sockets can have
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	read, write := io.Pipe()
	a := &agentProcess{stderr: new(bytes.Buffer), events: make(chan event), socket: filepath.Join(short, "s"), now: state{probes: make(map[string]probeView)}}
	args := append([]string{"prober", "run", "--listen", "127.0.0.1:0", "--socket", a.socket}, flags...)
	a.cmd = &exec.Cmd{Path: exe, Args: args, Env: append(os.Environ(), env...), Stderr: write}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = a.cmd.Process.Kill() // it has ended if all went well
		_ = a.cmd.Wait()
		_ = write.Close()
		a.reader.Wait()
	})
	address := make(chan string, 1)
	a.reader.Go(func() {
		for r := bufio.NewReader(read); ; {
			line, err := r.ReadString('\n')
			a.stderr.WriteString(line)
			if _, after, ok := strings.Cut(line, "msg=listening address="); ok {
				address <- strings.TrimSpace(after)
			}
			if err != nil {
				return
			}
		}
	})
	select {
	case at := <-address:
		a.url = "http://" + at
	case <-time.After(patience):
		t.Fatal("the agent does not listen")
	}
	a.follow(t)
	return a
}

// follow reads the stream until the agent or the test ends.
func (a *agentProcess) follow(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", a.url+"/api/v1/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(a.events)
		defer res.Body.Close()
		var name string
		for r := bufio.NewReader(res.Body); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if after, ok := strings.CutPrefix(line, "event: "); ok {
				name = strings.TrimSpace(after)
			}
			if after, ok := strings.CutPrefix(line, "data: "); ok {
				select {
				case a.events <- event{name, []byte(after)}:
				case <-ctx.Done():
					return
				}
			}
		}
	})
	t.Cleanup(func() { cancel(); reading.Wait() })
}

// await follows the stream until wrong returns "".
func (a *agentProcess) await(t *testing.T, name string, wrong func(*state) string) {
	t.Helper()
	deadline, last := time.After(patience), "no event came"
	for {
		select {
		case e, ok := <-a.events:
			if !ok {
				t.Fatalf("%s: the stream has ended; %s", name, last)
			}
			a.now.take(t, e)
			if last = wrong(&a.now); last == "" {
				return
			}
		case <-deadline:
			text, _ := json.Marshal(a.now.pod.Status)
			t.Fatalf("%s: %s\n%s\n%+v", name, last, text, a.now.probes)
		}
	}
}

func (s *state) take(t *testing.T, e event) {
	t.Helper()
	var err error
	switch e.name {
	case "pod":
		s.pod = v1.Pod{}
		err = json.Unmarshal(e.data, &s.pod)
	case "probe":
		var p probeView
		err = json.Unmarshal(e.data, &p)
		s.probes[p.Container+"/"+p.Kind] = p
	}
	if err != nil {
		t.Fatalf("%v in %s", err, e.data)
	}
}

// get returns the contents of the two lists.
func (a *agentProcess) get(t *testing.T) state {
	t.Helper()
	s := state{probes: make(map[string]probeView)}
	var pods v1.PodList
	var probes struct{ Items []probeView }
	fetch(t, a.url+"/api/v1/pods", &pods)
	fetch(t, a.url+"/api/v1/probes?namespace=default&pod=six", &probes)
	if len(pods.Items) != 1 {
		t.Fatalf("%d pods", len(pods.Items))
	}
	s.pod = pods.Items[0]
	for _, p := range probes.Items {
		s.probes[p.Container+"/"+p.Kind] = p
	}
	return s
}

func fetch(t *testing.T, url string, into any) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

// stop ends the agent as an operator does, and returns its stderr.
func (a *agentProcess) stop(t *testing.T) string {
	t.Helper()
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for range a.events { // until the agent closes the stream
	}
	ended := make(chan error, 1)
	go func() { ended <- a.cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("exit: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("SIGTERM does not end the agent")
	}
	_ = a.cmd.Stderr.(*io.PipeWriter).Close()
	a.reader.Wait()
	return a.stderr.String()
}
