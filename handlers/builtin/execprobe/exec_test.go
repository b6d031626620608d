package execprobe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/handlers/builtin/execprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// roles maps environment variables to functions. If a variable is set, the test binary calls its function
// instead of running tests.
var roles = map[string]func(){}

func TestMain(m *testing.M) {
	for variable, role := range roles {
		if os.Getenv(variable) != "" {
			role()
			return
		}
	}
	goleak.VerifyTestMain(m)
}

// scriptedRunner is a CommandRunner with one answer.
type scriptedRunner struct {
	output string
	err    error

	mu        sync.Mutex
	container string
	command   []string
	timeout   time.Duration
}

func (r *scriptedRunner) RunInContainer(_ context.Context, id string, cmd []string, timeout time.Duration) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.container, r.command, r.timeout = id, cmd, timeout
	return []byte(r.output), r.err
}

// handler returns an exec handler with runner and a command.
func handler(t testing.TB, runner execprobe.CommandRunner, command ...string) probe.Handler {
	t.Helper()
	h, err := execprobe.New(execprobe.Config{Runner: runner})
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{"command": command})
	if err != nil {
		t.Fatal(err)
	}
	return rig.Prepare(t, h, string(config))
}

func TestExec(t *testing.T) {
	timeout := &execprobe.CommandTimeoutError{Command: []string{"sleep", "9"}, Timeout: time.Second}
	long := strings.Repeat("logs: ", 11<<10/6)
	cases := []struct {
		name   string
		output string
		err    error
		result probe.Result
		want   string
		reason probe.Reason
	}{
		{"#95 exit ok", "OK", nil, probe.Success, "OK", ""},
		{"#96 an exit error with status 0", "OK", &execprobe.CommandExitError{Code: 0}, probe.Success, "OK", ""},
		{"#97 11 KiB of output", long, nil, probe.Success, long[:probe.MaxOutput], ""},
		{"#99 exit status 1", "Fail", &execprobe.CommandExitError{Code: 1}, probe.Failure, "Fail", probe.ReasonExecExit},
		{"#85 output beside an error", "foo", fmt.Errorf("wrapped: %w", &execprobe.CommandExitError{Code: 2}), probe.Failure, "foo", probe.ReasonExecExit},
		{"#100 a timeout", "partial", fmt.Errorf("wrapped: %w", timeout), probe.Failure,
			`wrapped: command timed out: "sleep 9" timed out after 1s`, probe.ReasonDeadline},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := rig.Attempt(t, handler(t, &scriptedRunner{output: c.output, err: c.err}, "x"), probe.Request{}, time.Minute)
			rig.Want(t, got, err, c.result, c.want)
			rig.WantReason(t, got, c.reason)
		})
	}
	t.Run("#98 another error is returned", func(t *testing.T) {
		broken := errors.New("no such container")
		got, err := rig.Attempt(t, handler(t, &scriptedRunner{output: "lost", err: broken}, "x"), probe.Request{}, time.Minute)
		if !errors.Is(err, broken) || got.Result != probe.Unknown || got.Output != "" {
			t.Errorf("got %v, output %q, error %v", got.Result, got.Output, err)
		}
	})
	t.Run("#83 output, container and command", func(t *testing.T) {
		runner := &scriptedRunner{output: "foo"}
		got, err := rig.Attempt(t, handler(t, runner, "/foo", "bar baz"), probe.Request{ContainerID: "docker://1"}, time.Minute)
		rig.Want(t, got, err, probe.Success, "foo")
		if runner.container != "docker://1" || !slices.Equal(runner.command, []string{"/foo", "bar baz"}) || runner.timeout != time.Minute {
			t.Errorf("ran %q in %q, timeout %v", runner.command, runner.container, runner.timeout)
		}
	})
	t.Run("#81 command is passed unchanged", func(t *testing.T) {
		runner := new(scriptedRunner)
		_, err := rig.Attempt(t, handler(t, runner, "/bin/bash", "-c", "some $(SCRIPT)"), probe.Request{}, time.Minute)
		if err != nil || !slices.Equal(runner.command, []string{"/bin/bash", "-c", "some $(SCRIPT)"}) {
			t.Errorf("ran %q, %v", runner.command, err)
		}
	})
}

// TestExecAnswerAfterTimeout checks that, as in the kubelet, only the runner's own timeout is a verdict. Any
// other error is retried and discarded, even after the timeout.
func TestExecAnswerAfterTimeout(t *testing.T) {
	broken := errors.New("the runtime is gone")
	timeout := &execprobe.CommandTimeoutError{Command: []string{"x"}, Timeout: time.Second}
	for _, c := range []struct {
		name   string
		err    error
		result probe.Result
		reason probe.Reason
		fails  error
	}{
		{"#96 success", nil, probe.Success, "", nil},
		{"#99 exit status 1", &execprobe.CommandExitError{Code: 1}, probe.Failure, probe.ReasonExecExit, nil},
		{"#100 the runner's time-out", timeout, probe.Failure, probe.ReasonDeadline, nil},
		{"#100 a deadline of the runner's context", fmt.Errorf("runtime: %w", context.DeadlineExceeded), probe.Failure, probe.ReasonDeadline, nil},
		{"#98 another error", broken, probe.Unknown, "", broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := handler(t, runnerFunc(func(ctx context.Context) ([]byte, error) {
				<-ctx.Done()
				return nil, c.err
			}), "x")
			got, err := rig.Attempt(t, h, probe.Request{}, 10*time.Millisecond)
			if got.Result != c.result || got.Reason != c.reason || !errors.Is(err, c.fails) {
				t.Errorf("got %v, reason %q, error %v; want %v, reason %q, error %v", got.Result, got.Reason, err, c.result, c.reason, c.fails)
			}
		})
	}
}

type runnerFunc func(ctx context.Context) ([]byte, error)

func (f runnerFunc) RunInContainer(ctx context.Context, _ string, _ []string, _ time.Duration) ([]byte, error) {
	return f(ctx)
}

// TestExecSecretAtLimit has a secret that is partly beyond the limit of the output. One runner returns more
// output than the limit, the other does not.
func TestExecSecretAtLimit(t *testing.T) {
	const secret = "a long secret that is cut in the middle of it"
	output := strings.Repeat("x", probe.MaxOutput-20) + secret
	for _, most := range []int{len(output), probe.MaxOutput} {
		h := handler(t, runnerFunc(func(context.Context) ([]byte, error) { return []byte(output[:most]), nil }), "x")
		_, secrets, err := declared.ResolveSecrets([]byte(`["${env:PW}"]`), func(string, string) (string, error) { return secret, nil })
		if err != nil {
			t.Fatal(err)
		}
		got, err := rig.Attempt(t, secrets.Handler(h), probe.Request{}, time.Minute)
		if err != nil || !strings.HasSuffix(got.Output, "x[redacted]") {
			t.Errorf("%d bytes: got %s, %v", most, got.Output[max(0, len(got.Output)-40):], err)
		}
	}
}

func TestExecSuite(t *testing.T) {
	probetest.HandlerSuite(t, func(t *testing.T) probetest.HandlerUnderTest {
		host := new(execprobe.HostRunner)
		return probetest.HandlerUnderTest{
			Good:     handler(t, host, "true"),
			Hanging:  handler(t, host, "sh", "-c", "sleep 300 & sleep 300"),
			Flooding: handler(t, host, "head", "-c", "20000", "/dev/zero"),
			Erring:   handler(t, host, "/no/such/command"),
		}
	})
}

func TestScriptedRunnerSuite(t *testing.T) {
	probetest.HandlerSuite(t, func(t *testing.T) probetest.HandlerUnderTest {
		return probetest.HandlerUnderTest{
			Good:     handler(t, &scriptedRunner{}, "x"),
			Flooding: handler(t, &scriptedRunner{output: rig.Flood, err: &execprobe.CommandExitError{Code: 1}}, "x"),
			Erring:   handler(t, &scriptedRunner{err: errors.New("no such container")}, "x"),
		}
	})
}

func TestBindExec(t *testing.T) {
	h, err := execprobe.New(execprobe.Config{Runner: &execprobe.HostRunner{}})
	if err != nil {
		t.Fatal(err)
	}
	command := []string{"echo", "hello"}
	bound, err := h.Bind(execprobe.Action{Command: command})
	if err != nil {
		t.Fatal(err)
	}
	command[1] = "changed"
	got, err := rig.Attempt(t, bound, probe.Request{}, time.Minute)
	rig.Want(t, got, err, probe.Success, "hello\n")
}
