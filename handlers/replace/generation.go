package replace

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/internal/panics"
	"github.com/daeace23/prober/probe"
)

// generation is one handler behind a [Handler], and a count of the calls of it under way.
type generation struct {
	handler probe.Handler
	calls   atomic.Int64  // plus retired, when no more may begin
	drained chan struct{} // closed when a retired generation has no more calls
	once    sync.Once
}

const retired = int64(1) << 62

func newGeneration(h probe.Handler) *generation {
	return &generation{handler: h, drained: make(chan struct{})}
}

// acquire counts a call, and reports false when the generation is retired. Every acquire that
// reports true is followed by a release.
func (g *generation) acquire() bool {
	if g.calls.Add(1) < retired {
		return true
	}
	g.release()
	return false
}

func (g *generation) release() { g.add(-1) }

// retire makes every later acquire report false.
func (g *generation) retire() { g.add(retired) }

func (g *generation) add(n int64) {
	if g.calls.Add(n) == retired {
		g.once.Do(func() { close(g.drained) })
	}
}

const (
	leastDrain   = time.Second           // the attempts of an old generation may always take so long
	longestDrain = 24 * time.Hour        // and no longer, whatever their timeout is
	drainGrace   = 10 * time.Millisecond // for those that end at their deadline

	closeTimeout = 30 * time.Second // of Close; a process is asked to end first
)

// endLocked closes gen, which may be nil, in the background: after its last attempt, or the longest
// timeout of a probe, and after the release of its probes.
func (h *Handler) endLocked(gen *generation, probes []probe.Handler) {
	if gen == nil {
		return
	}
	gen.retire()
	h.ending.Go(func() {
		timer := time.NewTimer(min(max(time.Duration(h.longest.Load()), leastDrain), longestDrain) + drainGrace)
		defer timer.Stop()
		select {
		case <-gen.drained:
		case <-timer.C:
		}
		err := errors.Join(releaseAll(probes), closeWithin(closeTimeout, gen.handler))
		if h.cfg.Closed != nil {
			_ = panics.Call(func() error { h.cfg.Closed(gen.handler, err); return nil })
		}
	})
}

// releaseAll releases probes. Its error joins those that panic.
func releaseAll(probes []probe.Handler) error {
	var errs []error
	for _, p := range probes {
		if err := panics.Call(func() error { probe.Release(p); return nil }); err != nil {
			errs = append(errs, fmt.Errorf("release: %w", err))
		}
	}
	return errors.Join(errs...)
}

// closeWithin closes h, and returns an error if that has not returned within limit.
func closeWithin(limit time.Duration, h probe.Handler) error {
	c, ok := h.(io.Closer)
	if !ok {
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- panics.Call(c.Close) }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("not closed within %s", limit)
	}
}
