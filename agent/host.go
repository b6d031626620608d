package agent

import (
	"fmt"
	"sync"
	"time"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// troubleWindow is how long attempts count as recent, and the least time between two
// events about the same trouble.
const troubleWindow = time.Minute

// hostTroubles are the kinds of trouble of the agent's own host.
var hostTroubles = [...]struct {
	reason  probe.Reason
	event   string // reason of the event
	message string // of the event
	short   string // in readyz
}{
	{probe.ReasonHostStall, "HostStall",
		"The host stopped the agent or starved it of processor time: attempts ended late, which says nothing of their targets", "stalled"},
	{probe.ReasonHostResources, "HostResources",
		"The host had no descriptor, memory or port for the agent: attempts failed, which says nothing of their targets", "out of resources"},
}

// hostWatch observes attempts that failed for the host's own trouble. It tells of the
// first at once, and of those that follow once a [troubleWindow].
type hostWatch struct {
	// tell gets the attempts since it was called last, and the error of the last of them.
	// i is an index of hostTroubles. It must not block.
	tell func(i, attempts int, last error)

	mu     sync.Mutex
	closed bool
	seen   [len(hostTroubles)]hostTrouble
}

// hostTrouble is what was seen of one kind of trouble.
type hostTrouble struct {
	seconds [int(troubleWindow / time.Second)]struct {
		at       int64 // seconds since 1970
		attempts int
	}
	err    error       // of the last attempt
	untold int         // attempts
	timer  *time.Timer // until the next ones are told of; nil: at once
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
	s.untold += attempts
	untold := 0
	if s.timer == nil {
		untold = h.takeLocked(i)
	}
	h.mu.Unlock()
	if untold > 0 {
		h.tell(i, untold, err)
	}
}

// again tells of the attempts of the last [troubleWindow], if there were any.
func (h *hostWatch) again(i int) {
	h.mu.Lock()
	s := &h.seen[i]
	s.timer = nil
	untold, err := h.takeLocked(i), s.err
	h.mu.Unlock()
	if untold > 0 {
		h.tell(i, untold, err)
	}
}

// takeLocked returns how many attempts are to be told of now. If there are any, those that
// follow wait for a while.
func (h *hostWatch) takeLocked(i int) (untold int) {
	s := &h.seen[i]
	if h.closed || s.untold == 0 {
		return 0
	}
	untold, s.untold = s.untold, 0
	s.timer = time.AfterFunc(troubleWindow, func() { h.again(i) })
	return untold
}

// recent returns how many attempts the trouble took in the last minute, and the error of
// the last.
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

// checks are the lines of readyz about the host.
func (h *hostWatch) checks() (checks []healthCheck) {
	for i := range hostTroubles {
		if n, err := h.recent(i); n > 0 {
			checks = append(checks, healthCheck{"host", "!", fmt.Sprintf(
				"%s: %d attempts in the last minute said nothing of their targets: %s", hostTroubles[i].short, n, oneLine(err))})
		}
	}
	return checks
}

// close ends what waits to be told.
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

// hostTrouble tells of attempts that failed for the host's own trouble.
func (a *Agent) hostTrouble(i, attempts int, last error) {
	about := &hostTroubles[i]
	a.events.Host(about.event, about.message, attempts)
	a.log.Warn("trouble of this host: attempts said nothing of their targets", "reason", string(about.reason),
		"attempts", attempts, "error", last.Error())
}
