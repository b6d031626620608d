// Package pauses stores which probes are paused or forced into a state, by whom, why and until when, and ends
// that on time. A forced probe is a paused one whose result is given. Read [Table] first, then request.go: the
// parameters of a request, and file.go: what outlives the agent.
package pauses

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// Probes pauses, forces and resumes probes for a [Table]. It is a [manager.Manager].
type Probes interface {
	Pause(manager.Key) error
	Force(manager.Key, worker.Gate) error
	Resume(manager.Key) error
	Latest(manager.Key) (manager.ProbeStatus, bool)
}

// ErrConfigured is returned for a pause with a duration if the configuration already pauses the probe: the
// end of the pause would resume it.
var ErrConfigured = errors.New("the probe is paused by its configuration, and the end of a pause with a time would resume it; leave out the time")

// ErrKind is returned for a forced state of a probe that is no readiness probe.
var ErrKind = errors.New("only a readiness probe can be forced into a state: others restart their containers")

// Pause is a pause of one probe, or a forced state.
type Pause struct {
	Force  worker.Gate   // [worker.ForcedUp], [worker.ForcedDown] or [worker.Drained]; [worker.Open] for a pause
	For    time.Duration // 0: until it is resumed
	Reason string        // "" for none
	By     string        // who has paused it
	until  time.Time
	// configured means that the configuration already paused the probe.
	configured bool
}

// Status returns p as shown by the API.
func (p *Pause) Status() api.Pause {
	return api.Pause{Forced: forcedWords[p.Force], PausedUntil: p.until, PauseReason: p.Reason, PausedBy: p.By}
}

// minWait is the minimum time between two scans of all pauses. A pause may end this much late.
const minWait = 50 * time.Millisecond

// Table pauses probes. It has one timer for all pauses. It is safe for concurrent use.
type Table struct {
	probes Probes
	ended  func(manager.Key, Pause)

	mu     sync.Mutex // also serializes the calls of probes
	pauses map[manager.Key]Pause
	timer  *time.Timer
	next   time.Time // when the timer is due; zero if it is not running
	closed bool
	saved  []record // of the file, for probes that do not exist yet

	file file
}

// New returns a table without pauses. It calls ended after a pause has expired.
func New(probes Probes, ended func(manager.Key, Pause)) *Table {
	t := &Table{probes: probes, ended: ended, pauses: make(map[manager.Key]Pause)}
	t.timer = time.AfterFunc(time.Hour, t.end)
	t.timer.Stop()
	return t
}

// Pause pauses a probe. For a paused probe, p replaces the duration and the reason. It returns
// [ErrConfigured], which leaves the probe unchanged, or an error if there is no such probe.
func (t *Table) Pause(key manager.Key, p Pause) error {
	if p.For > 0 {
		p.until = time.Now().Add(p.For)
	}
	if err := t.pause(key, p); err != nil {
		return err
	}
	t.save()
	return nil
}

func (t *Table) pause(key manager.Key, p Pause) error {
	if p.Force != worker.Open && key.Kind != probe.Readiness {
		return ErrKind
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	was, known := t.pauses[key]
	status, _ := t.probes.Latest(key)
	p.configured = status.Paused && (!known || was.configured)
	if p.configured && !p.until.IsZero() {
		return ErrConfigured
	}
	if err := t.apply(key, p.Force); err != nil {
		delete(t.pauses, key)
		return err
	}
	t.pauses[key] = p
	t.wakeLocked(p.until)
	return nil
}

func (t *Table) apply(key manager.Key, force worker.Gate) error {
	if force == worker.Open {
		return t.probes.Pause(key)
	}
	return t.probes.Force(key, force)
}

// Resume ends a pause or a forced state. It returns an error if there is no such probe.
func (t *Table) Resume(key manager.Key) error {
	err := t.resume(key)
	t.save()
	return err
}

func (t *Table) resume(key manager.Key) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pauses, key)
	return t.probes.Resume(key)
}

// Of returns the pause of a probe. It is empty if the configuration paused the probe.
func (t *Table) Of(key manager.Key) api.Pause {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pauses[key]
	return p.Status()
}

// Keys returns the paused probes, unsorted.
func (t *Table) Keys() []manager.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.pauses))
}

// Forget removes the pause of a probe that has ended.
func (t *Table) Forget(key manager.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pauses, key)
}

// Close stops the timer. Paused probes stay paused, and the file is not changed any more.
func (t *Table) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.timer.Stop()
}

// wakeLocked sets the timer to fire at at or earlier; the zero time means never.
func (t *Table) wakeLocked(at time.Time) {
	if t.closed || at.IsZero() || !t.next.IsZero() && !at.Before(t.next) {
		return
	}
	t.next = at
	t.timer.Reset(time.Until(at))
}

// end resumes the probes whose pause has expired.
func (t *Table) end() {
	due := make(map[manager.Key]Pause)
	t.mu.Lock()
	now, next := time.Now(), time.Time{}
	t.next = time.Time{}
	for key, p := range t.pauses {
		switch {
		case p.until.IsZero() || t.closed:
		case p.until.After(now):
			if next.IsZero() || p.until.Before(next) {
				next = p.until
			}
		default:
			delete(t.pauses, key)
			if t.probes.Resume(key) == nil { // otherwise the probe has just ended
				due[key] = p
			}
		}
	}
	if !next.IsZero() {
		t.wakeLocked(now.Add(max(next.Sub(now), minWait)))
	}
	t.mu.Unlock()
	if len(due) > 0 {
		t.save()
	}
	for key, p := range due {
		t.ended(key, p)
	}
}
