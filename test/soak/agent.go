//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// agent is a running `prober run`.
type agent struct {
	cmd    *exec.Cmd
	url    string
	ended  chan struct{} // closed when the process has ended
	client *http.Client
	local  *http.Client // over the Unix socket, for actions
}

// start starts an agent that writes to stdout and stderr, and waits until it listens. The caller
// must call kill.
func (o *options) start(ctx context.Context, stdout, stderr *os.File, args ...string) (*agent, error) {
	dir, err := os.MkdirTemp(o.temp, "agent-")
	if err != nil {
		return nil, err
	}
	addr, socket := filepath.Join(dir, "addr"), filepath.Join(dir, "s")
	args = append([]string{"run", "--listen", "127.0.0.1:0", "--addr-file", addr, "--socket", socket}, args...)
	a := &agent{
		cmd: exec.Command(o.prober, args...), ended: make(chan struct{}),
		client: &http.Client{Timeout: time.Minute},
		local: &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}},
	}
	a.cmd.Stdout, a.cmd.Stderr = stdout, stderr
	temp := filepath.Join(o.temp, "tmp") // shared by all agents
	if err := os.Mkdir(temp, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	a.cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // keeps Ctrl-C from the agent
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = a.cmd.Wait()
		close(a.ended)
	}()
	for giveUp := time.Now().Add(patience); time.Now().Before(giveUp); time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(addr); err == nil {
			a.url = "http://" + string(text)
			return a, nil
		}
		select {
		case <-a.ended:
			return nil, fmt.Errorf("the agent ended at its start: %v", a.cmd.ProcessState)
		case <-ctx.Done():
			a.kill()
			return nil, ctx.Err()
		default:
		}
	}
	a.kill()
	return nil, fmt.Errorf("the agent does not listen")
}

// runs reports whether the process is running.
func (a *agent) runs() bool {
	select {
	case <-a.ended:
		return false
	default:
		return true
	}
}

// kill kills the agent if it is running, and waits for its end.
func (a *agent) kill() {
	_ = a.cmd.Process.Kill() // does nothing if the agent has ended
	<-a.ended
	a.client.CloseIdleConnections()
	a.local.CloseIdleConnections()
}

// end sends SIGTERM, waits for the end of the agent, and adds the time to r.
func (a *agent) end(r *report) {
	begin := time.Now()
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.fault("SIGTERM: %v", err)
	}
	select {
	case <-a.ended:
	case <-time.After(patience):
		r.fault("the agent has not ended %v after SIGTERM", patience)
		return
	}
	if code := a.cmd.ProcessState.ExitCode(); code != 0 {
		r.fault("the agent ended after SIGTERM with %v, want exit code 0", a.cmd.ProcessState)
	}
	r.add("end after SIGTERM", "%v", time.Since(begin).Round(time.Millisecond))
}

// probeView is an item of /api/v1/probes.
type probeView struct {
	Pod, Container, ContainerID, Kind, Handler, Result string

	Paused  bool
	Removed bool // only in events of the stream
	Spec    struct{ FailureThreshold int }
	Last    *tick
	History []tick
}

type tick struct {
	Result, Output, Error string
	Attempts              int
	Time                  time.Time
	DurationSeconds       float64
}

func (t *tick) end() time.Time {
	return t.Time.Add(time.Duration(t.DurationSeconds * float64(time.Second)))
}

func (p *probeView) key() string { return p.Pod + "/" + p.Container + "/" + p.Kind }

// probes lists probes; query is "" or "?pod=…".
func (a *agent) probes(query string) ([]probeView, error) {
	all, _, err := a.page(query)
	return all, err
}

// page lists probes. If the query has a limit, next is the token for the next page; it is "" after the
// last page.
func (a *agent) page(query string) (items []probeView, next string, err error) {
	err = a.ask("/api/v1/probes"+query, func(r io.Reader) error {
		var list struct {
			Metadata struct{ Continue string }
			Items    []probeView
		}
		err := json.NewDecoder(r).Decode(&list)
		items, next = list.Items, list.Metadata.Continue
		return err
	})
	return items, next, err
}

// list lists probes. If query is "", it lists all of them, in pages.
func (a *agent) list(query string) ([]probeView, error) {
	if query == "" {
		return a.allProbes()
	}
	return a.probes(query)
}

// allProbes lists all probes. It uses pages, because the agent ends a response after 30 s.
func (a *agent) allProbes() (all []probeView, err error) {
	for query := "?limit=500"; ; {
		items, next, err := a.page(query)
		all = append(all, items...)
		if err != nil || next == "" {
			return all, err
		}
		query = "?limit=500&continue=" + next
	}
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

// pluginView is an item of /api/v1/plugins.
type pluginView struct{ Name, Version, Error string }

// plugin returns a plugin's status; the zero value if the agent has no such plugin.
func (a *agent) plugin(name string) (pluginView, error) {
	var all struct{ Items []pluginView }
	err := a.ask("/api/v1/plugins", func(r io.Reader) error { return json.NewDecoder(r).Decode(&all) })
	at := slices.IndexFunc(all.Items, func(p pluginView) bool { return p.Name == name })
	if err != nil || at < 0 {
		return pluginView{}, err
	}
	return all.Items[at], nil
}

func (a *agent) ask(path string, read func(io.Reader) error) error {
	return ask(a.client, a.url+path, read)
}

func ask(client *http.Client, url string, read func(io.Reader) error) error {
	res, err := client.Get(url)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	return read(res.Body)
}

// act triggers, pauses or resumes a probe.
func (a *agent) act(probe, action string) error {
	res, err := a.local.Post("http://localhost/api/v1/probes/default/"+probe+"/"+action, "", nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 300))
		return fmt.Errorf("%s %s: %s: %s", action, probe, res.Status, text)
	}
	return nil
}

// size is a sample of the agent's resources.
type size struct {
	at                           time.Time
	rss, anonymous, heap, stacks float64 // bytes
	goroutines, fds, threads     float64
	cpu                          time.Duration
}

// addRuntime adds the resources that only the Go runtime of the agent knows.
func (s *size) addRuntime(m scrape) {
	s.heap, s.stacks = m.values["go_memstats_heap_inuse_bytes"], m.values["go_memstats_stack_inuse_bytes"]
	s.goroutines = m.values["go_goroutines"]
}

// measure reads the resources of the agent from /proc: all but those of [size.addRuntime].
func (a *agent) measure() (s size, err error) {
	dir := fmt.Sprintf("/proc/%d/", a.cmd.Process.Pid)
	rollup, err := os.ReadFile(dir + "smaps_rollup")
	if err != nil {
		return s, err
	}
	rss, anonymous := kibOf(rollup, "Rss:"), kibOf(rollup, "Anonymous:")
	if rss == 0 {
		return s, fmt.Errorf("no Rss in smaps_rollup")
	}
	open, err := os.ReadDir(dir + "fd")
	if err != nil {
		return s, err
	}
	cpu, threads, err := processOf(a.cmd.Process.Pid)
	return size{at: time.Now(), rss: rss * 1024, anonymous: anonymous * 1024, fds: float64(len(open)), threads: threads, cpu: cpu}, err
}

// kibOf returns a number of smaps_rollup by the name of its line, or 0 if there is none.
func kibOf(rollup []byte, name string) float64 {
	_, rest, _ := bytes.Cut(rollup, []byte("\n"+name))
	if fields := numbers(rest[:min(len(rest), 40)]); len(fields) > 0 {
		return fields[0]
	}
	return 0
}

const hertz = 100 // USER_HZ on all platforms of Go

// processOf returns the processor time and the number of threads of a process.
func processOf(pid int) (cpu time.Duration, threads float64, err error) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	stat, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, err
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	fields := numbers(rest)                            // fields[0] is field 3 of proc_pid_stat(5)
	const utime, stime, count = 14 - 3, 15 - 3, 20 - 3 // indices in fields
	if len(fields) <= count {
		return 0, 0, fmt.Errorf("%s: %d fields", path, len(fields))
	}
	return ticks(fields[utime] + fields[stime]), fields[count], nil
}

// ticks converts n units of 1/hertz s.
func ticks(n float64) time.Duration { return time.Duration(n / hertz * float64(time.Second)) }

// numbers returns the fields of a line as numbers, and 0 for fields that are not numbers.
func numbers(line []byte) (all []float64) {
	for field := range bytes.FieldsSeq(line) {
		n, _ := strconv.ParseFloat(string(field), 64)
		all = append(all, n)
	}
	return all
}

// usage is the processor time that these programs and the whole host have used, until at.
type usage struct {
	at                                time.Time
	agent, targets, self, host, steal time.Duration
}

// usage returns the processor time used so far.
func (w *world) usage() (u usage) {
	u.at = time.Now()
	u.agent, _, _ = processOf(w.agent.cmd.Process.Pid)
	u.targets, _, _ = processOf(w.targets.Pid)
	u.self, _, _ = processOf(os.Getpid())
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := bytes.Cut(text, []byte("\n"))
	const user, nice, system, irq, softirq, steal = 1, 2, 3, 6, 7, 8 // indices in the line, see proc_stat(5)
	if n := numbers(line); len(n) > steal {
		u.host, u.steal = ticks(n[user]+n[nice]+n[system]+n[irq]+n[softirq]), ticks(n[steal])
	}
	return u
}

// since describes how many processors were used between u and to. others is the number that programs
// besides the agent, the targets and this one used.
func (u usage) since(to usage) (text string, others float64) {
	span := float64(to.at.Sub(u.at))
	per := func(from, to time.Duration) float64 { return float64(to-from) / span }
	agent, targets, self := per(u.agent, to.agent), per(u.targets, to.targets), per(u.self, to.self)
	others = per(u.host, to.host) - agent - targets - self
	return fmt.Sprintf("%d processors: agent %.2f, targets %.2f, soak %.2f, others %.2f, stolen %.2f",
		processors(), agent, targets, self, others, per(u.steal, to.steal)), others
}
