package stream

import (
	"bytes"
	"math/bits"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/probe"
)

// id identifies an object of a stream.
type id struct {
	uid       types.UID // of the pod; for an event, its name
	container string    // of a probe
	object    object
	kind      probe.Kind // of a probe
}

// object is the type of an object.
type object byte

const (
	podObject object = iota
	probeObject
	eventObject
)

// String returns the name of the object's events in a stream.
func (o object) String() string { return [...]string{"pod", "probe", "event"}[o] }

// version is the newest state of an object.
type version struct {
	id      id
	frame   []byte // as readers receive it; read-only
	removed bool
	// label is needed to encode the removal of a probe.
	label label
}

// label identifies a probe to users, in addition to its id.
type label struct{ namespace, pod, handler string }

// table has the newest version of every object, and for each reader the set of objects that it has not
// received. Its size is bounded by the number of objects: a slow reader misses intermediate versions, and a
// removed object stays until all readers have received its removal.
// See RATIONALE.md, "Why does a stream keep a bit an object for each reader, and no queue?"
type table struct {
	mu      sync.Mutex
	index   map[id]int // into slots
	slots   []version
	free    []int             // slots without an object
	removed map[int]time.Time // times of removal, by slot
	readers map[*Reader]*mask // slots that each reader has not received
}

func newTable() *table {
	return &table{index: make(map[id]int), removed: make(map[int]time.Time), readers: make(map[*Reader]*mask)}
}

const (
	// maxRemoved is how many removed objects are kept for slow readers, in addition to the number of live
	// objects.
	maxRemoved = 1000
	// maxLate is how long a removed object is kept beyond maxRemoved.
	maxLate = time.Minute
)

func (t *table) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.readers)
}

// attach adds a reader that has received no objects.
func (t *table) attach(r *Reader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := new(mask)
	for at := range t.slots {
		if v := &t.slots[at]; v.frame != nil && !v.removed {
			m.add(at)
		}
	}
	t.readers[r] = m
}

func (t *table) detach(r *Reader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.readers, r)
}

// get returns the newest version of an object.
func (t *table) get(id id) (version, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.index[id]
	if !ok {
		return version{}, false
	}
	return t.slots[at], true
}

// has reports whether an object is in the table and was not removed.
func (t *table) has(id id) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.index[id]
	return ok && !t.slots[at].removed
}

// put replaces versions of objects, and wakes the readers. It returns the change in the number of probes.
func (t *table) put(versions []version) (probes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range versions {
		probes += t.putLocked(&versions[i])
	}
	for r := range t.readers {
		wake(r.wake)
	}
	return probes
}

func (t *table) putLocked(v *version) (probes int) {
	at, known := t.index[v.id]
	wasThere := known && !t.slots[at].removed
	switch {
	case v.removed && !wasThere:
		return 0 // no reader has seen it
	case known && bytes.Equal(t.slots[at].frame, v.frame):
		return 0
	case !known:
		at = t.slotLocked()
		t.index[v.id] = at
	}
	t.slots[at] = *v
	delete(t.removed, at)
	if v.removed {
		t.removed[at] = time.Now()
	}
	for _, m := range t.readers {
		m.add(at)
	}
	switch {
	case v.id.object != probeObject || wasThere == !v.removed:
		return 0
	case v.removed:
		return -1
	default:
		return 1
	}
}

func (t *table) slotLocked() int {
	if last := len(t.free) - 1; last >= 0 {
		at := t.free[last]
		t.free = t.free[:last]
		return at
	}
	t.slots = append(t.slots, version{})
	return len(t.slots) - 1
}

// forget removes an object without notifying the readers.
func (t *table) forget(id id) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.index[id]
	if !ok {
		return
	}
	for _, m := range t.readers {
		m.remove(at)
	}
	t.freeLocked(at)
}

func (t *table) freeLocked(at int) {
	delete(t.index, t.slots[at].id)
	delete(t.removed, at)
	t.slots[at] = version{}
	t.free = append(t.free, at)
}

// sweep drops removed objects whose removal all readers have received. If too many are left, it disconnects
// the readers that are late, as objects are created and removed faster than they read. A reader that connects
// again begins with the present state.
func (t *table) sweep(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweepLocked()
	if live := len(t.slots) - len(t.free) - len(t.removed); len(t.removed) <= live+maxRemoved {
		return
	}
	for at, since := range t.removed {
		for r, m := range t.readers {
			if now.Sub(since) > maxLate && m.has(at) {
				delete(t.readers, r)
				wake(r.wake)
			}
		}
	}
	t.sweepLocked()
}

func (t *table) sweepLocked() {
	for at := range t.removed {
		waiting := false
		for _, m := range t.readers {
			waiting = waiting || m.has(at)
		}
		if !waiting {
			t.freeLocked(at)
		}
	}
}

// next appends the frames of objects that r has not received to page, up to about limit bytes. ok is false if
// r was disconnected.
func (t *table) next(r *Reader, page [][]byte, limit int) (_ [][]byte, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.readers[r]
	if m == nil {
		return nil, false
	}
	for limit > 0 {
		at, some := m.take()
		if !some {
			break
		}
		frame := t.slots[at].frame
		page, limit = append(page, frame), limit-len(frame)
	}
	return page, true
}

// probes returns the live probes of the pods for which match returns true.
func (t *table) probes(match func(types.UID) bool) map[manager.Key]struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	keys := make(map[manager.Key]struct{})
	for i := range t.slots {
		if v := &t.slots[i]; v.id.object == probeObject && v.frame != nil && !v.removed && match(v.id.uid) {
			keys[manager.Key{PodUID: v.id.uid, Container: v.id.container, Kind: v.id.kind}] = struct{}{}
		}
	}
	return keys
}

// mask is a set of slots. take cycles through the slots, so that an object that changes all the time delays
// no other object.
type mask struct {
	words []uint64
	count int
	at    int // slot at which take continues
}

func (m *mask) has(slot int) bool {
	return slot/64 < len(m.words) && m.words[slot/64]&(1<<(slot%64)) != 0
}

func (m *mask) add(slot int) {
	if m.has(slot) {
		return
	}
	if missing := slot/64 + 1 - len(m.words); missing > 0 {
		m.words = append(m.words, slices.Repeat([]uint64{0}, missing)...)
	}
	m.words[slot/64] |= 1 << (slot % 64)
	m.count++
}

func (m *mask) remove(slot int) {
	if m.has(slot) {
		m.words[slot/64] &^= 1 << (slot % 64)
		m.count--
	}
}

// take removes a slot from the set.
func (m *mask) take() (slot int, ok bool) {
	if m.count == 0 {
		return 0, false
	}
	for {
		if m.at/64 >= len(m.words) {
			m.at = 0
		}
		if word := m.words[m.at/64] >> (m.at % 64); word != 0 {
			slot = m.at + bits.TrailingZeros64(word)
			m.remove(slot)
			m.at = slot + 1
			return slot, true
		}
		m.at = (m.at/64 + 1) * 64
	}
}
