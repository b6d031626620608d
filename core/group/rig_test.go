package group_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

const ms = time.Millisecond

// bubble runs a subtest in a synctest bubble. Its group is older than any period, so first ticks are not
// delayed. The group is shut down at the end of the test.
func bubble(t *testing.T, name string, cfg group.Config, test func(t *testing.T, g *group.Group[string])) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, err := group.New[string](cfg)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			test(t, g)
			if err := g.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})
}

// wait waits for d, and until all events that are due then have ended.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// add adds a probe, and waits for its first tick.
func add(t *testing.T, g *group.Group[string], key string, p group.Probe) group.ID[string] {
	t.Helper()
	if err := g.Add(key, p); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return group.ID[string]{Key: key, Task: p.Task.Subject.Container, Kind: p.Kind}
}

// status returns the state of a probe, which must exist.
func status(t *testing.T, g *group.Group[string], id group.ID[string]) group.Status {
	t.Helper()
	s, ok := g.Status(id)
	if !ok {
		t.Fatalf("no probe %v", id)
	}
	return s
}

// releaser is a handler that counts its attempts and its releases.
type releaser struct {
	probe.HandlerFunc
	calls, released atomic.Int64
}

func newReleaser(answer probe.HandlerFunc) *releaser { return &releaser{HandlerFunc: answer} }

func (r *releaser) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	r.calls.Add(1)
	return r.HandlerFunc(ctx, req)
}

func (r *releaser) Release() { r.released.Add(1) }

func (r *releaser) wantReleased(t *testing.T, what string, want int64) {
	t.Helper()
	if got := r.released.Load(); got != want {
		t.Errorf("%s: released %d times, want %d", what, got, want)
	}
}

// updates keeps the updates read by a subscription.
type updates struct {
	mu  sync.Mutex
	all []results.Update
}

func subscribe(ctx context.Context, g *group.Group[string]) *updates {
	u := new(updates)
	go func() {
		for _, update := range g.Subscribe(ctx) {
			u.mu.Lock()
			u.all = append(u.all, update)
			u.mu.Unlock()
		}
	}()
	return u
}

// take returns the updates since the last call.
func (u *updates) take() []results.Update {
	synctest.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	all := slices.Clone(u.all)
	u.all = nil
	return all
}

// gateLog is an observer that records the gates of all probes.
type gateLog struct {
	mu     sync.Mutex
	gates  []worker.Gate
	closed int
}

func (l *gateLog) Observe(worker.Info) worker.ProbeObserver { return l }
func (l *gateLog) Tick(*worker.Tick)                        {}
func (l *gateLog) Skipped(worker.SkipReason, int)           {}

func (l *gateLog) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed++
}

func (l *gateLog) Gated(g worker.Gate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gates = append(l.gates, g)
}

func (l *gateLog) take() []worker.Gate {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.gates
	l.gates = nil
	return all
}

// list is a slice that a handler appends to while the test reads it.
type list[T any] struct {
	mu  sync.Mutex
	all []T
}

func (l *list[T]) add(v T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, v)
}

func (l *list[T]) get() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}
