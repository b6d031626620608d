package pods

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
)

// Host is what an agent offers to its source of pods. All fields are set. All functions are
// safe for concurrent use unless they say otherwise. Before the source's Start, only Begin and
// Check may be called.
//
// The source decides which pods there should be. It tells the manager of them, and the agent
// does the rest: it prepares handlers, which may have to load plugins, resolves secrets,
// follows the files of secrets, records metrics and events, and asks for another attempt when
// a plugin or a secret that was missing is there. An attempt is one call of Begin, any number
// of calls of Check, and one call of Refused or Applied. A new call of Begin abandons an attempt
// that has not ended; the last one may be left without an end when the source stops.
type Host struct {
	Logger   *slog.Logger
	Recorder manager.Recorder // of events
	Output   io.Writer        // of what containers write, line by line; it never blocks
	// PollInterval is how often files are looked at, by whoever follows files.
	PollInterval time.Duration
	// Mark is a variable, "NAME=value", in the environment of all programs of plugins, by
	// which they can be found after the agent was killed.
	Mark string
	// RunsPrograms reports whether the handler of that name runs programs with Mark.
	RunsPrograms func(handler string) bool

	// Begin begins an attempt to bring the pods to what they should be. It must not be called
	// concurrently with itself, Refused and Applied.
	Begin func()
	// Check prepares every probe of a pod, and drops what that made. It returns what is wrong
	// with them: errors whose texts begin with the path of a field. It may take as long as ctx
	// lasts: a plugin may have to be pulled and compiled. The pod must not be modified later.
	// A source that has no use for knowing this before it changes anything need not call it.
	Check func(ctx context.Context, pod *v1.Pod) []error
	// Refused ends an attempt that changed nothing, because of err. It returns err, with what
	// else is wrong; the cause of ctx when that has ended.
	Refused func(ctx context.Context, r Reload, err error) error
	// Applied ends an attempt after which pods are those that there should be: the manager was
	// told of all of them. They are read-only from here on. err is what could not be applied,
	// nil for nothing. It returns err, with what else is wrong; the cause of ctx when that has
	// ended.
	Applied func(ctx context.Context, r Reload, pods []*v1.Pod, err error) error
	// RequestReload asks the agent to call Reload, and returns at once. Requests that come
	// before that call are one. Of a source that cannot be reloaded it does nothing.
	RequestReload func(cause string)

	// Restarted counts and logs a restart of a container.
	Restarted func(Restart)
}

// Reload is a request to bring the pods to what they should be.
type Reload struct {
	Cause string // for the log
	// All asks for a check of all pods, also of those that are the same as at the last
	// attempt: somebody waits for the answer.
	All bool
}

// Change is a pod that changed, or is gone.
type Change struct {
	Pod     *v1.Pod // a copy, with its status
	Removed bool    // the pod has ended, and is not one of those that there should be
}

// Restart says that a container was started again.
type Restart struct {
	Namespace, Pod, Container string
	UID                       types.UID
	Count                     int32 // restarts of this container so far
	// Cause is "liveness" or "startup" for a probe, "exit" when the container ended by
	// itself, "changed" when its definition did.
	Cause string
	// ExitCode is how the container ended before: 128 + the signal's number where a signal
	// ended it. Signal is its name, "SIGKILL"; "" without one.
	ExitCode int32
	Signal   string
}

// String returns why the container was started again, and how it had ended.
func (r *Restart) String() string {
	text := fmt.Sprintf("cause %s, exit code %d", r.Cause, r.ExitCode)
	if r.Signal != "" {
		text += " (" + r.Signal + ")"
	}
	return text
}

// Saving is how it goes with the state that a source keeps over a restart of the agent.
type Saving struct {
	Failures uint64    // attempts that failed, so far
	Since    time.Time // since when the newest state of some pod could not be saved; zero: all is saved
	Err      error     // of the last attempt that failed; nil: all is saved
}
