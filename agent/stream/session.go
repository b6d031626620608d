package stream

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/events"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/pods"
)

const (
	pauseMin = 100 * time.Millisecond // between two updates of the table
	pauseMax = 250 * time.Millisecond // leaves an update 250 ms before readers are half a second late
	recount  = 250 * time.Millisecond // pause before missing probes are searched for again
	chunk    = 128                    // objects encoded between two updates of the table
	burst    = 16                     // objects encoded before the processor is yielded to ticks
)

// session lasts from the first reader to the last. Its goroutine, which [Hub.Run] starts, encodes every
// object, so that no reader gets an older version after a newer one.
type session struct {
	lane  *lane
	ended chan struct{} // closed when the last reader has left
	table *table

	// The fields below are owned by run.
	state  State
	probes int  // number in the table
	order  []id // of the events in the table, newest last
}

func newSession(l *lane) *session {
	return &session{lane: l, ended: make(chan struct{}), table: newTable()}
}

// run updates the table until the last reader leaves or ctx ends.
func (s *session) run(ctx context.Context, state State) {
	s.state = state
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.lane.inbox.take() // drops the changes of the previous session
	watching.Go(func() {
		for c := range state.Watch(ctx) {
			s.lane.inbox.addPod(c)
			s.lane.signal()
		}
	})
	s.update() // also takes marks of the previous session
	s.putEvents(s.state.Events())
	pause := time.NewTimer(s.pause(0))
	defer pause.Stop()
	var wake <-chan struct{} // nil during a pause
	for {
		select {
		case <-s.ended:
			return
		case <-ctx.Done():
			s.update()
			return
		case <-pause.C:
			if s.counted() {
				wake = s.lane.wake
				continue
			}
		case <-wake:
		}
		start := time.Now()
		s.update()
		wake = nil
		pause.Reset(s.pause(time.Since(start)))
	}
}

// pause returns the pause after an update with this duration. It limits the session to a third of a
// processor's time, but is at most [pauseMax].
func (s *session) pause(took time.Duration) time.Duration {
	pause := min(max(pauseMin, 2*took), pauseMax)
	if !s.counted() {
		pause = max(pause, recount)
	}
	return pause
}

// counted reports whether the table may have all probes. A probe has no mark before the manager has it, and
// after it has ended by itself: the numbers differ then.
func (s *session) counted() bool { return s.lane.hub.open.Load() == int64(s.probes) }

// update puts the newest state of all changed objects into the table.
func (s *session) update() {
	changed := make(map[manager.Key]struct{})
	s.lane.takeMarked(changed)
	c := s.lane.inbox.take()
	s.putPods(slices.Collect(maps.Values(c.pods)))
	s.putEvents(c.events)
	maps.Copy(changed, c.probes)
	if len(c.pods) > 0 {
		for key := range s.table.probes(func(uid types.UID) bool { _, ok := c.pods[uid]; return ok }) {
			changed[key] = struct{}{}
		}
	}
	s.putProbes(slices.Collect(maps.Keys(changed)))
	if !s.counted() {
		s.putProbes(s.differences())
	}
	s.table.sweep(time.Now())
}

// differences returns the probes that are only in the table or only in the manager. Usually there are none: a
// removed probe stays open until its attempt has ended.
func (s *session) differences() (keys []manager.Key) {
	common := 0
	s.state.Select(func(i *worker.Info) bool {
		key := keyOf(i)
		if s.table.has(probeID(key)) {
			common++
		} else {
			keys = append(keys, key)
		}
		return false
	})
	if common == s.probes {
		return keys
	}
	gone := s.table.probes(func(types.UID) bool { return true })
	s.state.Select(func(i *worker.Info) bool {
		delete(gone, keyOf(i))
		return false
	})
	return slices.AppendSeq(keys, maps.Keys(gone))
}

func (s *session) putPods(changed []pods.Change) {
	put(s, changed, func(c *pods.Change) (version, error) { return encodePod(s.lane.view, c) })
}

func (s *session) putProbes(keys []manager.Key) {
	put(s, keys, func(key *manager.Key) (version, error) {
		if status, ok := s.state.Probe(*key); ok {
			return encodeProbe(s.lane.view, *key, &status)
		}
		last, _ := s.table.get(probeID(*key))
		return encodeRemoved(s.lane.view, *key, last.label)
	})
}

// putEvents puts events into the table, and drops the oldest beyond the limit.
func (s *session) putEvents(list []v1.Event) {
	put(s, list, func(e *v1.Event) (version, error) { return encodeEvent(e) })
	for i := range list {
		latest := eventID(&list[i])
		s.order = append(slices.DeleteFunc(s.order, func(o id) bool { return o == latest }), latest)
	}
	for len(s.order) > events.Max {
		s.table.forget(s.order[0])
		s.order = s.order[1:]
	}
}

// put encodes objects, and puts them into the table in chunks.
func put[T any](s *session, objects []T, encode func(*T) (version, error)) {
	for part := range slices.Chunk(objects, chunk) {
		versions := make([]version, 0, len(part))
		for i := range part {
			if i%burst == 0 {
				runtime.Gosched()
			}
			if v, err := encode(&part[i]); err == nil { // an error means a number that JSON cannot represent
				versions = append(versions, v)
			}
		}
		s.probes += s.table.put(versions)
	}
}
