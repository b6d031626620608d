package replace

import (
	"fmt"
	"io"
	"time"

	"github.com/daeace23/prober/probe"
)

const (
	leastDrain = time.Second           // the attempts of an old generation may always take so long
	drainGrace = 10 * time.Millisecond // for those that end at their deadline

	closeTimeout = 30 * time.Second // to release the probes of a generation and close it; a process is asked to end first
)

// endLocked closes gen, which may be nil, in the background: after its last attempt and the
// release of its probes.
func (h *Handler) endLocked(gen *generation, probes []probe.Handler) {
	if gen == nil {
		return
	}
	drained := gen.retire()
	h.ending.Go(func() {
		timer := time.NewTimer(max(time.Duration(h.longest.Load()), leastDrain) + drainGrace)
		defer timer.Stop()
		select {
		case <-drained:
		case <-timer.C:
		}
		err := within(closeTimeout, func() error {
			releaseAll(probes)
			return closeHandler(gen.handler)
		})
		if h.cfg.Closed != nil {
			h.cfg.Closed(gen.handler, err)
		}
	})
}

// abandon releases the probes of a generation that is not installed.
func abandon(all prepared) error {
	return within(closeTimeout, func() error {
		for _, p := range all {
			probe.Release(p)
		}
		return nil
	})
}

// within calls f, and returns an error if it has not returned within limit.
func within(limit time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("not closed within %s", limit)
	}
}

func closeHandler(h probe.Handler) error {
	if c, ok := h.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
