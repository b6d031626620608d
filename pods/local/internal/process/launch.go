package process

import (
	"errors"
	"time"

	"github.com/daeace23/prober/internal/procgroup"
	"github.com/daeace23/prober/pods/local/internal/shim"
)

// ErrCanceled is the error of a start that was canceled before it began.
var ErrCanceled = errors.New("the start was canceled")

// Launch describes the process of a container. Without Args it describes a guard, which only waits for the end
// of the agent.
type Launch struct {
	Args []string // including the name of the program
	Dir  string
	Env  []string
	// User is the user of the process, and Umask its umask; nil for the agent's.
	User  *procgroup.User
	Umask *uint32
	// Mark is for a guard: see [shim.Launch].
	Mark string
}

// Status is the exit status of a container.
type Status = shim.Status

// Exit describes the end of a container.
type Exit struct {
	Status

	Message string // additional reason; often ""
	At      time.Time
}
