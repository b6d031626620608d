package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// quarantined is the error of a handler that stops probing for some time after several consecutive errors.
type quarantined interface {
	error
	// QuarantinedUntil returns when the handler will try again.
	QuarantinedUntil() time.Time
}

// quarantine describes the quarantine of a probe.
type quarantine struct {
	since, until time.Time
	text         string // includes the end and the last error
}

// noteQuarantineLocked records the quarantine that the error of a tick reports. It sets t.Quarantined, and
// returns the text of the event if the quarantine has just begun.
func (w *Worker) noteQuarantineLocked(t *worker.Tick) (event string) {
	if t.Err == nil {
		w.quarantine = nil
		return ""
	}
	skipped := errors.Is(t.Err, probe.ErrNoSlot)
	told, ok := errors.AsType[quarantined](t.Err)
	if !ok {
		if !skipped { // without a slot, the handler was not called
			w.quarantine = nil
		}
		return ""
	}
	q := &quarantine{since: t.Start, until: told.QuarantinedUntil(), text: t.Err.Error()}
	if !skipped { // the error comes from the attempt, and does not state the end of the quarantine
		q.text = fmt.Sprintf("in quarantine until %s: %s", q.until.UTC().Format(time.RFC3339), q.text)
	}
	if w.quarantine != nil {
		q.since = w.quarantine.since
	} else {
		event = fmt.Sprintf("%s probe is %s", w.kind.Title(), q.text)
	}
	w.quarantine, t.Quarantined = q, q.until
	return event
}
