package agent

import (
	"fmt"
	"sync"
	"time"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/probe"
)

// troubleWindow is how long attempts count as recent, and the minimum time between two events
// about the same trouble.
const troubleWindow = time.Minute

// hostTroubles are the kinds of trouble of the agent's host.
var hostTroubles = [...]struct {
	reason  probe.Reason
	event   string // reason of the event
	message string // of the event
	short   string // in readyz
}{
	{probe.ReasonHostStall, "HostStall",
		"The host stopped the agent or starved it of processor time: attempts ended late through no fault of their targets", "stalled"},
	{probe.ReasonHostResources, "HostResources",
		"The host had no descriptor, memory or port for the agent: attempts failed through no fault of their targets", "out of resources"},
	{probe.ReasonHostNetwork, "HostNetwork",
		"The host had no route to a target, no resolver that answers, or no uplink whose witnesses answer: attempts failed through no fault of their targets", "without a network"},
}

// hostWatch observes attempts that failed because of trouble of the host. It reports the first at
// once, and those that follow once per [troubleWindow].
type hostWatch struct {
	// report gets the number of attempts since the last call, and the error of the last of them.
	// i is an index of hostTroubles. It must not block.
	report func(i, attempts int, last error)

	mu     sync.Mutex
	closed bool
	seen   [len(hostTroubles)]hostTrouble
}

// hostTrouble has the attempts that failed because of one kind of trouble.
type hostTrouble struct {
	seconds [int(troubleWindow / time.Second)]struct {
		at       int64 // seconds since 1970
		attempts int
	}
	err        error       // of the last attempt
	unreported int         // attempts
	timer      *time.Timer // until the next report; nil: report at once
}

var (
	_ worker.Observer      = (*hostWatch)(nil)
	_ worker.ProbeObserver = (*hostWatch)(nil)
)

// Observe implements [worker.Observer].
func (h *hostWatch) Observe(worker.Info) worker.ProbeObserver { return h }

// Tick implements [worker.ProbeObserver].
func (h *hostWatch) Tick(t *worker.Tick) {
	if t.Err == nil {
		return
	}
	reason := probe.ReasonOf(t.Err)
	for i := range hostTroubles {
		if hostTroubles[i].reason == reason {
			h.note(i, max(t.Attempts, 1), t.Err)
		}
	}
}

// Skipped implements [worker.ProbeObserver].
func (*hostWatch) Skipped(worker.SkipReason, int) {}

// Close implements [worker.ProbeObserver].
func (*hostWatch) Close() {}

func (h *hostWatch) note(i, attempts int, err error) {
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
		h.report(i, n, err)
	}
}

// flush reports the attempts of the last [troubleWindow], if there were any.
func (h *hostWatch) flush(i int) {
	h.mu.Lock()
	s := &h.seen[i]
	s.timer = nil
	n, err := h.takeLocked(i), s.err
	h.mu.Unlock()
	if n > 0 {
		h.report(i, n, err)
	}
}

// takeLocked returns how many attempts to report now. If there are any, the next report waits for a
// [troubleWindow].
func (h *hostWatch) takeLocked(i int) (n int) {
	s := &h.seen[i]
	if h.closed || s.unreported == 0 {
		return 0
	}
	n, s.unreported = s.unreported, 0
	s.timer = time.AfterFunc(troubleWindow, func() { h.flush(i) })
	return n
}

// recent returns how many attempts failed in the last minute, and the error of the last.
func (h *hostWatch) recent(i int) (attempts int, last error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.seen[i]
	oldest := time.Now().Add(-troubleWindow).Unix()
	for _, second := range s.seconds {
		if second.at > oldest {
			attempts += second.attempts
		}
	}
	return attempts, s.err
}

// checks returns the lines of readyz about the host.
func (h *hostWatch) checks() (checks []healthCheck) {
	for i := range hostTroubles {
		if n, err := h.recent(i); n > 0 {
			checks = append(checks, healthCheck{"host", "!", fmt.Sprintf(
				"%s: %d attempts failed in the last minute: %s", hostTroubles[i].short, n, joined.Line(err))})
		}
	}
	return checks
}

// close stops all timers.
func (h *hostWatch) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for i := range h.seen {
		if timer := h.seen[i].timer; timer != nil {
			timer.Stop()
		}
	}
}

// hostTrouble reports attempts that failed because of trouble of the host.
func (a *Agent) hostTrouble(i, attempts int, last error) {
	about := &hostTroubles[i]
	a.events.Host(about.event, about.message, attempts)
	a.log.Warn("attempts failed because of trouble of this host", "reason", string(about.reason),
		"attempts", attempts, "error", last.Error())
}
