package engine_test

import (
	"context"
	"testing"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/handshake"
	"github.com/daeace23/prober/probe"
)

// watching is an observer of handshakes.
type watching struct{ traces }

func (o *watching) Observe(worker.Info) worker.ProbeObserver { return o }
func (*watching) Tick(*worker.Tick)                          {}
func (*watching) WatchHandshakes()                           {}

// TestContextHasWatcher has the observer among others, at each place.
func TestContextHasWatcher(t *testing.T) {
	for place := range 5 {
		bubble(t, string(rune('0'+place)), func(t *testing.T) {
			var found, derived any
			r, o := tracedRig(t, func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
				found = ctx.Value(handshake.Key{})
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				derived = ctx.Value(handshake.Key{})
				return probe.Outcome{Result: probe.Success}, nil
			})
			var want any
			r.shared.Observers = []worker.Observer{o, o, o, o}
			if place < 4 {
				w := new(watching)
				r.shared.Observers[place], want = w, w
			}
			r.run().wait(100 * ms)
			if found != want || derived != want {
				t.Errorf("got %v and %v, want %v", found, derived, want)
			}
		})
	}
}
