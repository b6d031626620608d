package local_test

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	parent, err := strconv.Atoi(string(bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])[1]))
	if err != nil {
		t.Fatal(err)
	}
	return parent
}

func TestKilledShimRestartsContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mark := "shim-" + strings.TrimPrefix(w.dir, os.TempDir()+"/")
	w.apply(t, strings.NewReplacer("MARK", mark).Replace(pod(`
  containers:
  - {name: c, command: [sh, -c, "echo up; sleep 1000"], env: [{name: M, value: MARK}]}
`)))
	w.awaitOutput(t, "pod/c: up", 1)
	first := marked(t, mark)
	shim := parentOf(t, first[0])
	for slices.Contains(first, shim) { // that was the shell of the container
		shim = parentOf(t, shim)
	}
	if err := syscall.Kill(shim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.awaitPod(t, "pod", "restarted", func(p *v1.Pod) bool {
		last := status(p, "c").LastTerminationState.Terminated
		return running(p, "c") && last != nil && last.ExitCode == 137 && last.Message == "the shim of the container was killed"
	})
	for _, pid := range first {
		awaitEnd(t, pid)
	}
}

func TestOrphansEndWithContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mark := "left-" + strings.TrimPrefix(w.dir, os.TempDir()+"/")
	w.apply(t, strings.NewReplacer("MARK", mark).Replace(pod(`
  restartPolicy: Never
  containers:
  - {name: c, command: [sh, -c, "setsid sh -c 'sleep 1000 & sleep 1000 &'; exit 7"], env: [{name: M, value: MARK}]}
`)))
	w.awaitPod(t, "pod", "ended", func(p *v1.Pod) bool {
		end := status(p, "c").State.Terminated
		return end != nil && end.ExitCode == 7
	})
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
