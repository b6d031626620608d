package plugins

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/daeace23/prober/plugin/admit"
)

// Pull asks the registries of plugins, and logs what is not current; changed is called
// when there is a new answer. With all, also those are asked and logged that have nothing
// new. With again, registries are asked however short a time ago they were.
func (s *Set) Pull(ctx context.Context, all, again bool, changed func()) {
	incomplete, err := s.scanner.Refresh(ctx, admit.RefreshConfig{All: all, Again: again, Each: func(r admit.Refreshed) {
		if r.Changed {
			changed()
		}
		if r.Changed || all {
			s.logPulled(&r)
		}
	}})
	if err != nil {
		return // which a scan reports
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.incomplete = incomplete
}

// logPulled logs what is not as it should be, or is again.
func (s *Set) logPulled(r *admit.Refreshed) {
	log := s.cfg.Log.With("handler", r.Name, "source", r.Source)
	switch {
	case r.Stale != nil:
		log.Warn("plugin is the last good one: its source cannot be had", "digest", r.Found.Digest, "error", r.Stale.Error())
	case r.WasStale && r.Err == nil:
		log.Info("plugin is what its source has again", "digest", r.Found.Digest)
	}
	if r.Newest != "" {
		log.Warn("plugin is an older version than the tag had before", "version", r.Found.Manifest.Version, "newest", r.Newest)
	}
	if r.Unkept != nil {
		log.Warn("plugin cannot be kept for when its registry is away", "error", r.Unkept.Error())
	}
}

// AwaitsRegistry reports whether a plugin is in a registry that has not answered yet.
func (s *Set) AwaitsRegistry() bool {
	return s.live.Latest().IsPending()
}

// UntilNextPull is how long registries are left alone: a tag may have moved, and one that
// was away may be back.
func (s *Set) UntilNextPull() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	every := s.cfg.AskEvery
	if s.incomplete {
		every /= 5
	}
	return every + rand.N(every/5+1)
}
