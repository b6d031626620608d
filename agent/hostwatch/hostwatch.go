// Package hostwatch observes attempts that fail because of trouble on the agent's own host.
package hostwatch

import (
	"fmt"
	"sync"
	"time"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/probe"
)

// Window is how long attempts count as recent, and the minimum time between two events about the same
// trouble.
const Window = time.Minute

// Trouble is a kind of trouble on the agent's host.
type Trouble struct {
	Reason  probe.Reason
	Event   string // reason of the event
	Message string // of the event
	short   string // in readyz
}

var troubles = [...]Trouble{
	{probe.ReasonHostStall, "HostStall",
		"The host stopped the agent or starved it of processor time: attempts ended late through no fault of their targets", "stalled"},
	{probe.ReasonHostResources, "HostResources",
		"The host had no descriptor, memory or port for the agent: attempts failed through no fault of their targets", "out of resources"},
	{probe.ReasonHostNetwork, "HostNetwork",
		"The host had no route to a target, no resolver that answers, or no uplink whose witnesses answer: attempts failed through no fault of their targets", "without a network"},
}

// Watch observes attempts that fail because of trouble on the host. It reports the first one at once, and
// later ones once per [Window].
type Watch struct {
	// Report is called with the number of attempts since the last call, and the error of the last attempt. It
	// must not block.
	Report func(about *Trouble, attempts int, last error)

	mu     sync.Mutex
	closed bool
	seen   [len(troubles)]trouble
}

// trouble has the attempts that failed because of one kind of trouble.
type trouble struct {
	seconds [int(Window / time.Second)]struct {
		at       int64 // seconds since the epoch
		attempts int
	}
	err        error       // of the last attempt
	unreported int         // number of attempts
	timer      *time.Timer // until the next report; nil: report at once
}

var (
	_ worker.Observer      = (*Watch)(nil)
	_ worker.ProbeObserver = (*Watch)(nil)
)

// Observe implements [worker.Observer].
func (h *Watch) Observe(worker.Info) worker.ProbeObserver { return h }

// Tick implements [worker.ProbeObserver].
func (h *Watch) Tick(t *worker.Tick) {
	if t.Err == nil {
		return
	}
	reason := probe.ReasonOf(t.Err)
	for i := range troubles {
		if troubles[i].Reason == reason {
			h.note(i, max(t.Attempts, 1), t.Err)
		}
	}
}

// Skipped implements [worker.ProbeObserver].
func (*Watch) Skipped(worker.SkipReason, int) {}

// Close implements [worker.ProbeObserver].
func (*Watch) Close() {}

func (h *Watch) note(i, attempts int, err error) {
	h.mu.Lock()
	s := &h.seen[i]
	now := time.Now().Unix()
	second := &s.seconds[now%int64(len(s.seconds))]
	if second.at != now {
		second.at, second.attempts = now, 0
	}
	second.attempts += attempts
	s.err = err
	s.unreported += attempts
	n := 0
	if s.timer == nil {
		n = h.takeLocked(i)
	}
	h.mu.Unlock()
	if n > 0 {
		h.Report(&troubles[i], n, err)
	}
}

// flush reports the attempts of the last [Window], if there were any.
func (h *Watch) flush(i int) {
	h.mu.Lock()
	s := &h.seen[i]
	s.timer = nil
	n, err := h.takeLocked(i), s.err
	h.mu.Unlock()
	if n > 0 {
		h.Report(&troubles[i], n, err)
	}
}

// takeLocked returns how many attempts to report now. If there are any, the next report waits for a
// [Window].
func (h *Watch) takeLocked(i int) (n int) {
	s := &h.seen[i]
	if h.closed || s.unreported == 0 {
		return 0
	}
	n, s.unreported = s.unreported, 0
	s.timer = time.AfterFunc(Window, func() { h.flush(i) })
	return n
}

// recent returns how many attempts failed in the last minute, and the error of the last one.
func (h *Watch) recent(i int) (attempts int, last error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.seen[i]
	oldest := time.Now().Add(-Window).Unix()
	for _, second := range s.seconds {
		if second.at > oldest {
			attempts += second.attempts
		}
	}
	return attempts, s.err
}

// Recent returns a line for each kind of trouble in the last minute.
func (h *Watch) Recent() (lines []string) {
	for i := range troubles {
		if n, err := h.recent(i); n > 0 {
			lines = append(lines, fmt.Sprintf("%s: %d attempts failed in the last minute: %s", troubles[i].short, n, joined.Line(err)))
		}
	}
	return lines
}

// Stop stops all timers.
func (h *Watch) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for i := range h.seen {
		if timer := h.seen[i].timer; timer != nil {
			timer.Stop()
		}
	}
}
