// Package pauses keeps who has paused which probes, why and until when, and ends pauses at their
// time. Read [Table] first, then request.go: what a caller may ask for.
package pauses

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/core/manager"
)

// Probes are the probes that a [Table] pauses: a [manager.Manager].
type Probes interface {
	Pause(manager.Key) error
	Resume(manager.Key) error
	Latest(manager.Key) (manager.ProbeStatus, bool)
}

// ErrConfigured means that a probe is paused by its configuration, and cannot be paused for a time.
var ErrConfigured = errors.New("the probe is paused by its configuration, and the end of a pause with a time would resume it; leave out the time")

// Pause is a pause of one probe.
type Pause struct {
	For    time.Duration // 0: until it is resumed
	Reason string        // "" for none
	By     string        // who has paused it
	until  time.Time
	// configured means that the probe was already paused by its configuration.
	configured bool
}

// Status returns what the API shows of p.
func (p *Pause) Status() api.Pause {
	return api.Pause{PausedUntil: p.until, PauseReason: p.Reason, PausedBy: p.By}
}

// minWait is the shortest time between two looks at all pauses. A pause may end this much late.
const minWait = 50 * time.Millisecond

// Table pauses probes. It has one timer for all pauses. It is safe for concurrent use.
type Table struct {
	probes Probes
	ended  func(manager.Key, Pause)

	mu     sync.Mutex // also keeps the calls of probes in order
	pauses map[manager.Key]Pause
	timer  *time.Timer
	next   time.Time // when the timer is due; zero if it is not running
	closed bool
}

// New returns a table without pauses. ended is called after a pause has ended at its time.
func New(probes Probes, ended func(manager.Key, Pause)) *Table {
	t := &Table{probes: probes, ended: ended, pauses: make(map[manager.Key]Pause)}
	t.timer = time.AfterFunc(time.Hour, t.end)
	t.timer.Stop()
	return t
}

// Pause pauses a probe. If it is paused already, p replaces the time and the reason. The error is
// [ErrConfigured], which leaves the probe as it is, or means that there is no such probe.
func (t *Table) Pause(key manager.Key, p Pause) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, known := t.pauses[key]
	status, _ := t.probes.Latest(key)
	p.configured = status.Paused && (!known || was.configured)
	if p.configured && p.For > 0 {
		return ErrConfigured
	}
	if err := t.probes.Pause(key); err != nil {
		delete(t.pauses, key)
		return err
	}
	if p.For > 0 {
		p.until = time.Now().Add(p.For)
	}
	t.pauses[key] = p
	t.wakeLocked(p.until)
	return nil
}

// Resume ends a pause. The error means that there is no such probe.
func (t *Table) Resume(key manager.Key) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pauses, key)
	return t.probes.Resume(key)
}

// Of returns the pause of a probe that is paused. It is empty if the probe was paused by its
// configuration.
func (t *Table) Of(key manager.Key) api.Pause {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pauses[key]
	return p.Status()
}

// Keys returns the probes that are paused, in no order.
func (t *Table) Keys() []manager.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.pauses))
}

// Forget drops what is known of a probe that has ended.
func (t *Table) Forget(key manager.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pauses, key)
}

// Close leaves all pauses as they are.
func (t *Table) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.timer.Stop()
}

// wakeLocked makes the timer run at a time at the latest; zero means never.
func (t *Table) wakeLocked(at time.Time) {
	if t.closed || at.IsZero() || !t.next.IsZero() && !at.Before(t.next) {
		return
	}
	t.next = at
	t.timer.Reset(time.Until(at))
}

// end ends the pauses whose time has come.
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
			if t.probes.Resume(key) == nil { // else the probe has just ended
				due[key] = p
			}
		}
	}
	if !next.IsZero() {
		t.wakeLocked(now.Add(max(next.Sub(now), minWait)))
	}
	t.mu.Unlock()
	for key, p := range due {
		t.ended(key, p)
	}
}
