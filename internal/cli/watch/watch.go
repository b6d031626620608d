// Package watch shows the probes of a running agent live: as a table that fills the terminal, or as
// a line for each change.
//
// Read model.go first: [Model] is the state of the screen, without a terminal and without an agent.
// view.go writes it as text, feed.go brings what the agent sends, and program.go connects all of it
// with a terminal. lines.go is for programs that have none.
package watch

import (
	"context"
	"time"

	"github.com/daeace23/prober/agent/api"
)

// Config says what is watched. All functions are required; they are called concurrently.
type Config struct {
	Server string // the name of the agent, for the head of the screen
	// ReadOnly says why the agent would refuse actions; "": it takes them.
	ReadOnly string
	// Follow connects to the agent, calls connected, and then change with the present state of each
	// probe and with its changes, until ctx ends or the agent ends the connection.
	Follow func(ctx context.Context, connected func(), change func(Change)) error
	// History returns a probe with its past ticks.
	History func(ctx context.Context, p *api.ProbeStatus) (api.ProbeStatus, error)
	// Details returns all that is known of a probe, as text of several lines.
	Details func(ctx context.Context, p *api.ProbeStatus) (string, error)
	// Act carries out an action on a probe. pause is how long to pause it; "" is without end.
	Act func(ctx context.Context, action string, p *api.ProbeStatus, pause string) error

	Color bool // the terminal shows colors
	ASCII bool // the terminal may not show other characters
}

// Change is a change of a probe.
type Change struct {
	Probe   api.ProbeStatus
	Removed bool // it is gone, or no longer selected
}

// Link is the state of the connection to the agent.
type Link struct {
	Connected bool
	Epoch     int       // the number of connections so far
	Since     time.Time // of this connection
	Err       string    // why there is none
}

// id identifies a probe, and sorts by its name.
func id(p *api.ProbeStatus) string {
	return p.Namespace + "\x00" + p.Pod + "\x00" + p.Container + "\x00" + p.Kind + "\x00" + p.UID
}
