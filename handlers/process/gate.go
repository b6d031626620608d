package process

import (
	"errors"
	"sync"

	"github.com/daeace23/prober/handlers/internal/attempt"
)

var errFull = &attempt.Skipped{Err: errors.New("as many attempts as the limit allows are in flight")}

// gate counts the attempts in flight, and lets none begin after it is closed.
type gate struct {
	mu     sync.Mutex
	busy   int
	closed bool
	idle   chan struct{} // closed when the last attempt ends after close
}

// enter counts an attempt in, unless there are most of them; 0 means no limit. An enter
// without an error is followed by a leave.
func (g *gate) enter(most int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return attempt.ErrClosed
	case most > 0 && g.busy >= most:
		return errFull
	}
	g.busy++
	return nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy--; g.closed && g.busy == 0 {
		close(g.idle)
	}
}

// close lets no attempt begin any more. idle is closed when the last has ended; ok is false if
// the gate was closed before.
func (g *gate) close() (idle <-chan struct{}, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, false
	}
	g.closed, g.idle = true, make(chan struct{})
	if g.busy == 0 {
		close(g.idle)
	}
	return g.idle, true
}

// busyNow returns the number of attempts in flight.
func (g *gate) busyNow() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.busy
}
