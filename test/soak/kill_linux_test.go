//go:build soak

package soak

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestKill kills an agent again and again. Each time every process that it has started ends, and the
// next agent restores the results of external targets.
func TestKill(t *testing.T) {
	need(t)
	var table figures
	defer table.print("kill -9")
	all := startTargets(t)
	dir, state := t.TempDir(), t.TempDir()
	mark := fmt.Sprintf("kill-%d-%d", os.Getpid(), time.Now().UnixNano())
	writeFile(t, filepath.Join(dir, "pods.yaml"), killedPods(mark, all))
	folder := pluginFolder(t)
	temp := t.TempDir() // of the agents
	t.Setenv("TMPDIR", temp)
	devnull, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = devnull.Close() })

	var ends, ups latencies
	var ids map[string]string // of the containers of the last agent, by probe
	restored, processes := 0, 0
	for i := range *kills {
		begin := time.Now()
		a := start(t, devnull, devnull, "-f", dir, "--plugins", folder, "--state-dir", state)
		if ids != nil {
			restored += checkRestored(t, a, ids)
		}
		a.tell(t, all, "open")
		ids = a.awaitAll(t, mark, state)
		ups.note(time.Since(begin))
		a.tell(t, all, "shut") // the next agent cannot probe what it restores
		time.Sleep(rand.N(300 * time.Millisecond))
		pids := append(marked(t, mark), a.told(t)...)
		processes += len(pids)
		fds := open(pids)
		if err := a.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		killed := time.Now()
		<-a.ended
		if left := awaitEnd(fds); left > 0 {
			t.Errorf("kill %d: %d of %d processes outlive the agent", i, left, len(pids))
		}
		for giveUp := time.Now().Add(patience); len(marked(t, mark)) > 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(giveUp) {
				t.Fatalf("kill %d: processes started late: %v", i, marked(t, mark))
			}
		}
		ends.note(time.Since(killed))
		if t.Failed() {
			break
		}
	}
	a := start(t, devnull, devnull, "-f", dir, "--plugins", folder, "--state-dir", state)
	restored += checkRestored(t, a, ids)
	a.tell(t, all, "open")
	table.add("end after SIGTERM", "%v", a.end(t).Round(time.Millisecond))
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%d files and folders are left in TMPDIR, %v", len(left), err)
	}
	table.add("kills", "%d, with %d processes; results restored %d times", *kills, processes, restored)
	ups.report(t, &table, "until all were probed", patience)
	ends.report(t, &table, "until none was left", patience)
	table.add("passed", "%v", !t.Failed())
}

// killedPods has containers, exec probes and a plugin that start processes, some in sessions of
// their own, and external targets whose results are saved.
func killedPods(mark string, all targets) string {
	local := fmt.Sprintf(pod, "local", `
      forker: {liveness: {exec: {command: [sh, -c, "setsid sleep 10000 & wait"]}, period: 10ms, timeout: 1h}}`, fmt.Sprintf(`
  - name: forker
    env: [{name: M, value: %s}]
    command: [sh, -c, "for i in 1 2 3; do (sleep 10000 &); done; setsid sh -c 'sleep 10000 & sleep 10000 &'; exec sleep 10000"]
  - name: plain
    env: [{name: M, value: %[1]s}]
    command: [sleep, "10000"]`, mark))
	external := fmt.Sprintf(pod, "external", fmt.Sprintf(`
      exec: {liveness: {exec: {command: [sh, -c, "setsid sleep 10000 & wait"]}, period: 10ms, timeout: 1h}}
      plugin: {readiness: {plugin: {name: tester, config: {mode: strays}}, period: 500ms, timeout: 1m}}
      gate: {readiness: {httpGet: {path: /gate, port: %d}, period: 200ms, timeout: 30s, failureThreshold: 10}, liveness: {httpGet: {path: /gate, port: %[1]d}, period: 200ms, timeout: 30s, failureThreshold: 10}}`, all.HTTP), fmt.Sprintf(`
  - name: exec
    env: [{name: M, value: %s}]
  - name: plugin
  - name: gate`, mark))
	return local + "---\n" + external
}

// least is the number of processes of these pods with the mark: six sleeps of forker, one of plain,
// and two of each exec probe.
const least = 6 + 1 + 2*2

// awaitAll waits until all processes run and the results of the gate were saved, and
// returns the IDs of its containers.
func (a *agent) awaitAll(t *testing.T, mark, state string) map[string]string {
	t.Helper()
	var why string
	for giveUp := time.Now().Add(patience); time.Now().Before(giveUp); time.Sleep(10 * time.Millisecond) {
		items, err := a.probes("?pod=external")
		if err != nil {
			t.Fatal(err)
		}
		ids := make(map[string]string)
		strays := false
		for _, p := range items {
			if p.Container == "gate" && p.Result == "success" && p.ContainerID != "" { // it has ticked
				ids[p.key()] = p.ContainerID
			}
			strays = strays || p.Container == "plugin" && p.Last != nil && p.Last.Result == "success"
		}
		running := len(marked(t, mark))
		if len(ids) == 2 && strays && running >= least && saved(t, state) {
			return ids
		}
		why = fmt.Sprintf("%d results of the gate, plugin %v, %d processes, saved %v", len(ids), strays, running, saved(t, state))
	}
	t.Fatal("not all processes and results: ", why)
	return nil
}

// saved reports whether both results of the gate are in the state folder.
func saved(t *testing.T, state string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(state, "*.pod.json"))
	if err != nil {
		t.Fatal(err)
	}
	successes := 0
	for _, file := range files {
		text, _ := os.ReadFile(file)
		successes += strings.Count(string(text), `"success"`)
	}
	return successes >= 2
}

// told returns the IDs of the processes that the plugin has started, from its output.
func (a *agent) told(t *testing.T) (pids []int) {
	t.Helper()
	items, err := a.probes("?pod=external&container=plugin")
	if err != nil || len(items) != 1 || items[0].Last == nil {
		t.Fatal(items, err)
	}
	for field := range strings.FieldsSeq(items[0].Last.Output) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) != 4 {
		t.Fatalf("strays: %q", items[0].Last.Output)
	}
	return pids
}

// checkRestored checks that a new agent has the results of the last one, and returns how many
// there are.
func checkRestored(t *testing.T, a *agent, ids map[string]string) int {
	t.Helper()
	for giveUp := time.Now().Add(patience); time.Now().Before(giveUp); {
		items, err := a.probes("?pod=external&container=gate")
		if err != nil {
			t.Fatal(err)
		}
		known := 0
		for _, p := range items { // none before the manifests are applied
			if p.Result != "success" || p.ContainerID != "" && p.ContainerID != ids[p.key()] {
				t.Errorf("restored: %s is %s of %s, was success of %s", p.key(), p.Result, p.ContainerID, ids[p.key()])
			}
			if p.ContainerID != "" {
				known++
			}
		}
		if known == len(ids) {
			return known
		}
	}
	t.Error("restored: some probes are missing")
	return 0
}

// tell opens or shuts the gate.
func (a *agent) tell(t *testing.T, all targets, what string) {
	t.Helper()
	res, err := a.client.Get(fmt.Sprintf("http://127.0.0.1:%d/%s", all.HTTP, what))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
}

// open returns descriptors of processes. Unlike process IDs, they are not reused.
func open(pids []int) (fds []int) {
	for _, pid := range pids {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil { // else it has ended
			fds = append(fds, fd)
		}
	}
	return fds
}

// awaitEnd waits for the end of processes, and returns how many it had to kill.
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

func (l *latencies) note(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, took)
}
