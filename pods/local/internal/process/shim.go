package process

import "time"

// shimArgument is the hidden first argument that makes a program the shim.
const shimArgument = "__prober-container-shim"

// The file descriptors of the shim beside the standard ones, which the container inherits.
const (
	shimControl = 3 // from the agent: a [Launch] in JSON and a line feed, then commands of one byte
	shimReport  = 4 // to the agent: messages in JSON
)

// The commands to a shim. The end of the pipe means shimKill.
const (
	shimTerminate = 'T' // SIGTERM to the container's process group
	shimKill      = 'K' // SIGKILL to all descendants
)

// Launch is the process that a shim starts. Without a path it starts none and is a guard: it
// waits for the end of the agent.
type Launch struct {
	Path string   `json:"path"` // of the program; "": none
	Args []string `json:"args"` // from the name of the program on
	Dir  string   `json:"dir,omitzero"`
	Env  []string `json:"env"`
	// Mark is a variable in the environment of the exec probes and hooks that the agent runs.
	// They are not descendants of a shim: it finds them by this variable when the agent dies.
	Mark string `json:"mark"`
}

// shimMessage is a report of a shim: first the process ID, or the error of the start, then the
// exit status.
type shimMessage struct {
	PID   int     `json:"pid,omitzero"`
	Error string  `json:"error,omitzero"`
	Exit  *Status `json:"exit,omitzero"`
}

// Status is the exit status of a container.
type Status struct {
	Code   int `json:"code"` // 128 + Signal when a signal ended the container
	Signal int `json:"signal,omitzero"`
}

// Exit is the end of a container.
type Exit struct {
	Status

	Message string // why, when the status does not say; "" otherwise
	At      time.Time
}

// IsShim reports whether args (os.Args) are those of a shim. The program must then call
// [ShimMain] and nothing else.
func IsShim(args []string) bool { return len(args) == 2 && args[1] == shimArgument }
