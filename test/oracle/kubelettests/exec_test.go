package kubelettests

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	remote "k8s.io/cri-client/pkg"
)

// runtimeTimeout is the error of a runtime's own timeout. The kubelet expects the CRI client's error, and
// ours context.DeadlineExceeded.
type runtimeTimeout struct{ error }

func (e runtimeTimeout) Is(target error) bool {
	return target == remote.ErrCommandTimedOut || target.Error() == "context deadline exceeded"
}

func TestExec(t *testing.T) {
	timeout := runtimeTimeout{fmt.Errorf("%w: command testcmd timed out", remote.ErrCommandTimedOut)}
	for _, c := range []struct {
		name   string
		output string
		err    error
		result string
		want   string
	}{
		{"#95 code 0", "OK", nil, "success", "=OK"},
		{"#96 an exit error with code 0", "OK", exit(0), "success", "=OK"},
		{"#97 11 KiB of output", strings.Repeat("logs-123", 1408), nil, "success", "=" + strings.Repeat("logs-123", 1280)},
		{"#99 code 1", "", exit(1), "failure", "="},
		{"#100 a time-out", "", timeout, "failure", "=" + remote.ErrCommandTimedOut.Error() + ": command testcmd timed out"},
	} {
		eachHandler(t, c.name, func(t *testing.T, ask func(request) answer) {
			ask(request{
				handler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}, timeout: time.Minute, output: c.output, err: c.err,
			}).want(t, c.result, c.want)
		})
	}
	eachHandler(t, "#98 another error", func(t *testing.T, ask func(request) answer) {
		broken := errors.New("test error")
		got := ask(request{
			handler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}, timeout: time.Minute, output: "lost", err: broken,
		})
		if !errors.Is(got.err, broken) || got.result != "unknown" || got.output != "" {
			t.Errorf("got %+v", got)
		}
	})
}
