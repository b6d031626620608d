package engine

import (
	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// owner is who claims a container ID: a task, or several that were joined.
type owner = seam.Owner[results.Subject]

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
		return &worker.InUseError{ContainerID: id, By: *other.Subject}
	}
	return nil
}

// claimLocked makes id the container ID of w instead of the one before. If another task has it, w has
// none then, and claimLocked returns the other.
func (w *Worker) claimLocked(id string) (other *owner) {
	if w.id == id {
		return nil
	}
	w.dropLocked()
	w.id, w.adopted = "", false
	if other = w.shared.claim(w.kind, id, w.owner()); other == nil {
		w.id = id
	}
	return other
}

// dropLocked ends the claim of w, and removes its decided result.
func (w *Worker) dropLocked() {
	if w.id != "" {
		seam.Of(w.cache()).Release(w.id, w.owner())
	}
}

// claim claims id in the cache of kind. It returns another owner that has id in any of
// the caches; nil if none has.
func (s *Shared) claim(kind probe.Kind, id string, by *owner) (other *owner) {
	s.claiming.Lock()
	defer s.claiming.Unlock()
	if other := s.claimant(id, by); other != nil {
		return other
	}
	return seam.Of(s.Results[kind]).Claim(id, by)
}

// claimant returns an owner other than by that has claimed id; nil if there is none.
func (s *Shared) claimant(id string, by *owner) (other *owner) {
	for _, c := range s.Results {
		if other := seam.Of(c).Claimant(id); other != nil && other != by {
			return other
		}
	}
	return nil
}
