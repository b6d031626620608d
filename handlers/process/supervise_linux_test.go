package process_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/handlers/quarantine"
	"github.com/daeace23/prober/probe"
)

func pidOf(t *testing.T, h probe.Handler) int {
	t.Helper()
	got, err := attempt(t, h, patience)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(got.Output)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// watchEnd returns a channel that is closed when the process pid has ended.
func watchEnd(t *testing.T, pid int) <-chan struct{} {
	t.Helper()
	const sysPidfdOpen = 434
	fd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(pid), 0, 0)
	done := make(chan struct{})
	if errno == syscall.ESRCH {
		close(done)
		return done
	}
	if errno != 0 {
		t.Fatalf("pidfd_open: %v", errno)
	}
	go func() {
		defer close(done)
		defer syscall.Close(int(fd))
		awaitReadable(int(fd))
	}()
	return done
}

func awaitEnd(t *testing.T, ended <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Errorf("%s is still there", what)
	}
}

func TestKillDuringAttempt(t *testing.T) {
	h := load(t, process.Config{})
	pid := pidOf(t, bind(t, h, "pid"))
	hang := bind(t, h, "hang")
	_, err := attemptOf(t, hang, probe.Request{Attempt: 1, Debug: true, Trace: first(func() { // the attempt has begun
		_ = syscall.Kill(pid, syscall.SIGKILL)
	})}, patience)
	if err == nil || err.Error() != `plugin "tester": the process ended: signal: killed` || probe.ReasonOf(err) != probe.ReasonTrap {
		t.Errorf("the attempt in flight: got %v, reason %s", err, probe.ReasonOf(err))
	}
	if _, err := attemptOf(t, hang, probe.Request{Attempt: 2}, patience); err == nil || errors.Is(err, probe.ErrNoSlot) || probe.ReasonOf(err) != probe.ReasonTrap {
		t.Errorf("the second attempt of the tick: got %v", err)
	}
	if again := pidOf(t, bind(t, h, "pid")); again == pid {
		t.Error("the next tick has the old process")
	}
	if n := h.Stats().Starts; n != 2 {
		t.Errorf("%d starts, want 2", n)
	}
}

// impatient is a context whose deadline passes when Done is called.
type impatient struct {
	context.Context
	waited atomic.Bool
}

func (c *impatient) Deadline() (time.Time, bool) { return time.Now(), true }

func (c *impatient) Done() <-chan struct{} {
	c.waited.Store(true)
	done := make(chan struct{})
	close(done)
	return done
}

func (c *impatient) Err() error {
	if c.waited.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

func TestStartOutlivesAttempt(t *testing.T) {
	h := load(t, process.Config{})
	ok, pid := bind(t, h, "ok"), pidOf(t, bind(t, h, "pid"))
	ended := watchEnd(t, pid)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, ended, "the plugin")
	_, _ = attempt(t, ok, patience) // may reach the process while it is ending
	if pid = pidOf(t, bind(t, h, "pid")); syscall.Kill(pid, syscall.SIGKILL) != nil {
		t.Fatal("it was not started again")
	}
	awaitEnd(t, watchEnd(t, pid), "the plugin")
	if out, err := ok.Probe(&impatient{Context: t.Context()}, probe.Request{Attempt: 1, Spec: probe.Spec{Timeout: time.Millisecond}}); err == nil {
		t.Errorf("with no time for a start: got %v, want an error", out)
	}
	if _, err := h.Prepare(nil, probe.Target{}); err != nil { // Prepare waits for the start
		t.Error(err)
	}
	if out, err := attempt(t, ok, patience); err != nil || out.Result != probe.Success {
		t.Errorf("afterwards: got %v, %v", out, err)
	}
}

func TestCloseDespiteHangingAttempts(t *testing.T) {
	h := load(t, process.Config{})
	deaf := bind(t, h, "deaf")
	ended := watchEnd(t, pidOf(t, bind(t, h, "pid")))
	for deadline, over := time.Now().Add(patience), false; !over; {
		var wg sync.WaitGroup
		for range 300 { // more attempts than may continue after their deadlines
			wg.Go(func() { _, _ = attempt(t, deaf, 500*time.Millisecond) })
		}
		wg.Wait()
		select {
		case <-ended:
			over = true
		case <-time.After(time.Second):
			if time.Now().After(deadline) {
				t.Fatal("the plugin is still there")
			}
		}
	}
	if _, err := h.Prepare(nil, probe.Target{}); err != nil {
		t.Error(err)
	}
	if out, err := attempt(t, bind(t, h, "ok"), patience); err != nil || out.Result != probe.Success {
		t.Errorf("afterwards: got %v, %v", out, err)
	}
}

// TestStoppedProcessIsRestarted checks that a stopped process causes an error, not a Failure, and is
// restarted.
func TestStoppedProcessIsRestarted(t *testing.T) {
	t.Parallel()
	h := load(t, process.Config{StartTimeout: 3 * time.Second})
	ok, pid := bind(t, h, "ok"), pidOf(t, bind(t, h, "pid"))
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil) == unix.EINTR { // works because this program is the parent
	}
	for _, timeout := range []time.Duration{time.Second, 3500 * time.Millisecond} {
		if out, err := attempt(t, ok, timeout); err == nil || !strings.HasSuffix(err.Error(), "the process does not accept requests") {
			t.Errorf("got %v, %v", out, err)
		}
	}
	awaitEnd(t, watchEnd(t, pid), "the plugin")
	if _, err := h.Prepare(nil, probe.Target{}); err != nil {
		t.Error(err)
	}
	if out, err := attempt(t, ok, patience); err != nil || out.Result != probe.Success {
		t.Errorf("afterwards: got %v, %v", out, err)
	}
}

func TestRestartBackoff(t *testing.T) {
	h := load(t, process.Config{Pause: time.Hour, MaxPause: time.Hour})
	die := bind(t, h, "die")
	ok := bind(t, h, "ok")
	for i := range 2 { // the second process is started at once
		if _, err := attempt(t, die, patience); err == nil || !strings.Contains(err.Error(), "exit status 2: panic: in a goroutine") {
			t.Fatalf("%d: got %v", i, err)
		}
	}
	for range 100 {
		if _, err := attempt(t, ok, patience); !errors.Is(err, probe.ErrNoSlot) || !strings.Contains(err.Error(), "it is started again in 59m") && !strings.Contains(err.Error(), "it is started again in 1h") {
			t.Fatalf("in the pause: got %v, want no slot", err)
		}
	}
	if n := h.Stats().Starts; n != 2 {
		t.Errorf("%d starts, want 2", n)
	}
}

func TestCrashLoopIsQuarantined(t *testing.T) {
	t.Parallel()
	flag := filepath.Join(t.TempDir(), "flag")
	h := load(t, process.Config{Env: []string{"START=once", "FLAG=" + flag}, StartTimeout: 6 * time.Second, Pause: 100 * time.Millisecond})
	pid := pidOf(t, bind(t, h, "pid"))
	q := quarantine.New(h, quarantine.Config{})
	probes := [2]probe.Handler{bind(t, q, "ok"), bind(t, q, "ok")}
	ended := watchEnd(t, pid)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, ended, "the plugin")
	for range 7 { // the first attempt may reach the process while it is ending
		if _, err := attempt(t, probes[0], patience); err == nil {
			t.Fatal("an attempt reached a process that cannot start")
		}
	}
	_, err := attempt(t, probes[1], patience)
	if e, ok := errors.AsType[*quarantine.Error](err); !ok || !e.Skipped || probe.ReasonOf(err) != probe.ReasonInstantiate ||
		!strings.Contains(err.Error(), "exit status 9") {
		t.Errorf("another probe: got %v, want a quarantine of all", err)
	}
	_, err = h.Prepare(nil, probe.Target{})
	if err == nil || !strings.Contains(err.Error(), "exit status 9") && !strings.HasSuffix(err.Error(), "the process has not started yet") {
		t.Errorf("a new probe: got %v", err)
	}
	if n := h.Stats().Starts; n > 20 {
		t.Errorf("%d starts for 7 attempts and a probe", n)
	}
}

func TestChildEndsWithPlugin(t *testing.T) {
	for name, end := range map[string]func(h *process.Handler, pid int){
		"closed": func(h *process.Handler, _ int) { _ = h.Close() },
		"killed": func(_ *process.Handler, pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			h := load(t, process.Config{})
			pid, child := pidOf(t, bind(t, h, "pid")), pidOf(t, bind(t, h, "child"))
			ends := []<-chan struct{}{watchEnd(t, pid), watchEnd(t, child)}
			end(h, pid)
			awaitEnd(t, ends[0], "the plugin")
			awaitEnd(t, ends[1], "its child")
		})
	}
}

func TestCloseDrains(t *testing.T) {
	h := load(t, process.Config{})
	hang := bind(t, h, "hang")
	var answer chan probe.Outcome
	const timeout = time.Second
	for underWay := false; !underWay; { // repeat until an attempt begins before its deadline
		begun := make(chan struct{})
		answer = make(chan probe.Outcome, 1)
		go func() {
			out, _ := attemptOf(t, hang, probe.Request{Attempt: 1, Debug: true, Trace: first(func() { close(begun) })}, timeout)
			answer <- out
		}()
		select {
		case <-begun:
			underWay = true
		case <-answer:
		}
	}
	closed := make(chan struct{})
	go func() {
		_ = h.Close()
		close(closed)
	}()
	if out := <-answer; out.Output != "timed out after 1s" {
		t.Errorf("the attempt in flight: got %+v", out)
	}
	<-closed
	if _, err := attempt(t, hang, patience); err == nil || !strings.Contains(err.Error(), "the plugin has been closed") {
		t.Errorf("afterwards: got %v", err)
	}
}

func TestCloseEndsStart(t *testing.T) {
	env := []string{"START=once", "FLAG=" + filepath.Join(t.TempDir(), "flag"), "THEN=hang"}
	h := load(t, process.Config{Env: env, StartTimeout: patience})
	ok, pid := bind(t, h, "ok"), pidOf(t, bind(t, h, "pid"))
	ended := watchEnd(t, pid)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, ended, "the plugin")
	_, _ = attempt(t, ok, time.Second) // may reach the process while it is ending
	_, err := attempt(t, ok, time.Second)
	if !errors.Is(err, probe.ErrNoSlot) || !strings.HasSuffix(err.Error(), "the process has not started yet") {
		t.Errorf("while it starts: got %v, want no slot", err)
	}
	start := time.Now()
	if err := h.Close(); err != nil || time.Since(start) > patience/2 {
		t.Errorf("got %v after %v", err, time.Since(start))
	}
}

func TestKilledHostLeavesNoOrphan(t *testing.T) {
	temporary := t.TempDir()
	host := exec.Command(os.Args[0])
	host.Env = append(os.Environ(), hostVariable+"="+testerPath, "TMPDIR="+temporary)
	host.Stderr = os.Stderr
	stdout, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	ended := watchEnd(t, pid)
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	awaitEnd(t, ended, "the plugin of the host")
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("there is still %v, %v", left, err)
	}
}

// awaitReadable waits until fd is readable. A pidfd is readable when the process has ended.
func awaitReadable(fd int) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, 20_000); err != unix.EINTR {
			return
		}
	}
}

func TestCheckDeadline(t *testing.T) {
	dir, file := checkFolder(t), newFIFO(t)
	c := loadCheck(t, `[check_it, hang, "`+file+`"]`, dir)
	pid, got, err := expire(t, prepareCheck(t, c, `{}`), file)
	if err != nil || got.Output != "timed out after 500ms" {
		t.Errorf("got %+v, %v", got, err)
	}
	awaitEnd(t, watchEnd(t, number(t, pid)), "what the command had started")
}

func TestRestartsLeakNothing(t *testing.T) {
	h := load(t, process.Config{Pause: time.Nanosecond, MaxPause: time.Nanosecond})
	pid := bind(t, h, "pid")
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before, goroutines := 0, 0
	for i := range 25 {
		_, _ = attempt(t, pid, patience) // may reach the last process while it is ending
		number := pidOf(t, pid)
		ended := watchEnd(t, number)
		if i == 1 { // resources that are opened only once are open by then
			before, goroutines = descriptors(), runtime.NumGoroutine()
		}
		if err := syscall.Kill(number, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		awaitEnd(t, ended, "the plugin")
	}
	if n := h.Stats().Starts; n != 25 {
		t.Errorf("%d starts, want 25", n)
	}
	if err := h.Close(); err != nil { // waits until all processes have ended
		t.Error(err)
	}
	if after := descriptors(); after > before+10 {
		t.Errorf("%d descriptors, after %d", after, before)
	}
	if after := runtime.NumGoroutine(); after > goroutines+20 {
		t.Errorf("%d goroutines, after %d", after, goroutines)
	}
}
