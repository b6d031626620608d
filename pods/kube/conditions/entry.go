package conditions

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/internal/pace"
)

// Times of an entry.
const (
	minBackoff = 500 * time.Millisecond
	maxBackoff = 30 * time.Second
	minQuiet   = 10 * time.Second // between two patches that change messages alone, doubled
	maxQuiet   = time.Minute
	minResync  = 10 * time.Minute
	maxResync  = 20 * time.Minute
)

// entry is what a [Writer] knows about a pod. The writer's lock guards it.
type entry struct {
	pod     Pod
	due     time.Time // of the next look at it
	resync  time.Time // when what was written is forgotten, and only what is published counts
	busy    bool      // a patch is in flight
	pending bool      // it may have something to be written
	removed bool      // while busy: forget it then
	gone    bool      // the API server has no such pod

	// writes has what was written of each condition and is not published yet, the oldest first: what
	// the informer tells may be older than the newest patch.
	writes map[v1.PodConditionType][]v1.PodCondition

	// unsure has the conditions of patches that have failed: they may have been applied. They are
	// written again even if the pod has gone back to what was there before.
	unsure map[v1.PodConditionType]bool

	quiet time.Time // until then a message that has changed alone is not written
	tales int       // patches in a row that have changed messages alone

	notBefore   time.Time         // after a failure or a denial
	failures    int               // patches in a row
	failing     time.Time         // since when
	denied      []v1.PodCondition // the changes that were denied
	denials     int               // in a row
	deniedUntil time.Time
	told        bool // of a denial, since the last patch that was written
}

func newEntry(now time.Time) *entry {
	return &entry{due: now, resync: now.Add(pace.Jitter(minResync, maxResync)), writes: make(map[v1.PodConditionType][]v1.PodCondition), unsure: make(map[v1.PodConditionType]bool)}
}

// set takes the newest state of the pod.
func (e *entry) set(pod Pod, now time.Time) {
	e.removed = false
	if e.gone {
		return
	}
	e.published(pod.Published)
	e.pod, e.pending = pod, true
	if e.due = now; now.Before(e.notBefore) { // a change does not shorten the wait
		e.due = e.notBefore
	}
}

// published drops the writes that next shows, and those before them. A condition that has changed to
// something else was written by another, and counts.
func (e *entry) published(next []v1.PodCondition) {
	for of, writes := range e.writes {
		shown := find(next, of)
		if same(find(e.pod.Published, of), shown) {
			continue
		}
		i := slices.IndexFunc(writes, func(c v1.PodCondition) bool { return same(&c, shown) })
		if i < 0 || i == len(writes)-1 {
			delete(e.writes, of)
		} else {
			e.writes[of] = writes[i+1:]
		}
	}
}

// present returns the conditions of the pod: those that are published, and what was written since.
func (e *entry) present() []v1.PodCondition {
	all := slices.Clone(e.pod.Published)
	for of, writes := range e.writes {
		newest := writes[len(writes)-1]
		if old := find(all, of); old != nil {
			*old = newest
		} else {
			all = append(all, newest)
		}
	}
	return all
}

// changes returns what is to be written now. If there is nothing, it sets when to look again. Nothing
// of a dry run is ever published. hurry has messages written that would wait.
func (e *entry) changes(now time.Time, dryRun, hurry bool) []v1.PodCondition {
	if !now.Before(e.resync) {
		e.resync = now.Add(pace.Jitter(minResync, maxResync))
		if !dryRun {
			clear(e.writes)
		}
	}
	pod := e.pod
	pod.Published = e.present()
	changes := Decide(&pod)
	stamp(changes, pod.Published, now)
	for of := range e.unsure {
		if old := find(pod.Published, of); old != nil && find(changes, of) == nil {
			again := *old
			again.LastTransitionTime = metav1.NewTime(now)
			changes = append(changes, again)
		}
	}
	switch {
	case len(changes) == 0:
		if e.pending, e.due = false, e.resync; now.Sub(e.notBefore) > maxBackoff { // else the next change may fail again
			e.denied, e.denials, e.failures = nil, 0, 0
		}
		return nil
	case now.Before(e.deniedUntil) && slices.EqualFunc(changes, e.denied, func(a, b v1.PodCondition) bool { return a.Type == b.Type && same(&a, &b) }):
		e.due = earlier(e.deniedUntil, now.Add(maxBackoff)) // it may change meanwhile
		return nil
	case !hurry && now.Before(e.quiet) && len(e.unsure) == 0 && !slices.ContainsFunc(changes, func(c v1.PodCondition) bool { return !alikeStates(&c, find(pod.Published, c.Type)) }):
		e.due = e.quiet
		return nil
	}
	return changes
}

// maxWrites is how many writes of a condition are remembered while the informer shows none.
const maxWrites = 16

// written takes changes that were written.
func (e *entry) written(changes []v1.PodCondition, now time.Time) {
	present := e.present()
	e.tales++
	for _, c := range changes {
		if !alikeStates(&c, find(present, c.Type)) {
			e.tales = 0
		}
	}
	e.quiet = now.Add(pace.Doubled(minQuiet, maxQuiet, e.tales))
	for _, c := range changes {
		e.writes[c.Type] = append(e.writes[c.Type], c)
		if over := len(e.writes[c.Type]) - maxWrites; over > 0 {
			e.writes[c.Type] = e.writes[c.Type][over:]
		}
	}
	clear(e.unsure)
	e.failures, e.denials, e.denied, e.told, e.notBefore, e.due = 0, 0, nil, false, now, now
}

// deny takes changes that were denied, and reports whether an event is due: once, at the second denial in a row. An
// API server that starts forbids for a moment patches that it allows later.
func (e *entry) deny(changes []v1.PodCondition, now time.Time) (lasts bool) {
	wait := pace.Doubled(firstDenial, denialTime, e.denials)
	e.denials++
	if lasts = e.denials > 1 && !e.told; lasts {
		e.told = true
	}
	e.failures, e.denied, e.deniedUntil = 0, changes, now.Add(wait)
	e.notBefore = now.Add(min(wait, maxBackoff)) // the pod may have changed by then
	e.due = e.notBefore
	return lasts
}

// retry takes a patch that failed.
func (e *entry) retry(changes []v1.PodCondition, now time.Time) {
	for _, c := range changes {
		e.unsure[c.Type] = true
	}
	if e.failures == 0 {
		e.failing = now
	}
	e.failures++
	wait := pace.Doubled(minBackoff, maxBackoff, e.failures-1)
	e.notBefore = now.Add(pace.Jitter(wait/2, wait))
	e.due = e.notBefore
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// forget keeps nothing of a pod that is gone, until it is removed or a resync.
func (e *entry) forget() {
	id := e.pod.Pod
	*e = entry{pod: Pod{Pod: id}, due: e.resync, resync: e.resync, removed: e.removed, gone: true}
}
