package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
)

// execHandler returns an exec handler with runner and a command.
func execHandler(t testing.TB, runner builtin.CommandRunner, command ...string) probe.Handler {
	t.Helper()
	h, err := builtin.NewExec(builtin.Config{Runner: runner})
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, w := range command {
		words = append(words, fmt.Sprintf("%q", w))
	}
	return prepare(t, h, `{"command":[`+strings.Join(words, ",")+`]}`)
}

func TestExec(t *testing.T) {
	timeout := &builtin.CommandTimeoutError{Command: []string{"sleep", "9"}, Timeout: time.Second}
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
		{"#96 an exit error with status 0", "OK", &builtin.CommandExitError{Code: 0}, probe.Success, "OK", ""},
		{"#97 11 KiB of output", long, nil, probe.Success, long[:probe.MaxOutput], ""},
		{"#99 exit status 1", "Fail", &builtin.CommandExitError{Code: 1}, probe.Failure, "Fail", probe.ReasonExecExit},
		{"#85 output beside an error", "foo", fmt.Errorf("wrapped: %w", &builtin.CommandExitError{Code: 2}), probe.Failure, "foo", probe.ReasonExecExit},
		{"#100 a timeout", "partial", fmt.Errorf("wrapped: %w", timeout), probe.Failure,
			`wrapped: command timed out: "sleep 9" timed out after 1s`, probe.ReasonDeadline},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := attempt(t, execHandler(t, &scriptedRunner{output: c.output, err: c.err}, "x"), probe.Request{}, time.Minute)
			want(t, got, err, c.result, c.want)
			wantReason(t, got, c.reason)
		})
	}
	t.Run("#98 another error is returned", func(t *testing.T) {
		broken := errors.New("no such container")
		got, err := attempt(t, execHandler(t, &scriptedRunner{output: "lost", err: broken}, "x"), probe.Request{}, time.Minute)
		if !errors.Is(err, broken) || got.Result != probe.Unknown || got.Output != "" {
			t.Errorf("got %v, output %q, error %v", got.Result, got.Output, err)
		}
	})
	t.Run("#83 output, container and command", func(t *testing.T) {
		runner := &scriptedRunner{output: "foo"}
		got, err := attempt(t, execHandler(t, runner, "/foo", "bar baz"), probe.Request{ContainerID: "docker://1"}, time.Minute)
		want(t, got, err, probe.Success, "foo")
		if runner.container != "docker://1" || !slices.Equal(runner.command, []string{"/foo", "bar baz"}) || runner.timeout != time.Minute {
			t.Errorf("ran %q in %q, timeout %v", runner.command, runner.container, runner.timeout)
		}
	})
	t.Run("#81 command is passed unchanged", func(t *testing.T) {
		runner := new(scriptedRunner)
		_, err := attempt(t, execHandler(t, runner, "/bin/bash", "-c", "some $(SCRIPT)"), probe.Request{}, time.Minute)
		if err != nil || !slices.Equal(runner.command, []string{"/bin/bash", "-c", "some $(SCRIPT)"}) {
			t.Errorf("ran %q, %v", runner.command, err)
		}
	})
}

// For the kubelet only the runner's own timeout is a verdict. It retries and discards any other
// error, even one that comes after the timeout.
func TestExecAnswerAfterTimeout(t *testing.T) {
	broken := errors.New("the runtime is gone")
	timeout := &builtin.CommandTimeoutError{Command: []string{"x"}, Timeout: time.Second}
	for _, c := range []struct {
		name   string
		err    error
		result probe.Result
		reason probe.Reason
		fails  error
	}{
		{"#96 success", nil, probe.Success, "", nil},
		{"#99 exit status 1", &builtin.CommandExitError{Code: 1}, probe.Failure, probe.ReasonExecExit, nil},
		{"#100 the runner's time-out", timeout, probe.Failure, probe.ReasonDeadline, nil},
		{"#100 a deadline of the runner's context", fmt.Errorf("runtime: %w", context.DeadlineExceeded), probe.Failure, probe.ReasonDeadline, nil},
		{"#98 another error", broken, probe.Unknown, "", broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := execHandler(t, runnerFunc(func(ctx context.Context) ([]byte, error) {
				<-ctx.Done()
				return nil, c.err
			}), "x")
			got, err := attempt(t, h, probe.Request{}, 10*time.Millisecond)
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

// Only a part of the secret is within the limit of the output. One runner returns more output than
// the limit, the other does not.
func TestExecSecretAtLimit(t *testing.T) {
	const secret = "a long secret that is cut in the middle of it"
	output := strings.Repeat("x", probe.MaxOutput-20) + secret
	for _, most := range []int{len(output), probe.MaxOutput} {
		h := execHandler(t, runnerFunc(func(context.Context) ([]byte, error) { return []byte(output[:most]), nil }), "x")
		_, secrets, err := manager.ResolveSecrets([]byte(`["${env:PW}"]`), func(string, string) (string, error) { return secret, nil })
		if err != nil {
			t.Fatal(err)
		}
		got, err := attempt(t, secrets.Handler(h), probe.Request{}, time.Minute)
		if err != nil || !strings.HasSuffix(got.Output, "x[redacted]") {
			t.Errorf("%d bytes: got %s, %v", most, got.Output[max(0, len(got.Output)-40):], err)
		}
	}
}
