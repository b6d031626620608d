package pods

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/probe"
)

// Host has the functions that an agent provides to its source of pods. All fields are set. All functions are
// safe for concurrent use unless documented otherwise. Before the source's Start, only Begin and
// Check may be called.
//
// The source decides which pods are desired, and adds them to the manager. The agent does the
// rest: it prepares handlers, loads plugins, resolves secrets, watches the files of secrets, and
// records metrics and events. It requests another attempt when a missing plugin or secret appears.
// An attempt is one call of Begin, any number of calls of Check, and one call of Refused or
// Applied. A new call of Begin abandons an attempt that has not ended. The last attempt need not
// end if the source is stopped.
type Host struct {
	Logger   *slog.Logger
	Recorder manager.Recorder // of events
	Output   io.Writer        // for the lines that containers write; safe for concurrent use, and never blocks
	// PollInterval is how often files are checked for changes.
	PollInterval time.Duration
	// Mark is a variable, "NAME=value", in the environment of all programs of plugins. It
	// identifies them after the agent was killed.
	Mark string
	// RunsPrograms reports whether a handler runs programs with Mark.
	RunsPrograms func(handler string) bool

	// Begin begins an attempt to apply the desired pods. It must not be called concurrently with
	// itself, Refused and Applied.
	Begin func()
	// Check prepares every probe of a pod and releases it again. The text of each error begins
	// with the path of a field. Check may take until the end of ctx: it may pull and compile
	// plugins. A source need not call Check.
	Check func(ctx context.Context, pod *declared.Pod) []error
	// Refused ends an attempt that changed nothing, because of err. It returns err joined with
	// further errors; if ctx has ended, its cause.
	Refused func(ctx context.Context, r Reload, err error) error
	// Applied ends an attempt after which the manager has the desired pods. An unchanged pod must be the
	// same object as in the previous call: the agent processes each object once. err has the errors of
	// pods or probes that could not be applied; nil if there are none. Applied returns err joined with further
	// errors; if ctx has ended, its cause.
	Applied func(ctx context.Context, r Reload, pods []*declared.Pod, err error) error
	// RequestReload requests a call of the source's Reload, if it has one. It returns at
	// once. Requests before the call are coalesced.
	RequestReload func(cause string)

	// Restarted counts and logs a restart of a container.
	Restarted func(Restart)

	// BindCheck returns the handler of a push or an endpoint of prober.yaml, for a source that reads that
	// file. handler is [PushHandler] or [EndpointHandler]. podUID is the UID of the pod of its probe, whose
	// container has the name of the handler, and whose kind is readiness.
	BindCheck func(handler, name string, podUID types.UID) (probe.Handler, error)
}

// The names of the handlers of checks in prober.yaml, and of the containers of their pods.
const (
	PushHandler     = "push"
	EndpointHandler = "endpoint"
)

// Doubtful is the log message of a warning about an accepted field of a file. Its attribute place has the
// file, the line, the field and the reason.
const Doubtful = "doubtful field"

// Reload is a request to apply the desired pods.
type Reload struct {
	Cause string // for the log
	// All requests a check of all pods, including pods that have not changed since the last attempt. It is
	// set if a caller waits for the result.
	All bool
	// Routine marks an attempt for some changed pods, which is frequent on a node. Its result is logged
	// only if it differs from the result of the previous attempt.
	Routine bool
}

// Change is a pod that has changed or was removed.
type Change struct {
	Pod     *v1.Pod // with its status; read-only
	Removed bool    // the pod has ended and is no longer desired
}

// Restart is a restart of a container.
type Restart struct {
	Namespace, Pod, Container string
	UID                       types.UID
	Count                     int32 // restarts of this container so far
	// Cause is "liveness" or "startup" for a probe, "exit" if the container ended by itself, and
	// "changed" if its definition changed.
	Cause string
	// ExitCode is the exit code of the container: 128 + the number of the signal, if a signal
	// ended it. Signal is the signal's name, such as "SIGKILL"; "" for none.
	ExitCode int32
	Signal   string
}

// String returns the cause of the restart, and the exit status of the container.
func (r *Restart) String() string {
	text := fmt.Sprintf("cause %s, exit code %d", r.Cause, r.ExitCode)
	if r.Signal != "" {
		text += " (" + r.Signal + ")"
	}
	return text
}

// Saving is the status of saving state for the next agent.
type Saving struct {
	Failures uint64    // failed attempts so far
	Since    time.Time // since when the newest state of a pod could not be saved; zero: all is saved
	Err      error     // error of the last failed attempt; nil: all is saved
}

// Trouble is a present fault of a source of pods.
type Trouble struct {
	Name string // the affected part, such as "api server"
	Text string
}
