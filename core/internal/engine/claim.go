package engine

import (
	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// claimer identifies the task, or the joined tasks, that claims a container ID.
type claimer = seam.Owner[results.Subject]

// Claim claims the present container ID of the task for w, before its first tick. It returns an
// [*worker.InUseError] if another task has claimed the ID. Without a Claim, a tick claims the ID: while
// another task has it, the gate is [worker.InUse].
// See RATIONALE.md, "Why may two tasks not have one container ID?"
func (w *Worker) Claim() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := seam.Reveal(w.task.Load()).Current().ContainerID
	if id == "" || w.stopped {
		return nil
	}
	if other := w.claimLocked(id); other != nil {
		return &worker.InUseError{ContainerID: id, By: *other.Subject}
	}
	return nil
}

// claimLocked releases the ID of w, and claims id instead. If another task has claimed id, w has no ID
// then, and claimLocked returns the other task's claimer.
func (w *Worker) claimLocked(id string) (other *claimer) {
	if w.id == id {
		return nil
	}
	w.dropLocked()
	w.id, w.adopted = "", false
	if other = w.shared.claim(w.kind, id, w.claimer()); other == nil {
		w.id = id
	}
	return other
}

// dropLocked ends the claim of w, and removes its decided result.
func (w *Worker) dropLocked() {
	if w.id != "" {
		seam.Reveal(w.cache()).Release(w.id, w.claimer())
	}
}

// claim claims id in the cache of kind. It returns the other claimer that has claimed id in any of the
// caches, nil if there is none.
func (s *Shared) claim(kind probe.Kind, id string, by *claimer) (other *claimer) {
	s.claiming.Lock()
	defer s.claiming.Unlock()
	if other := s.claimant(id, by); other != nil {
		return other
	}
	return seam.Reveal(s.Results[kind]).Claim(id, by)
}

// claimant returns the claimer other than by that has claimed id; nil if there is none.
func (s *Shared) claimant(id string, by *claimer) (other *claimer) {
	for _, c := range s.Results {
		if other := seam.Reveal(c).Claimant(id); other != nil && other != by {
			return other
		}
	}
	return nil
}
