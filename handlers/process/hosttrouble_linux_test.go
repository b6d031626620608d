package process_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// TestWithoutDescriptors checks that a missing descriptor for a process or command is an error of the
// host, not of the plugin, regardless of the error policy.
func TestWithoutDescriptors(t *testing.T) {
	const variable = "PROCESS_TEST_WITHOUT_DESCRIPTORS"
	if os.Getenv(variable) == "" { // the limit applies to a whole process
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWithoutDescriptors$")
		child.Env = append(os.Environ(), variable+"=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	h := load(t, process.Config{Pause: time.Millisecond, MaxPause: 2 * time.Millisecond}, func(m *plugin.Manifest) { m.ErrorPolicy = plugin.PolicyFailure })
	ok, pid := bind(t, h, "ok"), pidOf(t, bind(t, h, "pid"))
	check := prepareCheck(t, loadCheck(t, `[check_it, "{{config.mode}}"]`, checkFolder(t)), `{"mode":"ok"}`)
	ended := watchEnd(t, pid)
	allow := forbidDescriptors(t)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, ended, "the plugin")
	_, _ = attempt(t, ok, patience) // may reach the process while it is ending
	for name, p := range map[string]probe.Handler{"process": ok, "check": check} {
		for n := 1; n <= probe.MaxAttempts; n++ {
			out, err := attemptOf(t, p, probe.Request{Attempt: n}, patience)
			if probe.ReasonOf(err) != probe.ReasonHostResources || out.Result != probe.Unknown || !strings.Contains(err.Error(), "too many open files") {
				t.Errorf("%s, attempt %d: got %+v, %v, want an error of the host", name, n, out, err)
			}
		}
	}
	allow()
	time.Sleep(10 * time.Millisecond) // wait for the end of the pause
	for name, p := range map[string]probe.Handler{"process": ok, "check": check} {
		if out, err := attempt(t, p, patience); err != nil || out.Result != probe.Success {
			t.Errorf("%s, with descriptors: got %+v, %v, want success", name, out, err)
		}
	}
}

// forbidDescriptors prevents this process from opening descriptors until allow is called.
func forbidDescriptors(t *testing.T) (allow func()) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
	}
}
