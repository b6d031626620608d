package agent

import (
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
	admission, err := NewAdmission(s.admission())
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
			s.tellPulled(r)
		}
		if news {
			changed()
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanting = false
	for _, r := range admission.remote() {
		said, _ := s.sources.heard(&r.of)
		s.wanting = s.wanting || said.digest == "" || said.stale != nil
	}
}

// settled reports whether no registry could say anything new of r.
func (r *Pulled) settled() bool { return r.ref.Digest != "" || r.of.Digest != "" }

// tellPulled logs what is not as it should be.
func (s *handlerSet) tellPulled(r *Pulled) {
	log := s.log.With("handler", r.Name, "source", r.Source)
	if r.Stale != nil {
		log.Warn("plugin is the last good one: its source cannot be had", "digest", r.Found.Digest, "error", r.Stale.Error())
	}
	if r.Unkept != nil {
		log.Warn("plugin cannot be kept for when its registry is away", "error", r.Unkept.Error())
	}
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
