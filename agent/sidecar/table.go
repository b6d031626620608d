package sidecar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/probe"
)

// table has the probes that the annotation declares, by CONTAINER/KIND.
type table struct {
	mu     sync.RWMutex // held by a request until its flight has started
	probes map[string]*requestedProbe
}

// fly starts a flight of the probe called name, or joins the current one. It returns nil if there is no such
// probe.
func (t *table) fly(name string) *flight {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if a := t.probes[name]; a != nil {
		return a.fly()
	}
	return nil
}

// names returns the names of all probes, sorted.
func (t *table) names() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(maps.Keys(t.probes))
}

// replace replaces the probes by next, and closes probes that are not in next.
func (t *table) replace(next map[string]*requestedProbe) {
	t.mu.Lock()
	old := t.probes
	t.probes = next
	t.mu.Unlock()
	for name, a := range old {
		if next[name] != a {
			a.close()
		}
	}
}

// nameOf returns the name of a probe in requests.
func nameOf(c *declared.Probe) string { return c.Container + "/" + c.Kind.String() }

// apply replaces the probes of the table by those in the text. A probe whose config and secrets are unchanged
// keeps its handler and its current flight. On an error, nothing changes.
func (s *Server) apply(ctx context.Context, text string) (changed bool, err error) {
	pod, configs, err := parse(text, s.cfg.Ports)
	if err != nil {
		return false, err
	}
	next, made := make(map[string]*requestedProbe, len(configs)), []*requestedProbe(nil)
	var errs []error
	view := s.pod(pod.Spec.Containers)
	for i := range configs {
		c := &configs[i]
		a, fresh, err := s.probe(ctx, c, view)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Path, err))
			continue
		}
		if next[nameOf(c)] = a; fresh {
			made = append(made, a)
		}
	}
	if err := errors.Join(errs...); err != nil {
		for _, a := range made {
			a.close()
		}
		return false, err
	}
	changed = len(made) > 0 || len(next) != len(s.table.names())
	s.table.replace(next)
	return changed, nil
}

// probe returns the probe of c: the present one if it is unchanged, else a fresh one.
func (s *Server) probe(ctx context.Context, c *declared.Probe, pod *podView) (a *requestedProbe, fresh bool, err error) {
	config, secrets, err := declared.ResolveSecrets(c.Config, s.cfg.ResolveSecret)
	if err != nil {
		return nil, false, err
	}
	container := pod.containers[c.Container]
	s.table.mu.RLock()
	present := s.table.probes[nameOf(c)]
	s.table.mu.RUnlock()
	if present != nil && present.resolved == string(config) && reflect.DeepEqual(&present.config, c) {
		return present, false, nil
	}
	h, err := s.cfg.Prepare(ctx, c.Handler, config, c.Target)
	if err != nil {
		return nil, false, secrets.Error(err)
	}
	target := c.Target
	if target.Host == "" && target.Unix == "" {
		target.Host = s.cfg.Host
	}
	a = &requestedProbe{
		config: *c, resolved: string(config), handler: secrets.Handler(h), log: s.cfg.Log, told: worker.InitialResult(c.Kind),
		request: probe.Request{Kind: c.Kind, Spec: c.Spec, Target: target, PodIP: s.cfg.Host, Pod: &pod.pod, Container: container},
		observer: s.cfg.Observer.Observe(worker.Info{
			Subject: results.Subject{Namespace: s.cfg.Namespace, Pod: s.cfg.Pod, PodUID: s.cfg.PodUID, Container: c.Container}, Kind: c.Kind, Handler: c.Handler,
		}),
	}
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	return a, true, nil
}

// Follow reads the annotation at each interval until ctx ends, and applies changes of it and of the secrets.
// An invalid text is logged once, and the last good one stays in use.
func (s *Server) Follow(ctx context.Context, interval time.Duration, maintain func(context.Context)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var last string // error
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		maintain(ctx)
		text, err := s.cfg.Text()
		changed := false
		if err == nil {
			changed, err = s.apply(ctx, text)
		}
		switch now := lineOf(err); {
		case ctx.Err() != nil:
			return
		case err != nil && now != last:
			s.cfg.Log.Error("the annotation cannot be used; the last good one stays in use", "error", now)
			last = now
		case changed || err == nil && last != "":
			s.cfg.Log.Info("annotation applied", "probes", len(s.table.names()))
			last = ""
		}
	}
}

// lineOf returns the text of an error as one line, "" for nil.
func lineOf(err error) string {
	if err == nil {
		return ""
	}
	return cmp.Or(joined.Line(err), "unknown error")
}
