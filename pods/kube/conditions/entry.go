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

// entry is the state of a pod in a [Writer]. The writer's lock guards it.
type entry struct {
	pod     Pod
	due     time.Time // next time to check for changes
	resync  time.Time // when to forget writes, and trust only the published conditions
	busy    bool      // a patch is in flight
	pending bool      // there may be changes to write
	removed bool      // while busy: delete the entry after the patch
	gone    bool      // the API server has no such pod

	// writes has the written conditions that are not published yet, by type, the oldest first. The
	// informer may be behind the newest patch.
	writes map[v1.PodConditionType][]v1.PodCondition

	// unsure has the conditions of failed patches, which may have been applied nevertheless. They are
	// written again even if they equal the published ones.
	unsure map[v1.PodConditionType]bool

	quiet          time.Time // changes of messages alone are not written before
	messagePatches int       // consecutive patches that have changed messages alone

	notBefore       time.Time         // earliest next patch after a failure or a denial
	failures        int               // consecutive failed patches
	failing         time.Time         // time of the first of them
	denied          []v1.PodCondition // the changes that were denied last
	denials         int               // consecutive denials
	deniedUntil     time.Time
	denialEventSent bool // since the last successful patch
}

func newEntry(now time.Time) *entry {
	return &entry{due: now, resync: now.Add(pace.Jitter(minResync, maxResync)), writes: make(map[v1.PodConditionType][]v1.PodCondition), unsure: make(map[v1.PodConditionType]bool)}
}

// set records the newest state of the pod.
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

// published drops the writes that appear in next, and older ones. If a condition has changed to anything else,
// another client has written it, and all its writes are dropped.
func (e *entry) published(next []v1.PodCondition) {
	for conditionType, writes := range e.writes {
		shown := find(next, conditionType)
		if same(find(e.pod.Published, conditionType), shown) {
			continue
		}
		i := slices.IndexFunc(writes, func(c v1.PodCondition) bool { return same(&c, shown) })
		if i < 0 || i == len(writes)-1 {
			delete(e.writes, conditionType)
		} else {
			e.writes[conditionType] = writes[i+1:]
		}
	}
}

// present returns the conditions of the pod: the published ones, updated by the writes since.
func (e *entry) present() []v1.PodCondition {
	all := slices.Clone(e.pod.Published)
	for conditionType, writes := range e.writes {
		newest := writes[len(writes)-1]
		if old := find(all, conditionType); old != nil {
			*old = newest
		} else {
			all = append(all, newest)
		}
	}
	return all
}

// changes returns the conditions to write now. If there are none, it sets due. After a dry run it keeps the
// writes, since they will never be published. With hurry, changes of messages alone do not wait.
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
	for conditionType := range e.unsure {
		if old := find(pod.Published, conditionType); old != nil && find(changes, conditionType) == nil {
			again := *old
			again.LastTransitionTime = metav1.NewTime(now)
			changes = append(changes, again)
		}
	}
	switch {
	case len(changes) == 0:
		if e.pending, e.due = false, e.resync; now.Sub(e.notBefore) > maxBackoff { // keep the back-off for a while: the next change may fail again
			e.denied, e.denials, e.failures = nil, 0, 0
		}
		return nil
	case now.Before(e.deniedUntil) && slices.EqualFunc(changes, e.denied, func(a, b v1.PodCondition) bool { return a.Type == b.Type && same(&a, &b) }):
		e.due = earlier(e.deniedUntil, now.Add(maxBackoff)) // the changes may differ by then
		return nil
	case !hurry && now.Before(e.quiet) && len(e.unsure) == 0 && !slices.ContainsFunc(changes, func(c v1.PodCondition) bool { return !alikeStates(&c, find(pod.Published, c.Type)) }):
		e.due = e.quiet
		return nil
	}
	return changes
}

// maxWrites limits the unpublished writes of a condition.
const maxWrites = 16

// written records changes that were written.
func (e *entry) written(changes []v1.PodCondition, now time.Time) {
	present := e.present()
	e.messagePatches++
	for _, c := range changes {
		if !alikeStates(&c, find(present, c.Type)) {
			e.messagePatches = 0
		}
	}
	e.quiet = now.Add(pace.Doubled(minQuiet, maxQuiet, e.messagePatches))
	for _, c := range changes {
		e.writes[c.Type] = append(e.writes[c.Type], c)
		if over := len(e.writes[c.Type]) - maxWrites; over > 0 {
			e.writes[c.Type] = e.writes[c.Type][over:]
		}
	}
	clear(e.unsure)
	e.failures, e.denials, e.denied, e.denialEventSent, e.notBefore, e.due = 0, 0, nil, false, now, now
}

// deny records changes that were denied. It returns true once, at the second consecutive denial, when an event is
// due. A starting API server may briefly deny patches that it allows later.
func (e *entry) deny(changes []v1.PodCondition, now time.Time) (lasts bool) {
	wait := pace.Doubled(firstDenial, denialTime, e.denials)
	e.denials++
	if lasts = e.denials > 1 && !e.denialEventSent; lasts {
		e.denialEventSent = true
	}
	e.failures, e.denied, e.deniedUntil = 0, changes, now.Add(wait)
	e.notBefore = now.Add(min(wait, maxBackoff)) // other changes may be allowed
	e.due = e.notBefore
	return lasts
}

// retry records a failed patch, and sets the time of the next one.
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

// forget marks a pod that does not exist at the API server. The entry ignores its states until the pod is removed
// or the next resync.
func (e *entry) forget() {
	id := e.pod.Pod
	*e = entry{pod: Pod{Pod: id}, due: e.resync, resync: e.resync, removed: e.removed, gone: true}
}
