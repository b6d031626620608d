//go:build linux

package cri

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/daeace23/prober/handlers/builtin/execprobe"
	"github.com/daeace23/prober/pods/kube/cri"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/test/kube/bed"
)

// follow returns a running client of containerd, and the UIDs of pods whose containers have changed.
func follow(t *testing.T) (*cri.Client, chan types.UID) {
	t.Helper()
	c, err := cri.New(cri.Config{Socket: bed.CRISocket, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	changed := make(chan types.UID, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx, func(uid types.UID) { changed <- uid }) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, changed
}

func uidOf(s *bed.Sandbox) types.UID { return types.UID(s.Config.Metadata.Uid) }

// await waits until ok returns true for the container app of a pod.
func await(t *testing.T, c *cri.Client, changed chan types.UID, s *bed.Sandbox, what string, ok func(cri.Container) bool) cri.Container {
	t.Helper()
	start := time.Now()
	for {
		got, found := c.Container(uidOf(s), "app")
		if found && ok(got) {
			t.Logf("%s after %v", what, time.Since(start).Round(time.Millisecond))
			return got
		}
		select {
		case <-changed:
		case <-time.After(time.Minute):
			t.Fatalf("not %s within a minute: %+v, trouble %v", what, got, c.Trouble())
		}
	}
}

// TestStates checks the states of a container that ends and is started again, and while containerd is
// stopped.
func TestStates(t *testing.T) {
	cluster := bed.Up(t, bed.CRI)
	raw := bed.RuntimeClient(t)
	c, changed := follow(t)
	s := bed.RunSandbox(t, raw, "web", true)
	id := bed.RunContainer(t, raw, s, "app", 0, map[string]string{"EXIT_ON_TERM": "5"})
	first := await(t, c, changed, s, "running", func(c cri.Container) bool { return c.Running })
	answer, err := raw.ContainerStatus(t.Context(), &runtime.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		t.Fatal(err)
	}
	if first.ID != "containerd://"+id || first.SandboxID != s.ID || first.Namespace != "default" || first.Pod != "web" || first.StartedAt.UnixNano() != answer.Status.StartedAt {
		t.Errorf("got %+v, want the container of %v", first, answer.Status)
	}
	if uid, ok := c.Owner(first.ID); !ok || uid != uidOf(s) {
		t.Errorf("owner %q, %t", uid, ok)
	}
	if err := c.Stop(t.Context(), first.ID, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	ended := await(t, c, changed, s, "ended", func(c cri.Container) bool { return c.Exited })
	if ended.ExitCode != 5 || ended.Reason != "Error" || ended.FinishedAt.Before(ended.StartedAt) {
		t.Errorf("ended %+v", ended)
	}
	second := bed.RunContainer(t, raw, s, "app", 1, nil)
	await(t, c, changed, s, "running again", func(c cri.Container) bool { return c.Running && c.Restarts == 1 && c.ID == "containerd://"+second })

	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uidOf(s)}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}}}}
	status := v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "app", ContainerID: first.ID, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}}
	c.Overlay(pod, &status)
	if got := status.ContainerStatuses[0]; got.ContainerID != "containerd://"+second || got.RestartCount != 1 || got.State.Running == nil || got.LastTerminationState.Terminated.ExitCode != 5 {
		t.Errorf("status %+v", got)
	}

	cluster.Containerd.Stop(t)
	bed.Await(t, "trouble", func() bool { return c.Trouble() != nil })
	if got, ok := c.Container(uidOf(s), "app"); !ok || !got.Running {
		t.Errorf("while containerd is away: %+v", got)
	}
	if _, err := c.RunInContainer(t.Context(), second, []string{"/app", "check", "0"}, 10*time.Second); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a command while containerd is away: %v", err)
	}
	cluster.Containerd.Start(t)
	bed.Await(t, "no trouble", func() bool { return c.Trouble() == nil })
	if got, ok := c.Container(uidOf(s), "app"); !ok || !got.Running || got.ID != "containerd://"+second {
		t.Errorf("after containerd has come back: %+v", got)
	}
	if _, err := c.RunInContainer(t.Context(), second, []string{"/app", "check", "0"}, 10*time.Second); err != nil {
		t.Error(err)
	}
}

// sleepers returns the processes of "/app sleep".
func sleepers(t *testing.T) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		if line, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(line), "/app\x00sleep") {
			pids = append(pids, file)
		}
	}
	return pids
}

func TestCommands(t *testing.T) {
	bed.Up(t, bed.CRI)
	raw := bed.RuntimeClient(t)
	c, _ := follow(t)
	s := bed.RunSandbox(t, raw, "web", false)
	id := "containerd://" + bed.RunContainer(t, raw, s, "app", 0, nil)
	run := func(timeout time.Duration, cmd ...string) (string, error) {
		out, err := c.RunInContainer(t.Context(), id, cmd, timeout)
		return string(out), err
	}
	if out, err := run(time.Minute, "/app", "check", "0"); err != nil || !strings.Contains(out, "check 0") {
		t.Errorf("exit code 0: %q, %v", out, err)
	}
	out, err := run(time.Minute, "/app", "check", "7")
	if exit, ok := errors.AsType[*execprobe.CommandExitError](err); !ok || exit.Code != 7 || !strings.Contains(out, "check 7") {
		t.Errorf("exit code 7: %q, %v", out, err)
	}
	if out, err := run(time.Minute, "/app", "print", "1000000"); err != nil || len(out) != probe.MaxOutput {
		t.Errorf("a large output: %d bytes, %v", len(out), err)
	}
	if _, err := run(time.Minute, "/missing"); err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("missing program: %v", err)
	} else if _, exit := errors.AsType[interface {
		error
		ExitStatus() int
	}](err); exit {
		t.Errorf("missing program is a verdict: %v", err)
	}
	if _, err := c.RunInContainer(t.Context(), "containerd://none", []string{"/app"}, time.Minute); !errors.Is(err, cri.ErrNoContainer) {
		t.Errorf("unknown container: %v", err)
	}
	for _, timeout := range []time.Duration{300 * time.Millisecond, time.Second, 1500 * time.Millisecond} {
		start := time.Now()
		_, err := run(timeout, "/app", "sleep", "10m")
		t.Logf("a timeout of %v ended after %v", timeout, time.Since(start).Round(time.Millisecond))
		if late, ok := errors.AsType[*execprobe.CommandTimeoutError](err); !ok || late.Timeout != timeout {
			t.Errorf("timeout of %v: %v", timeout, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(500*time.Millisecond, cancel)
	if _, err := c.RunInContainer(ctx, id, []string{"/app", "sleep", "10m"}, 3*time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	bed.Await(t, "the end of commands that were not in time", func() bool { return len(sleepers(t)) == 0 })
	start := time.Now()
	const n = 20
	for range n {
		if _, err := run(time.Minute, "/app", "check", "0"); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%v a command", (time.Since(start) / n).Round(time.Millisecond))
	if err := c.Stop(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := run(time.Minute, "/app", "check", "0"); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a container that has ended: %v", err)
	}
}

var timeouts = flag.Int("timeouts", 60, "number of attempts of TestCommandsLeaveNoProcess")

// TestCommandsLeaveNoProcess runs commands in four containers that do not end. All attempts time out, or are
// canceled before the runtime's own timeout. The commands must have ended after the client is closed.
// containerd 1.6 cannot kill the command of a call that has ended.
func TestCommandsLeaveNoProcess(t *testing.T) {
	bed.Up(t, bed.CRI)
	raw := bed.RuntimeClient(t)
	c, err := cri.New(cri.Config{Socket: bed.CRISocket, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := bed.RunSandbox(t, raw, "web", false)
	const containers = 4
	var attempts sync.WaitGroup
	var most, late, canceled, refused atomic.Int64
	for i := range containers {
		id := bed.RunContainer(t, raw, s, fmt.Sprint("app", i), 0, map[string]string{"ADDR": fmt.Sprint(":", 18080+i)})
		attempts.Go(func() {
			for n := range *timeouts / containers {
				ctx, cancel := context.WithCancel(t.Context())
				if n%3 == 0 {
					time.AfterFunc(200*time.Millisecond, cancel)
				}
				_, err := c.RunInContainer(ctx, id, []string{"/app", "sleep", "10m"}, 300*time.Millisecond)
				cancel()
				switch {
				case errors.Is(err, context.Canceled):
					canceled.Add(1)
				case errors.Is(err, context.DeadlineExceeded):
					late.Add(1)
				case probe.ReasonOf(err) == probe.ReasonHostResources:
					refused.Add(1)
					time.Sleep(300 * time.Millisecond)
				default:
					t.Errorf("attempt %d of container %d: %v", n, i, err)
				}
				most.Store(max(most.Load(), int64(c.Left())))
			}
		})
	}
	attempts.Wait()
	t.Logf("%d attempts timed out, %d were canceled, %d were refused; up to %d commands were still running", late.Load(), canceled.Load(), refused.Load(), most.Load())
	if most.Load() > 8*containers {
		t.Errorf("%d commands were still running at once", most.Load())
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if n := c.Left(); n != 0 {
		t.Errorf("%d commands are left", n)
	}
	bed.Await(t, "the end of all commands", func() bool { return len(sleepers(t)) == 0 })
}

func TestStop(t *testing.T) {
	bed.Up(t, bed.CRI)
	raw := bed.RuntimeClient(t)
	c, _ := follow(t)
	s := bed.RunSandbox(t, raw, "web", false)
	for attempt, test := range []struct {
		grace       time.Duration
		ignores     string // how long the app ignores SIGTERM
		code        int32
		least, most time.Duration
	}{
		{30 * time.Second, "0s", 0, 0, 29 * time.Second},
		{1500 * time.Millisecond, "1h", 137, 2 * time.Second, time.Minute},
		{0, "1h", 137, 0, time.Minute},
	} {
		id := bed.RunContainer(t, raw, s, "app", uint32(attempt), map[string]string{"TERM_DELAY": test.ignores, "ADDR": fmt.Sprint(":", 18080+attempt)})
		bed.Await(t, "the app to answer", func() bool {
			_, err := c.RunInContainer(t.Context(), id, []string{"/app", "check"}, 10*time.Second)
			return err == nil
		})
		start := time.Now()
		if err := c.Stop(t.Context(), "containerd://"+id, test.grace); err != nil {
			t.Fatal(err)
		}
		took := time.Since(start)
		t.Logf("a grace of %v took %v", test.grace, took.Round(time.Millisecond))
		answer, err := raw.ContainerStatus(t.Context(), &runtime.ContainerStatusRequest{ContainerId: id})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Status.State != runtime.ContainerState_CONTAINER_EXITED || answer.Status.ExitCode != test.code || took < test.least || took > test.most {
			t.Errorf("grace %v: %v with code %d after %v", test.grace, answer.Status.State, answer.Status.ExitCode, took)
		}
		if err := c.Stop(t.Context(), "containerd://"+id, test.grace); err != nil {
			t.Errorf("second call: %v", err)
		}
	}
	if err := c.Stop(t.Context(), "containerd://none", time.Second); err != nil {
		t.Errorf("unknown container: %v", err)
	}
}

func TestNetworkNamespace(t *testing.T) {
	bed.Up(t, bed.CRI)
	raw := bed.RuntimeClient(t)
	c, _ := follow(t)
	s := bed.RunSandbox(t, raw, "web", true)
	path, err := c.NetworkNamespace(t.Context(), uidOf(s))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := raw.PodSandboxStatus(t.Context(), &runtime.PodSandboxStatusRequest{PodSandboxId: s.ID, Verbose: true})
	if err != nil {
		t.Fatal(err)
	}
	var info struct{ PID int }
	if err := json.Unmarshal([]byte(answer.Info["info"]), &info); err != nil {
		t.Fatal(err)
	}
	inode := func(file string) uint64 {
		var st syscall.Stat_t
		if err := syscall.Stat(file, &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}
	if got, want := inode(path), inode(fmt.Sprintf("/proc/%d/ns/net", info.PID)); got != want {
		t.Errorf("%s is namespace %d, want %d", path, got, want)
	}
	if inode(path) == inode("/proc/self/ns/net") {
		t.Errorf("%s is the namespace of the node", path)
	}
	host := bed.RunSandbox(t, raw, "host", false)
	if path, err := c.NetworkNamespace(t.Context(), uidOf(host)); !errors.Is(err, cri.ErrHostNetwork) {
		t.Errorf("a pod in the network of the node: %q, %v", path, err)
	}
	if _, err := c.NetworkNamespace(t.Context(), "none"); err == nil || !strings.Contains(err.Error(), "has no sandbox") {
		t.Errorf("unknown pod: %v", err)
	}
}
