package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/daeace23/prober/probe"
)

// quarantined is implemented by the error of a handler that lets its probe rest, since
// it could not be carried out several times running.
type quarantined interface {
	error
	// QuarantinedUntil returns when the handler tries again.
	QuarantinedUntil() time.Time
}

// quarantine is what is known of a probe that its handler lets rest.
type quarantine struct {
	since, until time.Time
	text         string // with the end, and the last error
}

// noteQuarantine takes in what err, the answer of a tick that began at start, says of a
// quarantine. It returns the end, the zero time where there is none, and the text of
// the event where one has begun.
func (w *Worker) noteQuarantine(generation uint32, start time.Time, err error) (until time.Time, event string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.generation != generation {
		return time.Time{}, ""
	}
	skipped := errors.Is(err, probe.ErrNoSlot)
	told, ok := errors.AsType[quarantined](err)
	if !ok {
		if !skipped { // else nobody was asked
			w.quarantine = nil
		}
		return time.Time{}, ""
	}
	q := &quarantine{since: start, until: told.QuarantinedUntil(), text: err.Error()}
	if !skipped { // the error of an attempt speaks of the attempt only
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
