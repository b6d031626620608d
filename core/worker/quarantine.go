package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/daeace23/prober/probe"
)

// quarantined is an error of a handler that does not carry out the probe for some time, because
// it failed several times in a row.
type quarantined interface {
	error
	// QuarantinedUntil returns when the handler tries again.
	QuarantinedUntil() time.Time
}

// quarantine is the state of a probe whose handler does not carry it out for some time.
type quarantine struct {
	since, until time.Time
	text         string // with the end, and the last error
}

// noteQuarantine records the quarantine in err, the error of a tick that began at start. It
// returns the end of the quarantine, zero without one, and the text of the event when it has
// just begun.
func (w *Worker) noteQuarantine(generation uint32, start time.Time, err error) (until time.Time, event string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.generation != generation {
		return time.Time{}, ""
	}
	skipped := errors.Is(err, probe.ErrNoSlot)
	told, ok := errors.AsType[quarantined](err)
	if !ok {
		if !skipped { // without a slot the handler was not called
			w.quarantine = nil
		}
		return time.Time{}, ""
	}
	q := &quarantine{since: start, until: told.QuarantinedUntil(), text: err.Error()}
	if !skipped { // the error is that of the attempt, and has no end of the quarantine
		q.text = fmt.Sprintf("in quarantine until %s: %s", q.until.UTC().Format(time.RFC3339), q.text)
	}
	if w.quarantine != nil {
		q.since = w.quarantine.since
	} else {
		event = fmt.Sprintf("%s probe is %s", w.info.Kind.Title(), q.text)
	}
	w.quarantine = q
	return q.until, event
}

// emitQuarantine sends the event of a quarantine that has begun.
func (w *Worker) emitQuarantine(event string) {
	if event != "" && w.shared.Event != nil {
		w.shared.Event(w, ProbeQuarantined, event)
	}
}
