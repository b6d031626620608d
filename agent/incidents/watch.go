package incidents

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/core/states"
)

const (
	// minPause is the minimum time between two steps.
	minPause = time.Second
	// share is the maximum share of time that steps take: one part of share.
	share = 20
	// openPause is the time between two steps while an incident is open, for changes that are no change of a state.
	openPause = 10 * time.Second
)

// Watch has the incidents of an agent. It is a [states.Reader], and safe for concurrent use.
type Watch struct {
	probes  func() ([]Probe, iter.Seq[*Probe])
	changed chan struct{}
	log     atomic.Pointer[Log]

	mu     sync.Mutex
	notes  map[string][]Note // by ID
	closed bool

	file file
}

var _ states.Reader = (*Watch)(nil)

// NewWatch returns a Watch without incidents. probes returns the failing and the healthy probes for [Log.Step].
// [Watch.Run] calls it, and never concurrently with itself.
func NewWatch(probes func() (failing []Probe, healthy iter.Seq[*Probe])) *Watch {
	w := &Watch{probes: probes, changed: make(chan struct{}, 1), notes: make(map[string][]Note), file: file{dirty: make(chan struct{}, 1)}}
	w.log.Store(new(Log))
	return w
}

// Log returns the present incidents.
func (w *Watch) Log() *Log { return w.log.Load() }

// Changed implements [states.Reader].
func (w *Watch) Changed(c *states.Change) {
	if c.Removed || fails(c.From) || fails(c.To) {
		w.Wake()
	}
}

func fails(s states.State) bool { return s == states.Failure || s == states.Unknown }

// Wake requests a step, for a change that is no change of a state, such as a pause. It does not block.
func (w *Watch) Wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Run keeps the incidents up to date until ctx ends. It makes a step after a change, at most one in a second, and
// fewer if steps take long.
func (w *Watch) Run(ctx context.Context) {
	if !w.file.begun.IsZero() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(settle - time.Since(w.file.begun)):
		}
	}
	for {
		var again <-chan time.Time // never, if no incident is open
		if w.Log().Open() {
			again = time.After(openPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		case <-again:
		}
		begun := time.Now()
		failing, healthy := w.probes()
		w.set(w.Log().Step(failing, healthy, begun))
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(minPause, share*time.Since(begun))):
		}
	}
}
