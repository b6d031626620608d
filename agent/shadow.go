package agent

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/handlers"
)

// shadowRecord is a version of a plugin that runs, or is to run, beside the one that
// decides. It is guarded as the record that it belongs to.
type shadowRecord struct {
	f       Admitted // without its bytes
	runtime string
	mark    string
	tried   string // the mark of what was tried last
	err     error  // why that does not run beside
	after   config.PromoteAfter
	from    handlers.Shadowing // what was counted before it came, or before the other one changed
	base    string             // the mark of what decides, since from
	refused bool               // it was due to be promoted, and could not be
}

// shadows brings the versions that run beside others to what prober.yaml says.
func (s *handlerSet) shadows(ctx context.Context, v *survey, again bool) error {
	errs := []error{v.shadowErr}
	wanted := make(map[string]bool)
	for _, f := range v.shadows {
		name := f.Manifest.Name
		wanted[name] = true
		r := s.record(name)
		if r != nil && r.mark == "" && !s.isWanted(name) {
			continue // no probe has asked for the plugin yet
		}
		if r == nil || r.mark == "" {
			errs = append(errs, fmt.Errorf("plugin %q of %s: there is no plugin of that name for it to run beside", name, f.Path))
			continue
		}
		errs = append(errs, s.updateShadow(ctx, r, f, again))
	}
	for _, r := range s.records() {
		// What cannot be read is not what was removed.
		if r.shadow != nil && !wanted[r.name] && v.shadowErr == nil {
			s.unshadow(r)
		}
	}
	return errors.Join(errs...)
}

// updateShadow brings the shadow of r to what was found of it.
func (s *handlerSet) updateShadow(ctx context.Context, r *pluginRecord, f Shadowed, again bool) error {
	mark := markOf(&f.Admitted)
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
	err = s.runBeside(ctx, r, sh, f.Admitted, mark)
	s.settleShadow(sh, mark, err)
	return err
}

func (s *handlerSet) settleShadow(sh *shadowRecord, mark string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh.tried, sh.err = mark, err
}

func (s *handlerSet) runBeside(ctx context.Context, r *pluginRecord, sh *shadowRecord, f Admitted, mark string) error {
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
	s.mu.Unlock()
	s.log.Info("plugin runs beside the one that decides", "handler", r.name, "version", f.Manifest.Version, "path", f.Path, "digest", f.Digest)
	return nil
}

func (s *handlerSet) unshadow(r *pluginRecord) {
	r.swap.Unshadow()
	s.mu.Lock()
	defer s.mu.Unlock()
	r.shadow = nil
}

// compared returns what was counted of the present pair of versions.
func (s *handlerSet) compared(r *pluginRecord, sh *shadowRecord) handlers.Shadowing {
	now := r.swap.Shadowing()
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh.base != r.mark { // it is compared with another now
		sh.base, sh.from = r.mark, now
	}
	return now.Less(sh.from)
}

// promoteDue promotes the shadows that have agreed for long enough.
func (s *handlerSet) promoteDue(ctx context.Context) {
	for _, r := range s.records() {
		sh, due := s.mayPromote(r)
		if !due {
			continue
		}
		seen := s.compared(r, sh)
		if n := seen.Compared(); n < uint64(sh.after.Ticks) || float64(seen.Agree) < sh.after.Agreement*float64(n) {
			continue
		}
		if err := s.promote(ctx, r.name); err != nil && ctx.Err() == nil {
			s.mu.Lock()
			sh.refused = true // by itself it is not tried again
			s.mu.Unlock()
			s.log.Error("plugin was not promoted", "handler", r.name, "error", err.Error())
		}
	}
}

// mayPromote reports whether r has a shadow that is to be promoted some time.
func (s *handlerSet) mayPromote(r *pluginRecord) (sh *shadowRecord, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh = r.shadow
	return sh, sh != nil && sh.mark != "" && sh.after.Ticks > 0 && !sh.refused
}

// errNoPlugin is the error of a name that no plugin has.
var errNoPlugin = errors.New("there is no plugin of that name")

// promote lets the version that runs beside the plugin called name take its place.
func (s *handlerSet) promote(ctx context.Context, name string) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	r := s.record(name)
	if r == nil {
		return errNoPlugin
	}
	s.mu.Lock()
	sh := r.shadow
	s.mu.Unlock()
	if sh == nil || sh.mark == "" {
		return fmt.Errorf("plugin %q: %w", name, handlers.ErrNoShadow)
	}
	if err := r.swap.Promote(ctx); err != nil {
		return fmt.Errorf("plugin %q: %w", name, err)
	}
	s.mu.Lock()
	r.shadow = nil
	s.mu.Unlock()
	return s.installed(r, sh.f, sh.mark, sh.runtime, 0)
}
