package plugins

import (
	"context"
	"errors"
	"time"

	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/plugin/admit"
)

// Pull queries the registries of plugins and logs which plugins are not current. It calls
// changed for each new answer. With all, it also logs plugins whose registry answered as before.
// With retry, it also queries registries that have answered a short time ago.
func (s *Set) Pull(ctx context.Context, all, retry bool, changed func()) {
	incomplete, err := s.scanner.Refresh(ctx, admit.RefreshConfig{All: all, Again: retry, Each: func(r admit.Refreshed) {
		if r.Changed {
			changed()
		}
		if r.Changed || all {
			s.logPulled(&r)
		}
	}})
	if err != nil {
		return // a scan reports it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.incomplete = incomplete
}

// logPulled logs a plugin that is not current, or is current again.
func (s *Set) logPulled(r *admit.Refreshed) {
	log := s.cfg.Log.With("handler", r.Name, "source", r.Source)
	switch {
	case r.Stale != nil:
		log.Warn("plugin source is not available; the last good version goes on", "digest", r.Found.Digest, "error", r.Stale.Error())
	case r.WasStale && r.Err == nil:
		log.Info("plugin source is available again", "digest", r.Found.Digest)
	}
	if r.Newest != "" {
		log.Warn("the tag was moved to an older version of the plugin", "version", r.Found.Manifest.Version, "newest", r.Newest)
	}
	if r.Unkept != nil {
		log.Warn("plugin cannot be stored in the plugin cache", "error", r.Unkept.Error())
	}
}

// AwaitsRegistry reports whether the registry of a plugin has not answered yet.
func (s *Set) AwaitsRegistry() bool {
	return s.live.Latest().IsPending()
}

// Away returns why plugins cannot be had at present whose registry is not available; nil if there are none.
func (s *Set) Away() error {
	var all []error
	for _, e := range s.live.Latest().Plugins() {
		if e.State == admit.Away {
			all = append(all, e.Reason)
		}
	}
	return errors.Join(all...)
}

// firstAgain is how soon a registry is asked again that has not answered. The wait doubles.
const firstAgain = 5 * time.Second

// UntilNextPull returns how long to wait before the next Pull, which notices a tag that has
// moved and a registry that is available again.
func (s *Set) UntilNextPull() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	every := s.cfg.AskEvery
	if !s.incomplete {
		s.misses = 0
		return pace.Jitter(every, every+every/5)
	}
	every = pace.Doubled(min(firstAgain, every/5), every/5, s.misses)
	s.misses++
	return pace.Jitter(every, every+every/5)
}
