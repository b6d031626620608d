package plugins

import (
	"context"
	"errors"
	"time"

	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/plugin/admit"
)

// Pull queries the registries of plugins and logs which plugins are not current. It calls changed for each
// new response. With all, it also logs plugins whose registry responded as before. With retry, it also
// queries registries that have responded recently.
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
		return // a scan reports the error
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
		log.Warn("plugin source is not available; the last good version stays in use", "digest", r.Found.Digest, "error", r.Stale.Error())
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

// AwaitsRegistry reports whether the registry of a plugin has not responded yet.
func (s *Set) AwaitsRegistry() bool {
	return s.live.Latest().IsPending()
}

// Away joins the errors of plugins that cannot be loaded because their registry is unavailable; nil if there
// are none.
func (s *Set) Away() error {
	var all []error
	for _, e := range s.live.Latest().Plugins() {
		if e.State == admit.Away {
			all = append(all, e.Reason)
		}
	}
	return errors.Join(all...)
}

// firstRetry is the pause before a registry without a response is queried again. The pause doubles.
const firstRetry = 5 * time.Second

// UntilNextPull returns how long to wait before the next Pull. It detects a moved tag, or a registry that is
// available again.
func (s *Set) UntilNextPull() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	every := s.cfg.AskEvery
	if !s.incomplete {
		s.misses = 0
		return pace.Jitter(every, every+every/5)
	}
	every = pace.Doubled(min(firstRetry, every/5), every/5, s.misses)
	s.misses++
	return pace.Jitter(every, every+every/5)
}
