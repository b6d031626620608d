package engine

import (
	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// Claim takes the present container ID of the task for w before its first tick. It returns an
// [*worker.InUseError] if another task has it. A worker that has not claimed an ID does so at a tick: while
// another task has it, the gate is [worker.InUse].
func (w *Worker) Claim() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := seam.Of(w.task.Load()).Known().ContainerID
	if id == "" || w.stopped {
		return nil
	}
	if other := w.claimLocked(id); other != nil {
		return &worker.InUseError{ContainerID: id, By: *other}
	}
	return nil
}

// claimLocked makes id the container ID of w instead of the one before. If another task has it, w has
// none then, and claimLocked returns the subject of the other.
func (w *Worker) claimLocked(id string) (other *results.Subject) {
	if w.id == id {
		return nil
	}
	w.dropLocked()
	w.id, w.adopted = "", false
	if other = w.shared.claim(w.kind, id, w.subject()); other == nil {
		w.id = id
	}
	return other
}

// dropLocked ends the claim of w, and removes its decided result.
func (w *Worker) dropLocked() {
	if w.id != "" {
		w.cache().Release(w.id, w.subject())
	}
}

// claim claims id in the cache of kind. It returns the subject of another task that has id in any of
// the caches; nil if none has.
func (s *Shared) claim(kind probe.Kind, id string, subject *results.Subject) (other *results.Subject) {
	s.claiming.Lock()
	defer s.claiming.Unlock()
	if other := s.claimant(id, subject); other != nil {
		return other
	}
	return s.Results[kind].Claim(id, subject)
}

// claimant returns a subject other than subject that has claimed id; nil if there is none.
func (s *Shared) claimant(id string, subject *results.Subject) (other *results.Subject) {
	for _, c := range s.Results {
		if by := c.Claimant(id); by != nil && by != subject {
			return by
		}
	}
	return nil
}
