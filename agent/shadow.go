package agent

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/handlers/replace"
	"github.com/daeace23/prober/handlers/shadow"
	"github.com/daeace23/prober/plugin/admit"
)

// shadowRecord is a version of a plugin that runs, or is to run, beside the one that
// decides. It is guarded as the record that it belongs to.
type shadowRecord struct {
	f       admit.Plugin // without its bytes
	runtime string
	mark    string
	tried   string // the mark of what was tried last
	err     error  // why that does not run beside
	after   config.PromoteAfter
	from    shadow.Counts // what was counted before it came, or before the other one changed
	base    string        // the mark of what decides, since from
	refused bool          // it was due to be promoted, and could not be
}

// updateShadow brings the version that runs beside r, which the caller has locked, to what
// v found of it.
func (s *handlerSet) updateShadow(ctx context.Context, r *pluginRecord, v *admit.Snapshot, again bool) error {
	f := v.Shadow(r.name)
	switch {
	case f.State == admit.Refused || f.State == admit.Pending:
		return nil // what cannot be read is not what was removed
	case f.State == admit.Absent:
		s.unshadow(r)
		return nil
	case s.runs(r) && r.mark == "": // it was withdrawn
		return v.WithoutPlugin(r.name)
	case r.mark == "":
		return nil // no probe has asked for the plugin yet, or it is not to be had
	}
	mark := markOf(&f.Plugin)
	if mark == r.mark { // it was promoted, or put in the place of the other
		s.unshadow(r)
		return nil
	}
	s.mu.Lock()
	if r.shadow == nil {
		r.shadow = new(shadowRecord)
	}
	sh := r.shadow
	sh.after = f.PromoteAfter
	known, err := sh.mark == mark && r.swap.ShadowHandler() != nil, sh.err
	tried := sh.tried == mark
	s.mu.Unlock()
	switch {
	case known:
		s.settleShadow(sh, mark, nil)
		return nil
	case tried && err != nil && !again:
		return err
	}
	err = s.runBeside(ctx, r, sh, f.Plugin, mark)
	if ctx.Err() == nil {
		s.settleShadow(sh, mark, err)
	}
	return err
}

func (s *handlerSet) settleShadow(sh *shadowRecord, mark string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh.tried, sh.err = mark, err
}

func (s *handlerSet) runBeside(ctx context.Context, r *pluginRecord, sh *shadowRecord, f admit.Plugin, mark string) error {
	next, err := s.load(ctx, f)
	if err != nil {
		return fmt.Errorf("%w (%s)", err, f.Path)
	}
	s.begins(r, next)
	if err := r.swap.Shadow(ctx, next.handler); err != nil {
		s.ended(r, next.handler, next.handler.(io.Closer).Close())
		return fmt.Errorf("plugin %q: %w (%s)", r.name, err, f.Path)
	}
	f.Module, f.Signatures = nil, nil
	s.mu.Lock()
	sh.f, sh.runtime, sh.mark, sh.from, sh.base = f, next.runtime, mark, r.swap.Shadowing(), r.mark
	sh.refused = false // what is refused is a version
	s.mu.Unlock()
	s.log.Info("plugin runs beside the one that decides", "handler", r.name, "version", f.Manifest.Version, "path", f.Path, "digest", f.Digest)
	return nil
}

func (s *handlerSet) unshadow(r *pluginRecord) {
	s.mu.Lock()
	had := r.shadow != nil
	r.shadow = nil
	s.mu.Unlock()
	if had {
		r.swap.Unshadow()
	}
}

// promoteDue promotes the shadows that have agreed for long enough. One of a plugin that is
// just being replaced has to wait. It reports whether it has promoted one.
func (s *handlerSet) promoteDue(ctx context.Context) (promoted bool) {
	for _, r := range s.records() {
		if s.due(r) == nil || !r.tryLock() {
			continue
		}
		sh := s.due(r) // another version may have come meanwhile, which was compared with nothing
		if sh == nil {
			r.unlock()
			continue
		}
		err := s.promoteLocked(ctx, r, sh)
		failed := err != nil && ctx.Err() == nil
		if failed {
			s.mu.Lock()
			sh.refused = true // by itself it is not tried again
			s.mu.Unlock()
		}
		r.unlock() // not before: then there may be another version
		promoted = promoted || err == nil
		if failed {
			s.log.Error("plugin was not promoted", "handler", r.name, "error", err.Error())
		}
	}
	return promoted
}

// due returns the shadow of r that is to be promoted now, nil if there is none.
func (s *handlerSet) due(r *pluginRecord) *shadowRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := r.swap.Shadowing() // not before what it is held against
	sh := r.shadow
	if sh == nil || sh.mark == "" || sh.after.Ticks == 0 || sh.refused {
		return nil
	}
	if sh.base != r.mark { // it is compared with another now
		sh.base, sh.from = r.mark, now
	}
	seen := now.Less(sh.from)
	if n := seen.Compared(); n < uint64(sh.after.Ticks) || float64(seen.Agree) < sh.after.Agreement*float64(n) {
		return nil
	}
	return sh
}

// errNoPlugin is the error of a name that no plugin has.
var errNoPlugin = errors.New("there is no plugin of that name")

// promote lets the version that runs beside the plugin called name take its place. It waits
// for whoever is about to change the plugin, and no longer than ctx lasts.
func (s *handlerSet) promote(ctx context.Context, name string) (*pluginRecord, error) {
	r := s.record(name)
	if r == nil {
		return nil, errNoPlugin
	}
	if err := r.lock(ctx); err != nil {
		return nil, err
	}
	defer r.unlock()
	if s.record(name) != r {
		return nil, errNoPlugin
	}
	s.mu.Lock()
	sh := r.shadow
	s.mu.Unlock()
	// Half-way through, an asker who has gone changes nothing.
	return r, s.promoteLocked(s.ending, r, sh)
}

// promoteLocked lets sh take the place of r, which the caller has locked.
func (s *handlerSet) promoteLocked(ctx context.Context, r *pluginRecord, sh *shadowRecord) error {
	s.mu.Lock()
	gone := sh == nil || r.shadow != sh || sh.mark == ""
	s.mu.Unlock()
	if gone {
		return fmt.Errorf("plugin %q: %w", r.name, replace.ErrNoShadow)
	}
	if err := r.swap.Promote(ctx); err != nil {
		return fmt.Errorf("plugin %q: %w", r.name, err)
	}
	s.mu.Lock()
	r.shadow = nil
	s.mu.Unlock()
	return s.installed(r, sh.f, sh.mark, sh.runtime, 0)
}
