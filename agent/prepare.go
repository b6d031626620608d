package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/probe"
)

// Prepare implements [manager.Handlers]; the attempts of what it returns are counted.
// The first probe of a plugin waits until it is loaded.
func (s *handlerSet) Prepare(name string, config []byte, target probe.Target) (probe.Handler, error) {
	return s.prepare(s.ending, name, config, target)
}

// prepare is Prepare that waits no longer than ctx lasts. What a plugin does beyond that is
// dropped when it is done.
func (s *handlerSet) prepare(ctx context.Context, name string, config []byte, target probe.Target) (probe.Handler, error) {
	if slices.Contains(s.builtins, name) {
		return s.bind(name, config, target)
	}
	if err := s.mute(name); err != nil {
		return nil, err
	}
	return s.await(ctx, func() (probe.Handler, error) { return s.prepareNow(name, config, target) })
}

// await returns what prepare does, and no later than ctx ends: prepare knows no context, and
// what it returns then is released.
func (s *handlerSet) await(ctx context.Context, prepare func() (probe.Handler, error)) (probe.Handler, error) {
	type answer struct {
		handler probe.Handler
		err     error
	}
	answers := make(chan answer) // without room: what is not taken is released
	s.preparing.Go(func() {
		h, err := prepare()
		select {
		case answers <- answer{h, err}:
		case <-ctx.Done():
			probe.Release(h)
		}
	})
	select {
	case a := <-answers:
		return a.handler, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// preparerContext is implemented by the handlers of plugins that can be told that nobody waits
// any more for what a plugin says of a config.
type preparerContext interface {
	PrepareContext(ctx context.Context, config []byte, target probe.Target) (probe.Handler, error)
}

// endable is a handler of a plugin whose Prepare ends with the agent.
type endable struct {
	probe.Handler
	of *handlerSet
}

var (
	_ probe.Preparer = endable{}
	_ io.Closer      = endable{}
)

// Prepare implements [probe.Preparer] for the handler inside, which is one.
func (e endable) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	return e.of.await(e.of.ending, func() (h probe.Handler, err error) {
		defer recovered(&err)
		if p, ok := e.Handler.(preparerContext); ok {
			return p.PrepareContext(e.of.ending, config, target)
		}
		return e.Handler.(probe.Preparer).Prepare(config, target)
	})
}

// Close implements [io.Closer] for the handler inside, which is one.
func (e endable) Close() error { return e.Handler.(io.Closer).Close() }

// recovered is deferred, and makes a panic an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v", p)
	}
}

// prepareNow loads the plugin called name, if need be, and binds it to a probe. One that is
// unloaded this moment is loaded again.
func (s *handlerSet) prepareNow(name string, config []byte, target probe.Target) (h probe.Handler, err error) {
	defer recovered(&err)
	for {
		r, err := s.demand(name)
		if err != nil {
			return nil, err
		}
		h, err = s.bind(name, config, target)
		s.noteMute(name, err)
		if err == nil || s.ending.Err() != nil || s.record(name) == r && (r == nil || s.runs(r)) {
			return h, err
		}
	}
}

// bind binds a handler to a probe.
func (s *handlerSet) bind(name string, config []byte, target probe.Target) (probe.Handler, error) {
	h, err := s.Registry.Prepare(name, config, target)
	if _, unknown := errors.AsType[*handlers.UnknownError](err); unknown && len(s.cfg.PluginDirs) == 0 {
		return nil, fmt.Errorf("%w; plugins are found in --plugins folders", err)
	}
	if err != nil {
		return nil, err
	}
	seen := h
	if s.record(name) != nil {
		seen = s.metrics.TimeCalls(name, seen)
	}
	return counted{s.metrics.CountInFlight(seen), h}, nil
}

// demand sees to it that the plugin called name, if there is one, has been loaded. Those
// that no probe has asked for are not: a folder may hold more than a host needs, and what
// nobody uses costs no time, no memory and no grant. One that was tried in vain is tried
// again when it has changed.
func (s *handlerSet) demand(name string) (*pluginRecord, error) {
	for {
		r := s.record(name)
		if r == nil {
			return nil, s.absent(name)
		}
		if s.runs(r) {
			return r, nil
		}
		first := s.want(name)
		if err := r.lock(s.ending); err != nil {
			return nil, err
		}
		if s.runs(r) || s.record(name) != r || !first && s.failed(r) != nil {
			r.unlock()
			if err := s.failed(r); err != nil && s.record(name) == r {
				return nil, err
			}
			continue
		}
		err := s.bring(s.ending, r)
		r.unlock()
		s.demanded(err)
		if err != nil {
			return nil, err
		}
	}
}

// want notes that a probe asks for the plugin called name, and reports whether it is the
// first.
func (s *handlerSet) want(name string) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = !s.wanted[name]
	s.wanted[name] = true
	return first
}

// bring loads r, which the caller has locked.
func (s *handlerSet) bring(ctx context.Context, r *pluginRecord) error {
	s.log.Info("loading plugin", "handler", r.name) // takes seconds where it was never compiled
	v, err := s.scan()
	if err != nil { // nothing can be said of any plugin
		s.settle(r, "", err)
		return err
	}
	_, err = s.reconcile(ctx, r, v, false)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.runs(r): // what is wrong with its shadow keeps no probe back, and is told
		if err != nil {
			s.demanded(err)
		}
		return nil
	case s.record(r.name) != r:
		return nil // there is no such plugin any more, or another
	}
	return cmp.Or(s.failed(r), err, s.absent(r.name), errNotLoaded)
}

var errNotLoaded = errors.New("it was not loaded")

// absent is why there is no plugin called name, nil where nothing is known of it.
func (s *handlerSet) absent(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e := s.latest.Plugin(name); e.State {
	case admit.Pending:
		return fmt.Errorf("plugin %q: %w", name, admit.ErrPending)
	case admit.Refused:
		return e.Reason
	}
	return nil
}

// muteFor is how long a plugin that did not answer is not asked again.
const muteFor = 30 * time.Second

// mute is the error of a plugin that did not answer a moment ago, nil for one that may.
// What it would have said of another probe's config is not told.
func (s *handlerSet) mute(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.muted[name]) {
		return fmt.Errorf("handler %q: it is not asked again, since it had no answer for another probe", name)
	}
	return nil
}

// noteMute notes that a plugin did not say whether it takes a config, or has no instance
// that could: each of its other probes would wait as long.
func (s *handlerSet) noteMute(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, errWithdrawn):
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, probe.ErrNoSlot), probe.ReasonOf(err) == probe.ReasonInstantiate:
		s.muted[name] = time.Now().Add(muteFor)
	}
}

// begin begins a look at the manifests: plugins that did not answer are asked again.
func (s *handlerSet) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.muted)
	s.seen = make(map[string]bool)
}

// mayUse notes the handlers of a pod that may come to run.
func (s *handlerSet) mayUse(pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	addHandlers(s.mayBe, pod)
	addHandlers(s.seen, pod)
}

// refuses notes that the manifests were refused: they may use what they name, and what
// earlier ones would have used does not count any more.
func (s *handlerSet) refuses() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mayBe = s.seen
}

// uses notes the handlers of the pods that run. A pod that was noted before, which is
// read-only, is not read again.
func (s *handlerSet) uses(pods []*v1.Pod) {
	byPod, named := make(map[*v1.Pod]map[string]bool, len(pods)), make(map[string]bool)
	for _, pod := range pods {
		names := s.byPod[pod]
		if names == nil {
			names = make(map[string]bool)
			addHandlers(names, pod)
		}
		byPod[pod] = names
		maps.Copy(named, names)
	}
	s.byPod = byPod
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named = named
	clear(s.mayBe)
}

func addHandlers(to map[string]bool, pod *v1.Pod) {
	configs, _ := manager.ProbesOf(pod) // those with errors are never prepared
	for _, c := range configs {
		to[c.Handler] = true
	}
}
