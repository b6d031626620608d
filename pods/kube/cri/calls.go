package cri

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/daeace23/prober/handlers/builtin/execprobe"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/probe"
)

// stopExtra is how long a runtime may take to kill a container after its grace period, as in the kubelet.
const stopExtra = 2 * time.Minute

var _ execprobe.CommandRunner = (*Client)(nil)

// RunInContainer implements [execprobe.CommandRunner]. It returns at most [probe.MaxOutput] bytes of output:
// stdout, then stderr. More than 16 MiB of output are an error, and so is a timeout while the runtime cannot be
// reached.
//
// The runtime ends the command after timeout, rounded up to seconds, or after ten minutes if timeout is
// 0. The end of ctx does not end the command. While eight such commands of a container still run, a further one
// returns a [probe.Error] with the reason host_resources.
func (c *Client) RunInContainer(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error) {
	id := bare(containerID)
	if known, ok := c.state.Load().all[id]; ok && known.Exited {
		return nil, fmt.Errorf("exec in container %s: %w", id, ErrNoContainer)
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	answer, err := c.execSync(ctx, id, cmd, timeout)
	if err != nil {
		return nil, c.execError(ctx, id, cmd, timeout, err)
	}
	output := outputOf(answer)
	if code := answer.GetExitCode(); code != 0 {
		return output, &execprobe.CommandExitError{Code: int(code)}
	}
	return output, nil
}

// execError returns the error of a command that has no exit code.
func (c *Client) execError(ctx context.Context, id string, cmd []string, timeout time.Duration, err error) error {
	late := status.Code(err) == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded)
	switch trouble := c.Trouble(); {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case !late && !isStatus(err): // the command has not begun
		return fmt.Errorf("exec in container %s: %w", id, err)
	case !late && !errors.Is(ctx.Err(), context.DeadlineExceeded):
	case c.conn.GetState() != connectivity.Ready:
		// The end of ctx does not prove that the command was too slow: it may not have begun.
		return fmt.Errorf("exec in container %s: no connection to the container runtime at %s", id, c.socket)
	case late && trouble != nil && !errors.Is(trouble, errNotAsked):
		return fmt.Errorf("exec in container %s: %w", id, trouble)
	case late:
		return &execprobe.CommandTimeoutError{Command: cmd, Timeout: timeout}
	}
	return wrap("exec in container "+id, err)
}

// isStatus reports whether err is a gRPC status.
func isStatus(err error) bool {
	_, ok := status.FromError(err)
	return ok
}

// outputOf returns a copy of the first [probe.MaxOutput] bytes of stdout and stderr, so that the response can be
// freed.
func outputOf(answer *runtime.ExecSyncResponse) []byte {
	stdout := answer.GetStdout()
	stdout = stdout[:min(len(stdout), probe.MaxOutput)]
	stderr := answer.GetStderr()
	stderr = stderr[:min(len(stderr), probe.MaxOutput-len(stdout))]
	return append(append(make([]byte, 0, len(stdout)+len(stderr)), stdout...), stderr...)
}

// Stop stops a container with SIGTERM, and with SIGKILL after grace, rounded up to seconds. A grace of 0 kills it at
// once. Stop returns when the container has ended. It returns nil if the container does not exist.
func (c *Client) Stop(ctx context.Context, containerID string, grace time.Duration) error {
	id := bare(containerID)
	ctx, cancel := context.WithTimeout(ctx, grace+stopExtra)
	defer cancel()
	_, err := c.runtime.StopContainer(ctx, &runtime.StopContainerRequest{ContainerId: id, Timeout: seconds(grace)})
	if err == nil || status.Code(err) == codes.NotFound {
		return nil
	}
	return wrap("stop container "+id, err)
}

// seconds rounds d up to seconds.
func seconds(d time.Duration) int64 { return int64((max(d, 0) + time.Second - 1) / time.Second) }

// callError is the error of a call. Its text omits gRPC's own prefix.
type callError struct {
	call   string
	status *status.Status
}

func wrap(call string, err error) error { return &callError{call, status.Convert(err)} }

func (e *callError) Error() string {
	return e.call + ": " + clip.Marked(e.status.Message(), 4<<10, "…")
}

// GRPCStatus returns the status for status.Code.
func (e *callError) GRPCStatus() *status.Status { return e.status }

// Is makes NotFound match [ErrNoContainer], and Canceled match [context.Canceled].
func (e *callError) Is(target error) bool {
	switch e.status.Code() {
	case codes.NotFound:
		return target == ErrNoContainer
	case codes.Canceled:
		return target == context.Canceled
	default:
		return false
	}
}
