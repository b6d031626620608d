// Package shim implements the parent of one container's processes: the agent's program, started again
// with a hidden argument.
//
// The shim starts the first process, adopts orphans, and kills all processes when the container must end. A
// pipe connects it to the agent. When the pipe is closed, because the agent has died, the shim ends
// the container.
//
// A shim runs in the initialization of this package, and ends the program there: see start_linux.go.
// This file has the protocol.
package shim

// Argument is the hidden first argument that makes a program a shim.
const Argument = "__prober-container-shim"

// The additional file descriptors of a shim. The container inherits only the standard ones.
const (
	controlFile = 3 // from the agent: a [Launch] in JSON and a line feed, then commands of one byte
	reportFile  = 4 // to the agent: each [Message] in JSON
)

// The commands to a shim. The end of the pipe means Kill.
const (
	Terminate = 'T' // SIGTERM to the container's process group
	Kill      = 'K' // SIGKILL to all descendants
)

// Launch describes the process that a shim starts. Without Path the shim is a guard: it starts no process, and
// only waits for the end of the agent.
type Launch struct {
	Path string   `json:"path"` // path of the program
	Args []string `json:"args"` // including the name of the program
	Dir  string   `json:"dir,omitzero"`
	Env  []string `json:"env"`
	// User is the user of the process, and Umask its umask; nil for the agent's.
	User  *User   `json:"user,omitzero"`
	Umask *uint32 `json:"umask,omitzero"`
	// Mark is for a guard: an environment variable of the exec probes, the hooks and the plugin
	// programs of the agent. They are not descendants of a shim. The guard finds them by Mark, and
	// kills them when the agent dies.
	Mark string `json:"mark,omitzero"`
}

// User is the user of a process.
type User struct {
	ID     uint32   `json:"id"`
	Group  uint32   `json:"group"`
	Groups []uint32 `json:"groups,omitempty"` // supplementary groups
}

// Message is a message from a shim. The first message has the process ID, or the error of the start. The second
// has the exit status.
type Message struct {
	PID   int     `json:"pid,omitzero"`
	Error string  `json:"error,omitzero"`
	Exit  *Status `json:"exit,omitzero"`
}

// Status is the exit status of a container.
type Status struct {
	Code   int `json:"code"` // 128 + Signal if a signal ended the container
	Signal int `json:"signal,omitzero"`
}
