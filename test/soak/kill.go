//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// killed has the arguments and the state of the agents that are killed.
type killed struct {
	*options
	report  *report
	targets oddTargets
	mark    string // in the environment of all local processes
	state   string // folder
	args    []string
	devnull *os.File

	ids       map[string]string // of the containers of the last agent, by probe
	restored  int
	processes int
	ends, ups latencies
}

// runKills kills an agent again and again. After each kill, every process that the agent started must
// end, and the next agent must restore the results of external targets.
func runKills(ctx context.Context, o *options, r *report) error {
	var c children
	defer c.end()
	all, log, err := runTargets(context.WithoutCancel(ctx), &c)
	if err != nil {
		return err
	}
	go func() { _, _ = io.Copy(io.Discard, log) }()
	k, err := newKilled(ctx, o, r, all.Odd)
	if err != nil {
		return err
	}
	defer k.devnull.Close()
	done := 0
	for ; done < o.kills && ctx.Err() == nil && r.passed(); done++ {
		if err := k.killOnce(ctx); err != nil {
			return fmt.Errorf("kill %d: %w", done, err)
		}
	}
	a, err := k.start(ctx)
	if err != nil {
		return err
	}
	defer a.kill()
	if err := k.checkRestored(a); err != nil {
		return err
	}
	if err := k.setGate("open"); err != nil {
		return err
	}
	if _, err := k.awaitAll(ctx, a); err != nil {
		return err
	}
	a.end(r)
	if left := marked(k.mark); len(left) > 0 {
		r.fault("%d processes outlive an agent that has ended", len(left))
		awaitEnd(kill(left))
	}
	if left, err := os.ReadDir(filepath.Join(o.temp, "tmp")); err != nil || len(left) > 0 {
		r.fault("%d files and folders are left in TMPDIR, %v", len(left), err)
	}
	r.add("kills", "%d, with %d processes; results restored %d times", done, k.processes, k.restored)
	r.add("from start to all probed", "%v", k.ups.all)
	r.add("from kill to no processes", "%v", k.ends.all)
	return nil
}

func newKilled(ctx context.Context, o *options, r *report, all oddTargets) (*killed, error) {
	dir, folder := filepath.Join(o.temp, "killed"), filepath.Join(o.temp, "killed-plugins")
	k := &killed{
		options: o, report: r, targets: all, state: filepath.Join(o.temp, "killed-state"),
		mark: fmt.Sprintf("kill-%d-%d", os.Getpid(), time.Now().UnixNano()),
	}
	k.args = []string{"-f", dir, "--plugins", folder, "--state-dir", k.state}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := putFile(filepath.Join(dir, "pods.yaml"), []byte(killedPods(k.mark, all))); err != nil {
		return nil, err
	}
	if err := o.pluginFolder(ctx, folder); err != nil {
		return nil, err
	}
	var err error
	k.devnull, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	return k, err
}

func (k *killed) start(ctx context.Context) (*agent, error) {
	return k.options.start(ctx, k.devnull, k.devnull, k.args...)
}

// killOnce starts an agent, checks the results that it has restored, and kills it when all processes run.
func (k *killed) killOnce(ctx context.Context) error {
	begin := time.Now()
	a, err := k.start(ctx)
	if err != nil {
		return err
	}
	defer a.kill()
	if k.ids != nil {
		if err := k.checkRestored(a); err != nil {
			return err
		}
	}
	if err := k.setGate("open"); err != nil {
		return err
	}
	if k.ids, err = k.awaitAll(ctx, a); err != nil {
		return err
	}
	k.ups.record(time.Since(begin))
	if err := k.setGate("shut"); err != nil { // so the next agent can have results by restoring alone
		return err
	}
	time.Sleep(rand.N(300 * time.Millisecond))
	strays, err := a.strays()
	if err != nil {
		return err
	}
	pids := append(marked(k.mark), strays...)
	k.processes += len(pids)
	fds := openProcesses(pids)
	if err := a.cmd.Process.Kill(); err != nil {
		return err
	}
	at := time.Now()
	<-a.ended
	if left := awaitEnd(fds); left > 0 {
		return fmt.Errorf("%d of %d processes outlive the agent", left, len(pids))
	}
	for giveUp := time.Now().Add(patience); len(marked(k.mark)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(giveUp) {
			return fmt.Errorf("processes started late: %v", marked(k.mark))
		}
	}
	k.ends.record(time.Since(at))
	return nil
}

// killedPods returns the manifests of two pods. Their containers, exec probes and plugin start processes,
// some in sessions of their own. The results of the external targets are saved.
func killedPods(mark string, all oddTargets) string {
	local := fmt.Sprintf(oddPod, "local", `
      forker: {liveness: {exec: {command: [sh, -c, "setsid sleep 10000 & wait"]}, period: 10ms, timeout: 1h}}`, fmt.Sprintf(`
  - name: forker
    env: [{name: M, value: %s}]
    command: [sh, -c, "for i in 1 2 3; do (sleep 10000 &); done; setsid sh -c 'sleep 10000 & sleep 10000 &'; exec sleep 10000"]
  - name: plain
    env: [{name: M, value: %[1]s}]
    command: [sleep, "10000"]`, mark))
	external := fmt.Sprintf(oddPod, "external", fmt.Sprintf(`
      exec: {liveness: {exec: {command: [sh, -c, "setsid sleep 10000 & wait"]}, period: 10ms, timeout: 1h}}
      plugin: {readiness: {plugin: {name: tester, config: {mode: strays}}, period: 500ms, timeout: 1m}}
      gate: {readiness: {httpGet: {path: /gate, port: %d}, period: 200ms, timeout: 30s, failureThreshold: 10}, liveness: {httpGet: {path: /gate, port: %[1]d}, period: 200ms, timeout: 30s, failureThreshold: 10}}`, all.HTTP), fmt.Sprintf(`
  - name: exec
    env: [{name: M, value: %s}]
  - name: plugin
  - name: gate`, mark))
	return local + "---\n" + external
}

// minMarked is the least number of processes of these pods with the mark: six sleeps of forker, one of
// plain, and two of each exec probe.
const minMarked = 6 + 1 + 2*2

// awaitAll waits until all processes run and the results of the gate are saved. It returns the container
// ID of each probe of the gate, by probe.
func (k *killed) awaitAll(ctx context.Context, a *agent) (map[string]string, error) {
	var why string
	for giveUp := time.Now().Add(patience); time.Now().Before(giveUp) && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		items, err := a.probes("?pod=external")
		if err != nil {
			return nil, err
		}
		ids := make(map[string]string)
		strays := false
		for _, p := range items {
			if p.Container == "gate" && p.Result == "success" && p.ContainerID != "" { // it has ticked
				ids[p.key()] = p.ContainerID
			}
			strays = strays || p.Container == "plugin" && p.Last != nil && p.Last.Result == "success"
		}
		running, saved := len(marked(k.mark)), k.saved()
		if len(ids) == 2 && strays && running >= minMarked && saved {
			return ids, nil
		}
		why = fmt.Sprintf("%d results of the gate, plugin %v, %d processes, saved %v", len(ids), strays, running, saved)
	}
	return nil, fmt.Errorf("not all processes and results: %s", why)
}

// saved reports whether both results of the gate are in the state folder.
func (k *killed) saved() bool {
	files, _ := filepath.Glob(filepath.Join(k.state, "*.pod.json")) // the pattern is valid
	successes := 0
	for _, file := range files {
		text, _ := os.ReadFile(file)
		successes += strings.Count(string(text), `"success"`)
	}
	return successes >= 2
}

// strays returns the IDs of the processes that the plugin has started. The plugin prints them.
func (a *agent) strays() (pids []int, err error) {
	items, err := a.probes("?pod=external&container=plugin")
	if err != nil {
		return nil, err
	}
	if len(items) != 1 || items[0].Last == nil {
		return nil, fmt.Errorf("%d probes of the plugin", len(items))
	}
	for field := range strings.FieldsSeq(items[0].Last.Output) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	if len(pids) != 4 {
		return nil, fmt.Errorf("strays: %q", items[0].Last.Output)
	}
	return pids, nil
}

// checkRestored checks that an agent has the results of the agent before it.
func (k *killed) checkRestored(a *agent) error {
	for giveUp := time.Now().Add(patience); time.Now().Before(giveUp); {
		items, err := a.probes("?pod=external&container=gate")
		if err != nil {
			return err
		}
		known := 0
		for _, p := range items { // empty until the manifests are applied
			if p.Result != "success" || p.ContainerID != "" && p.ContainerID != k.ids[p.key()] {
				k.report.fault("restored: %s is %s of %s, was success of %s", p.key(), p.Result, p.ContainerID, k.ids[p.key()])
			}
			if p.ContainerID != "" {
				known++
			}
		}
		if known == len(k.ids) {
			k.restored += known
			return nil
		}
	}
	return errors.New("restored: some probes are missing")
}

// setGate opens or shuts the gate; action is "open" or "shut".
func (k *killed) setGate(action string) error {
	return ask(http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/%s", k.targets.HTTP, action), func(io.Reader) error { return nil })
}

// openProcesses returns descriptors of processes, see pidfd_open(2). Unlike process IDs, they are not
// reused.
func openProcesses(pids []int) (fds []int) {
	for _, pid := range pids {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil { // otherwise the process has ended
			fds = append(fds, fd)
		}
	}
	return fds
}

// kill kills processes that an agent has left, and returns descriptors of them.
func kill(pids []int) (fds []int) {
	fds = openProcesses(pids)
	for _, fd := range fds {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
	return fds
}

// awaitEnd waits 30 s for the end of processes and closes their descriptors. It kills the remaining ones,
// and returns their number.
func awaitEnd(fds []int) (left int) {
	giveUp := time.Now().Add(30 * time.Second)
	for _, fd := range fds {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, int(max(0, time.Until(giveUp)).Milliseconds()))
		for err == unix.EINTR {
			n, err = unix.Poll(poll, int(max(0, time.Until(giveUp)).Milliseconds()))
		}
		if n != 1 {
			left++
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		_ = unix.Close(fd)
	}
	return left
}

// marked returns the processes that have mark in their arguments or environment.
func marked(mark string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		for _, file := range [...]string{"environ", "cmdline"} {
			if text, err := os.ReadFile(filepath.Join("/proc", e.Name(), file)); err == nil && bytes.Contains(text, []byte(mark)) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// runPipe is `prober run 2>&1 | head -1`: the agent must keep running after the reader of its log and of
// its containers' output has ended. SIGTERM must end it after the grace period of its containers.
func runPipe(ctx context.Context, o *options, r *report) error {
	dir := filepath.Join(o.temp, "pipe")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	mark := fmt.Sprintf("head-%d-%d", os.Getpid(), time.Now().UnixNano())
	graceful, manifest := filepath.Join(dir, "graceful"), filepath.Join(dir, "pod.yaml")
	text := fmt.Sprintf(oddPod, "talker", "\n      {}", fmt.Sprintf(`
  - name: talker
    command: [sh, -c, "trap 'sleep 1; echo graceful >%s; exit 0' TERM; while :; do echo here; sleep 0.05; done", %s]
    readinessProbe: {exec: {command: ["true"]}, periodSeconds: 1}`, graceful, mark))
	if err := putFile(manifest, []byte(text)); err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	a, err := o.start(ctx, write, write, "-f", manifest)
	_ = write.Close()
	if err != nil {
		return err
	}
	defer a.kill()
	line, err := bufio.NewReaderSize(read, 16).ReadString('\n')
	_ = read.Close()
	if err != nil {
		return fmt.Errorf("the first line: %q, %w", line, err)
	}
	select {
	case <-a.ended:
		r.fault("the agent ended with its reader: %v", a.cmd.ProcessState)
	case <-time.After(5 * time.Second): // the containers write a hundred lines in this time
		items, err := a.probes("")
		if err != nil || len(items) != 1 || items[0].Result != "success" {
			r.fault("without a reader: %+v, %v", items, err)
		}
		a.end(r)
	}
	if _, err := os.Stat(graceful); err != nil {
		r.fault("the container had no grace period: %v", err)
	}
	if left := marked(mark); len(left) > 0 {
		r.fault("%d processes outlive the agent", len(left))
	}
	return nil
}
