// Package clock has the two clocks of simulated peers: [Virtual], on which only waiting
// takes time, and [Real], the clock of the program. Read virtual.go first.
package clock

import (
	"context"
	"slices"
	"time"
)

// Clock is the time of a simulated network.
type Clock interface {
	// Now returns the time.
	Now() time.Time
	// Wait returns when ctx ends, wake is signalled or d has passed; a negative d never
	// passes. It reports whether wake was signalled.
	Wait(ctx context.Context, wake <-chan struct{}, d time.Duration) bool
	// At calls do at t, after all calls that are due until then.
	At(t time.Time, do func())
	// Follow adds n to the number of peers that act in real time. While there are any, a wait takes
	// real time.
	Follow(n int)
}

// event is a call that is due at a time.
type event struct {
	at time.Time
	do func()
}

// inserted returns events with e inserted in order of time, after events at the same time.
func inserted(events []event, e event) []event {
	i := len(events)
	for i > 0 && events[i-1].at.After(e.at) {
		i--
	}
	return slices.Insert(events, i, e)
}
