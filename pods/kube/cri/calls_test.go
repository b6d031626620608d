package cri_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/daeace23/prober/handlers/builtin/execprobe"
	"github.com/daeace23/prober/pods/kube/cri"
	"github.com/daeace23/prober/probe"
)

func TestRunInContainer(t *testing.T) {
	t.Parallel()
	flood := func(n int) *runtime.ExecSyncResponse {
		return &runtime.ExecSyncResponse{Stdout: bytes.Repeat([]byte("x"), n), Stderr: []byte("more")}
	}
	for _, c := range []struct {
		name    string
		answer  *runtime.ExecSyncResponse
		err     error
		timeout time.Duration
		seconds int64 // timeout passed to the runtime
		output  string
		check   func(error) bool
	}{
		{"exit code 0", &runtime.ExecSyncResponse{Stdout: []byte("out"), Stderr: []byte("err")}, nil, time.Minute, 60, "outerr", func(err error) bool { return err == nil }},
		{"no timeout is ten minutes", &runtime.ExecSyncResponse{}, nil, 0, 600, "", func(err error) bool { return err == nil }},
		{"part of a second is rounded up", &runtime.ExecSyncResponse{}, nil, 59*time.Second + time.Millisecond, 60, "", func(err error) bool { return err == nil }},
		{"exit code 3", &runtime.ExecSyncResponse{Stdout: []byte("bad"), ExitCode: 3}, nil, time.Minute, 60, "bad", func(err error) bool {
			exit, ok := errors.AsType[interface {
				error
				ExitStatus() int
			}](err)
			return ok && exit.ExitStatus() == 3
		}},
		{"timeout of the runtime", nil, status.Error(codes.DeadlineExceeded, "timeout 1s exceeded"), time.Minute, 60, "", func(err error) bool {
			late, ok := errors.AsType[*execprobe.CommandTimeoutError](err)
			return ok && late.Timeout == time.Minute && errors.Is(err, context.DeadlineExceeded)
		}},
		{"missing program is no verdict", nil, status.Error(codes.Unknown, `exec: "/x": no such file`), time.Minute, 60, "", func(err error) bool {
			return err != nil && err.Error() == `exec in container id: exec: "/x": no such file` && !errors.Is(err, context.DeadlineExceeded) && status.Code(err) == codes.Unknown
		}},
		{"no such container", nil, status.Error(codes.NotFound, "not found"), time.Minute, 60, "", func(err error) bool { return errors.Is(err, cri.ErrNoContainer) }},
		{"15 MiB of output", flood(15 << 20), nil, time.Minute, 60, strings.Repeat("x", probe.MaxOutput), func(err error) bool { return err == nil }},
		{"17 MiB of output is no verdict", flood(17 << 20), nil, time.Minute, 60, "", func(err error) bool {
			return err != nil && !errors.Is(err, context.DeadlineExceeded) && status.Code(err) == codes.ResourceExhausted
		}},
		{"stderr beyond the limit is cut", &runtime.ExecSyncResponse{Stdout: []byte("o"), Stderr: bytes.Repeat([]byte("e"), 1<<20)}, nil, time.Minute, 60,
			"o" + strings.Repeat("e", probe.MaxOutput-1), func(err error) bool { return err == nil }},
		{"long error is cut", nil, status.Error(codes.Unknown, strings.Repeat("e", 6<<10)), time.Minute, 60, "", func(err error) bool { return len(err.Error()) < 5<<10 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			var got *runtime.ExecSyncRequest
			f.exec = func(_ context.Context, r *runtime.ExecSyncRequest) (*runtime.ExecSyncResponse, error) {
				got = r
				return c.answer, c.err
			}
			f.serve(t)
			output, err := f.silent(t).RunInContainer(t.Context(), "containerd://id", []string{"/x", "y"}, c.timeout)
			if string(output) != c.output || !c.check(err) {
				t.Errorf("got %d bytes, error %v", len(output), err)
			}
			if got.ContainerId != "id" || strings.Join(got.Cmd, " ") != "/x y" || got.Timeout != c.seconds {
				t.Errorf("the runtime got %v", got)
			}
		})
	}
}

func TestRunInContainerDeadline(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.exec = untilTimeout(make(chan error, 10))
	f.serve(t)
	c := f.silent(t)
	t.Run("timeout below a second", func(t *testing.T) {
		_, err := c.RunInContainer(t.Context(), "id", []string{"sleep", "9"}, 300*time.Millisecond)
		if late, ok := errors.AsType[*execprobe.CommandTimeoutError](err); !ok || late.Error() != `command timed out: "sleep 9" timed out after 300ms` {
			t.Errorf("error %v", err)
		}
	})
	t.Run("end of the context is an error", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		if _, err := c.RunInContainer(ctx, "id", []string{"x"}, 2*time.Second); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("lost connection is an error", func(t *testing.T) {
		f.crash()
		_, err := c.RunInContainer(t.Context(), "id", []string{"x"}, time.Second)
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

// untilTimeout returns a command that ends at the timeout of its request, and then sends the error of its call's
// context to ends.
func untilTimeout(ends chan error) func(context.Context, *runtime.ExecSyncRequest) (*runtime.ExecSyncResponse, error) {
	return func(ctx context.Context, r *runtime.ExecSyncRequest) (*runtime.ExecSyncResponse, error) {
		select {
		case <-time.After(time.Duration(r.Timeout) * time.Second):
		case <-ctx.Done():
		}
		ends <- ctx.Err()
		return nil, status.Error(codes.DeadlineExceeded, "timed out")
	}
}

// Calls must not be canceled: containerd 1.6 cannot kill the command of a canceled call.
func TestRunInContainerCallOutlivesAttempt(t *testing.T) {
	t.Parallel()
	short := func(t *testing.T) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	canceled := func(t *testing.T) context.Context {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		time.AfterFunc(100*time.Millisecond, cancel)
		return ctx
	}
	for _, test := range []struct {
		name    string
		ctx     func(*testing.T) context.Context
		timeout time.Duration
		closed  bool // the client is closed right after the attempt
	}{
		{"timeout below a second", (*testing.T).Context, 300 * time.Millisecond, false},
		{"earlier deadline", short, time.Second, false},
		{"canceled attempt", canceled, time.Second, false},
		{"the agent ends", canceled, time.Second, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			ends := make(chan error, 1)
			f.exec = untilTimeout(ends)
			f.serve(t)
			c := f.silent(t)
			if _, err := c.RunInContainer(test.ctx(t), "id", []string{"x"}, test.timeout); err == nil {
				t.Error("no error")
			}
			if n := c.Left(); n != 1 {
				t.Errorf("%d commands left after the attempt", n)
			}
			if test.closed {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				if _, err := c.RunInContainer(t.Context(), "id", []string{"x"}, time.Second); err == nil || !strings.Contains(err.Error(), "the agent ends") {
					t.Errorf("after the end: %v", err)
				}
			}
			if err := <-ends; err != nil {
				t.Errorf("the call ended before the timeout of the runtime: %v", err)
			}
			if test.closed && c.Left() != 0 {
				t.Errorf("%d commands left after the end", c.Left())
			}
		})
	}
}

// Hanging commands in one container do not prevent commands in others.
func TestRunInContainerLimitsLeftCommands(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	release := make(chan struct{})
	f.exec = func(_ context.Context, r *runtime.ExecSyncRequest) (*runtime.ExecSyncResponse, error) {
		if r.ContainerId == "hangs" {
			<-release
		}
		return &runtime.ExecSyncResponse{}, nil
	}
	f.serve(t)
	c := f.silent(t)
	run := func(container string) error {
		_, err := c.RunInContainer(t.Context(), container, []string{"x"}, 20*time.Millisecond)
		return err
	}
	if _, err := c.RunInContainer(t.Context(), "well", []string{"x"}, time.Minute); err != nil { // make the connection
		t.Fatal(err)
	}
	for i := range 8 {
		if err := run("hangs"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("attempt %d: %v", i, err)
		}
	}
	before := f.count("exec")
	err := run("hangs")
	if probe.ReasonOf(err) != probe.ReasonHostResources || !strings.Contains(err.Error(), "8 commands of earlier attempts still run in it") {
		t.Errorf("ninth attempt: %v", err)
	}
	if after := f.count("exec"); after != before || c.Left() != 8 {
		t.Errorf("%d further calls, %d commands left", after-before, c.Left())
	}
	if _, err := c.RunInContainer(t.Context(), "well", []string{"x"}, time.Minute); err != nil {
		t.Errorf("another container: %v", err)
	}
	close(release)
	if err := c.Close(); err != nil || c.Left() != 0 {
		t.Errorf("after the commands have ended: %d left, %v", c.Left(), err)
	}
}

// A hanging runtime answers neither lists nor commands: its probes return errors.
func TestRunInContainerWedgedRuntimeIsNoVerdict(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.slow = make(chan struct{})
	defer close(f.slow)
	f.exec = func(ctx context.Context, _ *runtime.ExecSyncRequest) (*runtime.ExecSyncResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	f.serve(t)
	c, _ := f.client(t)
	f.logged("cannot be reached")
	if err := c.Trouble(); !strings.Contains(err.Error(), "list containers: ") {
		t.Errorf("trouble: %v", err)
	}
	_, err := c.RunInContainer(t.Context(), "id", []string{"x"}, time.Second)
	if _, verdict := errors.AsType[*execprobe.CommandTimeoutError](err); err == nil || verdict {
		t.Errorf("error %v", err)
	}
	if _, ok := err.(interface{ ExitStatus() int }); ok || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v is a verdict", err)
	}
}

func TestRunInContainerExited(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set(container("a0", "a", 0, exited))
	f.serve(t)
	c, changed := f.client(t)
	<-changed
	if _, err := c.RunInContainer(t.Context(), "containerd://a0", []string{"x"}, time.Second); !errors.Is(err, cri.ErrNoContainer) {
		t.Errorf("error %v", err)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	var got *runtime.StopContainerRequest
	var answer error
	f.stop = func(r *runtime.StopContainerRequest) error {
		got = r
		return answer
	}
	f.serve(t)
	c := f.silent(t)
	for grace, want := range map[time.Duration]int64{0: 0, -time.Second: 0, time.Millisecond: 1, 2 * time.Second: 2, 2*time.Second + 1: 3} {
		if err := c.Stop(t.Context(), "containerd://id", grace); err != nil || got.ContainerId != "id" || got.Timeout != want {
			t.Errorf("%v: timeout %d of %q, error %v", grace, got.Timeout, got.ContainerId, err)
		}
	}
	answer = status.Error(codes.NotFound, "gone")
	if err := c.Stop(t.Context(), "id", 0); err != nil {
		t.Errorf("a container that is gone: %v", err)
	}
	answer = status.Error(codes.Unknown, "the shim is stuck")
	if err := c.Stop(t.Context(), "id", 0); err == nil || err.Error() != "stop container id: the shim is stuck" {
		t.Errorf("error %v", err)
	}
}

func TestNetworkNamespace(t *testing.T) {
	t.Parallel()
	here, err := os.CreateTemp(t.TempDir(), "netns")
	if err != nil {
		t.Fatal(err)
	}
	here.Close()
	box := func(id, uid string, state runtime.PodSandboxState, at int64) *runtime.PodSandbox {
		return &runtime.PodSandbox{Id: id, State: state, CreatedAt: at, Labels: map[string]string{"io.kubernetes.pod.uid": uid}}
	}
	const ready, notReady = runtime.PodSandboxState_SANDBOX_READY, runtime.PodSandboxState_SANDBOX_NOTREADY
	boxes := []*runtime.PodSandbox{box("old", "u", ready, 1), box("new", "u", ready, 2), box("dead", "u", notReady, 3), box("other", "v", ready, 4), {}}
	spec := func(namespaces string) string {
		return `{"pid":1,"runtimeSpec":{"ociVersion":"1.0","linux":{"namespaces":[{"type":"pid"},` + namespaces + `]}}}`
	}
	onNode := &runtime.PodSandboxStatus{Linux: &runtime.LinuxPodSandboxStatus{Namespaces: &runtime.Namespace{
		Options: &runtime.NamespaceOption{Network: runtime.NamespaceMode_NODE}}}}
	for _, c := range []struct {
		name   string
		boxes  []*runtime.PodSandbox
		answer *runtime.PodSandboxStatusResponse
		want   string // path, or part of the error
	}{
		{"path", boxes, &runtime.PodSandboxStatusResponse{Info: map[string]string{"info": spec(`{"type":"network","path":"` + here.Name() + `"}`)}}, here.Name()},
		{"host network", boxes, &runtime.PodSandboxStatusResponse{Status: onNode, Info: map[string]string{"info": spec(`{"type":"network","path":"` + here.Name() + `"}`)}}, cri.ErrHostNetwork.Error()},
		{"path that is not here", boxes, &runtime.PodSandboxStatusResponse{Info: map[string]string{"info": spec(`{"type":"network","path":"/no/such"}`)}}, "is not visible here"},
		{"relative path", boxes, &runtime.PodSandboxStatusResponse{Info: map[string]string{"info": spec(`{"type":"network","path":"x"}`)}}, "has no path of a network namespace"},
		{"no path", boxes, &runtime.PodSandboxStatusResponse{Info: map[string]string{"info": spec(`{"type":"network"}`)}}, "has no path of a network namespace"},
		{"no information", boxes, &runtime.PodSandboxStatusResponse{}, "unexpected end of JSON"},
		{"other JSON", boxes, &runtime.PodSandboxStatusResponse{Info: map[string]string{"info": `{"runtimeSpec":[]}`}}, "cannot unmarshal"},
		{"no sandbox", boxes[2:], nil, "has no sandbox that is ready"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.boxes = c.boxes
			f.sandbox = func(r *runtime.PodSandboxStatusRequest) (*runtime.PodSandboxStatusResponse, error) {
				if r.PodSandboxId != "new" || !r.Verbose {
					return nil, status.Error(codes.NotFound, "not the newest one")
				}
				return c.answer, nil
			}
			f.serve(t)
			path, err := f.silent(t).NetworkNamespace(t.Context(), types.UID("u"))
			if err != nil {
				path = err.Error()
			}
			if !strings.Contains(path, c.want) {
				t.Errorf("got %q, want %q", path, c.want)
			}
		})
	}
}
