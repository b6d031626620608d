package group

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/explain"
)

// Remove stops the probes of key. When it returns, they record nothing, and their decided results are
// removed. Attempts under way are cancelled.
func (g *Group[K]) Remove(key K) { g.end(g.take(key, func(*entry[K]) bool { return true })) }

// RemoveFunc is [Group.Remove] for the probes of key that match.
func (g *Group[K]) RemoveFunc(key K, match func(ID[K]) bool) {
	matching := slices.DeleteFunc(g.entriesOf(key), func(e *entry[K]) bool { return !match(e.id()) }) // with no lock held
	g.end(g.take(key, func(e *entry[K]) bool { return slices.Contains(matching, e) }))
}

// entriesOf returns a copy of the entries of key.
func (g *Group[K]) entriesOf(key K) []*entry[K] {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return slices.Clone(g.entriesLocked(key))
}

func (e *entry[K]) id() ID[K] { return ID[K]{e.home.key, e.Task().Subject.Container, e.Kind()} }

// Keys returns the keys that have probes, in no particular order.
func (g *Group[K]) Keys() []K {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return slices.Collect(maps.Keys(g.keys))
}

// take removes the entries of key that match, and stops their workers. Workers for the same probes may be
// started from then on. The caller must pass the result to end.
func (g *Group[K]) take(key K, match func(*entry[K]) bool) (taken []*entry[K]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var kept []*entry[K]
	for _, e := range g.entriesLocked(key) {
		if match(e) {
			e.resting = e.Halt()
			g.stopping[e] = struct{}{}
			taken = append(taken, e)
		} else {
			kept = append(kept, e)
		}
	}
	if len(taken) == 0 {
		return nil
	}
	taken[0].home.entries = kept
	if len(kept) == 0 {
		delete(g.keys, key)
	}
	g.count -= len(taken)
	g.memory.probes.Add(-int64(len(taken)))
	return taken
}

// end closes the observers of taken entries, and releases their handlers.
func (g *Group[K]) end(taken []*entry[K]) {
	next := 0
	defer func() {
		if next < len(taken) { // a callback has ended the goroutine
			go g.end(taken[next:])
		}
	}()
	for next < len(taken) {
		e := taken[next]
		next++
		e.end()
	}
}

// end closes the observers of a taken entry, and releases its handler. The calls are deferred, so they run
// even if a callback ends the goroutine.
func (e *entry[K]) end() {
	defer func() {
		if e.resting && e.Idle() { // else Drained forgets it
			e.home.group.forget(e)
		}
	}()
	defer e.Release(e.Setup().Handler)
	if e.resting {
		e.CloseObservers()
	}
}

// forget removes e from stopping.
func (g *Group[K]) forget(e *entry[K]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.stopping, e)
	if len(g.stopping) == 0 && g.ended != nil {
		close(g.ended)
		g.ended = nil
	}
}

// Ended implements engine.Owner.
func (e *entry[K]) Ended() {
	e.home.group.end(e.home.group.take(e.home.key, func(o *entry[K]) bool { return o == e }))
}

// Drained implements engine.Owner.
func (e *entry[K]) Drained() { e.home.group.forget(e) }

// LeftError is the error of [Group.Shutdown] if its context ends before all attempts have.
type LeftError struct {
	Left []worker.Info // the probes that are still under way, sorted
	Err  error         // the cause of the context's end
}

// shownLeft is the maximum number of probes in the text of a [LeftError].
const shownLeft = 10

func (e *LeftError) Error() string {
	var names []string
	for _, i := range e.Left[:min(len(e.Left), shownLeft)] {
		names = append(names, fmt.Sprintf("%s %s (handler %q)", explain.Task(i.Namespace, i.Pod, i.Container), i.Kind, i.Handler))
	}
	text := "probes are still under way: " + strings.Join(names, ", ")
	if more := len(e.Left) - shownLeft; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ": " + e.Err.Error()
}

func (e *LeftError) Unwrap() error { return e.Err }

// closeGrace is how long Shutdown waits, after the end of its context, for the closing of observers and the
// release of handlers. Neither may block.
const closeGrace = time.Second

// helpAfter is how long the closing of an observer or the release of a handler may take before another
// goroutine ends the other probes.
const helpAfter = closeGrace / 10

// Shutdown stops all probes, and ends the readers of [Group.Subscribe]. It cancels the attempts under way
// and waits for their end. If ctx ends first, because a handler or an observer does not return, the error
// is a [*LeftError]; the results of these probes are not counted. If ctx has already ended, Shutdown does
// not wait for attempts. Handlers, observers and [Config.Event] must not call Shutdown, because it waits
// for them.
func (g *Group[K]) Shutdown(ctx context.Context) error {
	var taken []*entry[K]
	for _, key := range g.close() { // stop all before waiting for any
		taken = append(taken, g.take(key, func(*entry[K]) bool { return true })...)
	}
	g.endAll(ctx, taken)
	err := g.await(ctx)
	if err == nil {
		g.shared.Wait()
	}
	g.closeDone()
	for _, c := range g.owned {
		c.Close()
	}
	return err
}

// endAll ends many entries. It waits until all are ended, or until closeGrace after the end of ctx: the
// remaining entries then have attempts under way, or observers that block. One goroutine ends the entries.
// After each helpAfter another one helps, so an observer that blocks does not delay other probes.
func (g *Group[K]) endAll(ctx context.Context, taken []*entry[K]) {
	var next atomic.Int64
	var left sync.WaitGroup
	left.Add(len(taken))
	end := func(e *entry[K]) {
		defer left.Done() // deferred: runs even if a callback ends the goroutine
		e.end()
	}
	help := func() {
		for i := int(next.Add(1)) - 1; i < len(taken); i = int(next.Add(1)) - 1 {
			end(taken[i])
		}
	}
	closed := make(chan struct{})
	go func() {
		left.Wait()
		close(closed)
	}()
	go help()
	helper := time.NewTicker(helpAfter)
	defer helper.Stop()
	ended, grace := ctx.Done(), (<-chan time.Time)(nil)
	for {
		select {
		case <-closed:
			return
		case <-helper.C:
			go help()
		case <-ended:
			ended, grace = nil, time.After(closeGrace)
		case <-grace:
			return
		}
	}
}

// await waits until no probe is stopping.
func (g *Group[K]) await(ctx context.Context) error {
	ended := g.stoppedChan()
	if ended == nil {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	left := g.stoppingInfos()
	if len(left) == 0 {
		return nil
	}
	return &LeftError{left, context.Cause(ctx)}
}

// close makes Add fail from now on, and returns the keys that have probes.
func (g *Group[K]) close() []K {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	return slices.Collect(maps.Keys(g.keys))
}

// closeDone ends the readers of [Group.Subscribe].
func (g *Group[K]) closeDone() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.done:
	default:
		close(g.done)
	}
}

// stoppedChan returns a channel that is closed when no probe is stopping any more; nil if none is.
func (g *Group[K]) stoppedChan() chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.stopping) > 0 && g.ended == nil {
		g.ended = make(chan struct{})
	}
	return g.ended
}

func (g *Group[K]) stoppingInfos() (all []worker.Info) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for e := range g.stopping {
		all = append(all, e.Info())
	}
	slices.SortFunc(all, compareInfos)
	return all
}
