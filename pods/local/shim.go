package local

import (
	"cmp"
	"os"
	"time"
)

// shimArgument is the hidden first argument that makes a program the shim.
const shimArgument = "__prober-container-shim"

// The shim's descriptors beside the standard ones, which are the container's own.
const (
	shimControl = 3 // from the agent: a launch in JSON and a line feed, then commands of one byte
	shimReport  = 4 // to the agent: messages in JSON
)

// The commands that the shim takes. The end of the pipe stands for shimKill.
const (
	shimTerminate = 'T' // SIGTERM to the container's process group
	shimKill      = 'K' // SIGKILL to all descendants
)

// launch is what a shim is to run. Without a path it runs nothing and is the agent's
// guard: it waits for the end of the agent.
type launch struct {
	Path string   `json:"path"`
	Args []string `json:"args"` // with the name of the program
	Dir  string   `json:"dir,omitzero"`
	Env  []string `json:"env"`
	// Mark is a variable in the environment of every command that the agent runs in
	// containers: exec probes and hooks, which are no descendants of a shim.
	Mark string `json:"mark"`
}

// shimMessage is what a shim tells: the process ID once the container has started or
// why it could not, then how it ended.
type shimMessage struct {
	PID   int       `json:"pid,omitzero"`
	Error string    `json:"error,omitzero"`
	Exit  *shimExit `json:"exit,omitzero"`
}

type shimExit struct {
	Code   int `json:"code"` // 128 + signal when a signal ended it
	Signal int `json:"signal,omitzero"`
}

// exit is how a container ended.
type exit struct {
	shimExit
	message string
	at      time.Time
}

// IsShim reports whether a program that was started with args (os.Args) is to be the
// shim of a container. It must then call [ShimMain] and nothing else.
func IsShim(args []string) bool { return len(args) == 2 && args[1] == shimArgument }

// shimProgram returns the program to start as shim.
func shimProgram(configured string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	self, err := os.Executable()
	return cmp.Or(self, os.Args[0]), err
}
