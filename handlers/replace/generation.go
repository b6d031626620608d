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

// generation is one handler behind a [Handler], with a count of its running calls.
type generation struct {
	handler probe.Handler
	calls   atomic.Int64  // number of running calls, plus the constant retired after retire
	drained chan struct{} // closed when a retired generation has no running calls
	once    sync.Once
}

const retired = int64(1) << 62

func newGeneration(h probe.Handler) *generation {
	return &generation{handler: h, drained: make(chan struct{})}
}

// acquire counts a call. It returns false if the generation is retired. After true, the caller must call
// release.
func (g *generation) acquire() bool {
	if g.calls.Add(1) < retired {
		return true
	}
	g.release()
	return false
}

func (g *generation) release() { g.add(-1) }

// retire makes every later acquire return false.
func (g *generation) retire() { g.add(retired) }

func (g *generation) add(n int64) {
	if g.calls.Add(n) == retired {
		g.once.Do(func() { close(g.drained) })
	}
}

const (
	leastDrain   = time.Second           // minimum time for attempts of an old generation
	longestDrain = 24 * time.Hour        // maximum time, regardless of their timeouts
	drainGrace   = 10 * time.Millisecond // extra time for attempts that end at their deadline

	closeTimeout = 30 * time.Second // time limit of Close, which may first ask a process to end
)

// endLocked releases probes and closes gen in the background, after the last attempt of gen or after the
// longest timeout of all attempts so far, bounded by leastDrain and longestDrain. gen may be nil.
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

// releaseAll releases probes. Its error joins the panics of Release.
func releaseAll(probes []probe.Handler) error {
	var errs []error
	for _, p := range probes {
		if err := panics.Call(func() error { probe.Release(p); return nil }); err != nil {
			errs = append(errs, fmt.Errorf("release: %w", err))
		}
	}
	return errors.Join(errs...)
}

// closeWithin closes h, and returns an error if Close has not returned within limit.
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
