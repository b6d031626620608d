package process

import (
	"errors"
	"time"

	"github.com/daeace23/prober/internal/procgroup"
)

// ErrCanceled is the error of a start that was canceled before it began.
var ErrCanceled = errors.New("the start was canceled")

// shimArgument is the hidden first argument that makes a program a shim.
const shimArgument = "__prober-container-shim"

// The file descriptors of a shim beside the standard ones, which the container inherits.
const (
	shimControl = 3 // from the agent: a [Launch] in JSON and a line feed, then commands of one byte
	shimReport  = 4 // to the agent: messages in JSON
)

// The commands to a shim. The end of the pipe means shimKill.
const (
	shimTerminate = 'T' // SIGTERM to the container's process group
	shimKill      = 'K' // SIGKILL to all descendants
)

// Launch is the process that a shim starts. Without Args it starts none: it is a guard, which only
// waits for the end of the agent.
type Launch struct {
	Path string   `json:"path"` // of the program; set by Start
	Args []string `json:"args"` // with the name of the program
	Dir  string   `json:"dir,omitzero"`
	Env  []string `json:"env"`
	// User is the user of the process, nil for that of the agent, and Umask its umask.
	User  *procgroup.User `json:"user,omitzero"`
	Umask *uint32         `json:"umask,omitzero"`
	// Mark is for a guard: an environment variable of the exec probes, the hooks and the plugin
	// programs of the agent. They are not descendants of a shim. The guard finds them by Mark, and
	// kills them when the agent dies.
	Mark string `json:"mark,omitzero"`
}

// shimMessage is a message of a shim: first the process ID, or why the container did not start;
// then the exit status.
type shimMessage struct {
	PID   int     `json:"pid,omitzero"`
	Error string  `json:"error,omitzero"`
	Exit  *Status `json:"exit,omitzero"`
}

// Status is the exit status of a container.
type Status struct {
	Code   int `json:"code"` // 128 + Signal if a signal ended the container
	Signal int `json:"signal,omitzero"`
}

// Exit describes the end of a container.
type Exit struct {
	Status

	Message string // the reason, if Status does not tell it
	At      time.Time
}

// IsShim reports whether args (os.Args) are those of a shim. The program must then call
// [ShimMain] and nothing else.
func IsShim(args []string) bool { return len(args) == 2 && args[1] == shimArgument }
