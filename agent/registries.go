package agent

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// pull gets the plugins that are in registries, and tells of those that are not what the
// registry has now; changed is called when one has something new to say. With again,
// registries are asked however short a time ago they were. Those are left out, unless they
// were asked for, that have nothing new to say: a digest stays what it is.
func (s *handlerSet) pull(ctx context.Context, asked, again bool, changed func()) {
	admission, err := NewAdmission(s.cfg.admission())
	if err != nil {
		return // which a survey tells
	}
	if again {
		s.sources.expire()
	}
	all := admission.remote()
	before := make(map[*Pulled]heard)
	for _, r := range all {
		before[r], _ = s.sources.heard(&r.of)
	}
	if !asked {
		all = slices.DeleteFunc(all, func(r *Pulled) bool { return r.settled() && before[r].digest != "" && before[r].stale == nil })
	}
	admission.pull(ctx, s.sources, all, func(r *Pulled) {
		said, _ := s.sources.heard(&r.of)
		news := !said.same(before[r])
		if news || asked {
			s.tellPulled(r, before[r].stale != nil)
		}
		if news {
			changed()
		}
	})
	all = admission.remote()
	s.sources.keep(all)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanting = false
	for _, r := range all {
		said, _ := s.sources.heard(&r.of)
		s.wanting = s.wanting || said.digest == "" || said.stale != nil
	}
}

// awaitsRegistry reports whether a plugin is in a registry that has said nothing of it yet.
func (s *handlerSet) awaitsRegistry() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) > 0
}

// settled reports whether no registry could say anything new of r.
func (r *Pulled) settled() bool { return r.ref.Digest != "" || r.of.Digest != "" }

// tellPulled tells what came of r, and logs what is not as it should be, or is again.
func (s *handlerSet) tellPulled(r *Pulled, wasStale bool) {
	s.mu.Lock()
	s.noteStaleLocked(r)
	s.metrics.PluginSources(s.staleLocked())
	s.mu.Unlock()
	log := s.log.With("handler", r.Name, "source", r.Source)
	switch {
	case r.Stale != nil:
		log.Warn("plugin is the last good one: its source cannot be had", "digest", r.Found.Digest, "error", r.Stale.Error())
	case wasStale && r.Err == nil:
		log.Info("plugin is what its source has again", "digest", r.Found.Digest)
	}
	if r.Newest != "" {
		log.Warn("plugin is an older version than the tag had before", "version", r.Found.Manifest.Version, "newest", r.Newest)
	}
	if r.Unkept != nil {
		log.Warn("plugin cannot be kept for when its registry is away", "error", r.Unkept.Error())
	}
}

// noteStaleLocked notes whether r is the last good one, and why: by what its registry has
// said last, for a survey that began before that may be noted after it.
func (s *handlerSet) noteStaleLocked(r *Pulled) {
	of := s.stale
	if r.Shadow {
		of = s.staleShadows
	}
	said, _ := s.sources.heard(&r.of)
	stale := cmp.Or(said.stale, said.err)
	if delete(of, r.Name); stale != nil && r.Err == nil {
		of[r.Name] = stale
	}
	s.sourced[r.Name] = true
}

// staleLocked returns the plugins that are in registries, and which of them is the last
// good one, or has such a shadow.
func (s *handlerSet) staleLocked() map[string]bool {
	all := make(map[string]bool)
	for name := range s.sourced {
		all[name] = s.stale[name] != nil || s.staleShadows[name] != nil
	}
	return all
}

// untilNextPull is how long registries are left alone: a tag may have moved, and one that
// was away may be back.
func (s *handlerSet) untilNextPull() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	every := s.cfg.askEvery
	if s.wanting {
		every /= 5
	}
	return every + rand.N(every/5+1)
}
