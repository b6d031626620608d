package target

import (
	"sync"
	"syscall"
	"time"

	"github.com/daeace23/prober/bench/internal/measure"
)

// watch records when requests arrive.
type watch struct {
	mu     sync.Mutex
	calls  *measure.Calls // nil: nothing is recorded
	n      int
	period time.Duration
	start  time.Time
}

func (w *watch) begin(r request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	limit := int(time.Duration(r.Seconds)*time.Second/r.Period) + 4
	w.calls, w.n, w.period, w.start = measure.NewCalls(r.Watch, limit), r.Watch, r.Period, time.Now()
}

// end excludes the last period, whose requests may not have arrived yet.
func (w *watch) end() Lags {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := new(measure.Histogram)
	if w.calls != nil {
		end := time.Now().Add(-w.period)
		for i := range w.n {
			w.calls.Lags(h, i, w.period, w.start, end)
		}
		w.calls = nil
	}
	return lagsOf(h)
}

// arrived records a connection by its local address.
func (w *watch) arrived(fd int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		return
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return // the peer has closed the connection
	}
	if a, ok := name.(*syscall.SockaddrInet4); ok {
		if i := int(a.Addr[2])*250 + int(a.Addr[3]) - 1; i < w.n {
			w.calls.Record(i)
		}
	}
}
