package replace

import (
	"sync"
	"sync/atomic"

	"github.com/daeace23/prober/probe"
)

// generation is one handler behind a [Handler], and a count of its users: the attempts under
// way and the releases of its probes.
type generation struct {
	handler probe.Handler
	users   atomic.Int64  // plus retired, when no more may begin
	drained chan struct{} // closed when a retired generation has no more users
	once    sync.Once
}

const retired = int64(1) << 62

func newGeneration(h probe.Handler) *generation {
	return &generation{handler: h, drained: make(chan struct{})}
}

// acquire adds a user, and reports false when the generation is retired. Every acquire that
// reports true is followed by a release.
func (g *generation) acquire() bool {
	if g.users.Add(1) < retired {
		return true
	}
	g.release()
	return false
}

func (g *generation) release() {
	if g.users.Add(-1) == retired {
		g.once.Do(func() { close(g.drained) })
	}
}

// retire makes every later acquire report false. The channel is closed after the last
// release.
func (g *generation) retire() <-chan struct{} {
	if g.users.Add(retired) == retired {
		g.once.Do(func() { close(g.drained) })
	}
	return g.drained
}

// discard releases the handlers of probes in the background, so that nobody waits for one
// that hangs. g is not closed before, within limits. It must not be retired yet.
func (g *generation) discard(prepared ...probe.Handler) {
	if len(prepared) == 0 || !g.acquire() {
		return
	}
	go func() {
		defer g.release()
		releaseAll(prepared)
	}()
}

func releaseAll(prepared []probe.Handler) {
	for _, p := range prepared {
		probe.Release(p)
	}
}
