// Package watch shows the probes of a running agent live: as a table that fills the terminal, or as
// a line for each change.
//
// Read model.go first: [Model] is the state of the screen, without a terminal and without an agent.
// view.go renders it as text, feed.go receives the changes from the agent, and program.go connects them
// with a terminal. lines.go is for output that is not a terminal.
package watch

import (
	"context"
	"time"

	"github.com/daeace23/prober/agent/api"
)

// Config configures [Screen] and [Lines]. All functions are required; they are called concurrently.
type Config struct {
	Server string // the name of the agent, for the header of the screen
	// ReadOnly is the reason for which the agent refuses actions; "" if it accepts them.
	ReadOnly string
	// Follow connects to the agent and calls connected. It then calls change with the current state of each
	// probe, and with each change, until ctx ends or the agent closes the connection.
	Follow func(ctx context.Context, connected func(), change func(Change)) error
	// History returns a probe with its past ticks.
	History func(ctx context.Context, p *api.ProbeStatus) (api.ProbeStatus, error)
	// Details returns the details of a probe, as text of several lines.
	Details func(ctx context.Context, p *api.ProbeStatus) (string, error)
	// Act carries out an action on a probe. pause is the duration of a pause; "" means without end.
	Act func(ctx context.Context, action string, p *api.ProbeStatus, pause string) error

	Color bool // whether the terminal supports colors
	ASCII bool // whether the terminal may support only ASCII
}

// Change is a change of a probe.
type Change struct {
	Probe   api.ProbeStatus
	Removed bool // it was removed, or is not selected any more
}

// Link is the state of the connection to the agent.
type Link struct {
	Connected bool
	Epoch     int       // the number of connections so far
	Since     time.Time // of this connection
	Err       string    // error if there is no connection
}

// id identifies a probe, and sorts by its name.
func id(p *api.ProbeStatus) string {
	return p.Namespace + "\x00" + p.Pod + "\x00" + p.Container + "\x00" + p.Kind + "\x00" + p.UID
}
