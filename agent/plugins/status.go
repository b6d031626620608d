package plugins

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/handlers/shadow"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/live"
)

// Statuses returns the status of all plugins, sorted by name, including plugins that may not be loaded.
func (s *Set) Statuses() []api.PluginStatus {
	all, known := []api.PluginStatus{}, make(map[string]bool)
	latest := s.live.Latest()
	for _, p := range s.live.Statuses() {
		known[p.Name] = true
		all = append(all, pluginStatus(&p, latest))
	}
	for _, e := range latest.Plugins() {
		if (e.State == admit.Refused || e.State == admit.Away) && !known[e.Name] {
			all = append(all, api.PluginStatus{Name: e.Name, State: "failed", Error: joined.Line(e.Reason), Refused: refusedStatus(e.Reason)})
		}
	}
	slices.SortFunc(all, func(a, b api.PluginStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}

var stateNames = map[live.State]string{live.Running: "running", live.Unused: "unused", live.Withdrawn: "withdrawn", live.Failed: "failed", live.Awaited: "failed"}

// pluginStatus returns the API status of a plugin. v is the latest snapshot.
func pluginStatus(s *live.Status, v *admit.Snapshot) api.PluginStatus {
	p := api.PluginStatus{Name: s.Name, State: stateNames[s.State], Generation: s.Generation, Probes: s.Probes, Changed: s.Changed}
	if f := s.Plugin; f.Manifest != nil {
		p.Version, p.Digest, p.Path, p.Runtime = f.Manifest.Version, f.Digest, f.Path, runtimeOf(f)
		p.Trust, p.Signer = string(f.Verdict.State), f.Verdict.Signer()
	}
	switch {
	case s.Err != nil:
		p.Error = joined.Line(s.Err)
	case s.State == live.Withdrawn:
		p.Error = live.ErrWithdrawn.Error()
	}
	p.Idle, p.Busy, p.Denied = s.Stats.Idle, s.Stats.Busy, s.Stats.Denied
	for limit, n := range s.Stats.Limits {
		if n == 0 {
			continue
		}
		if p.Limits == nil {
			p.Limits = make(map[string]uint64)
		}
		p.Limits[string(limit)] = n
	}
	e, beside := v.Plugin(s.Name), v.Shadow(s.Name)
	p.Refused = refusedStatus(e.Reason)
	if e.State == admit.Stale {
		p.Stale = joined.Line(e.Reason)
	}
	if s.Shadow != nil {
		p.Shadow = shadowStatus(s.Shadow)
	} else if beside.State == admit.Refused {
		p.Shadow = shadowStatus(new(live.ShadowStatus))
	}
	if p.Shadow != nil && beside.Reason != nil {
		p.Shadow.Error, p.Shadow.Refused = cmp.Or(p.Shadow.Error, joined.Line(beside.Reason)), refusedStatus(beside.Reason)
	}
	return p
}

// runtimeOf returns "wasm", "process" or "nagios".
func runtimeOf(p admit.Plugin) string { return string(cmp.Or(p.Manifest.Runtime, plugin.Wasm)) }

// RunsPrograms reports whether the plugin called name runs programs on the host.
func (s *Set) RunsPrograms(name string) bool {
	p, ok := s.live.Status(name)
	return ok && p.Plugin.Manifest != nil && runtimeOf(p.Plugin) != string(plugin.Wasm)
}

// refusedStatus returns the status of the version that err refuses; nil for other errors.
func refusedStatus(err error) *api.RefusedStatus {
	r, ok := errors.AsType[*admit.RefusedError](err)
	if !ok {
		return nil
	}
	return &api.RefusedStatus{Digest: r.Digest, Path: r.Path, Trust: r.Trust(), Error: joined.Line(r)}
}

func shadowStatus(s *live.ShadowStatus) *api.ShadowStatus {
	p := &api.ShadowStatus{Compared: comparedTicks(s.Compared)}
	if f := s.Plugin; f.Manifest != nil {
		p.Version, p.Digest, p.Path = f.Manifest.Version, f.Digest, f.Path
	}
	if s.Err != nil {
		p.Error = joined.Line(s.Err)
	}
	if s.PromoteAfter.Ticks > 0 {
		p.PromoteAfter = &api.PromoteStatus{Ticks: s.PromoteAfter.Ticks, Agreement: s.PromoteAfter.Agreement}
	}
	return p
}

func comparedTicks(c shadow.Counts) map[string]uint64 {
	return map[string]uint64{"agree": c.Agree, "disagree": c.Disagree, "error": c.Errors, "skipped": c.Skipped}
}

// Promote replaces a plugin by its shadow.
func (s *Set) Promote(ctx context.Context, name string) (api.PluginStatus, error) {
	status, err := s.live.Promote(ctx, name)
	if err != nil {
		return api.PluginStatus{}, err
	}
	return pluginStatus(&status, s.live.Latest()), nil
}

// PromoteDue promotes shadows that are due, and reports whether there were any.
func (s *Set) PromoteDue(ctx context.Context) bool { return s.live.PromoteDue(ctx) }

// UnloadUnused unloads plugins that no probe has used for a while.
func (s *Set) UnloadUnused(now time.Time) bool { return s.live.UnloadUnused(now) }
