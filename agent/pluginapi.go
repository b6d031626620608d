package agent

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/handlers/shadow"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/live"
)

// pluginList is the answer of /api/v1/plugins.
type pluginList struct {
	Items []PluginStatus `json:"items"`
}

// PluginStatus is what can be seen of a plugin from outside.
type PluginStatus struct {
	Name       string    `json:"name"`
	State      string    `json:"state"` // "running", "unused", "withdrawn" or "failed"; nothing runs in the last three
	Version    string    `json:"version,omitzero"`
	Digest     string    `json:"digest,omitzero"`
	Path       string    `json:"path,omitzero"`
	Runtime    string    `json:"runtime,omitzero"` // "wasm", "process" or "nagios"
	Trust      string    `json:"trust,omitzero"`
	Signer     string    `json:"signer,omitzero"`
	Generation int       `json:"generation"` // how many versions and settings there have been
	Probes     int       `json:"probes"`
	Changed    time.Time `json:"changed,omitzero"` // when a version was last taken or refused
	Error      string    `json:"error,omitzero"`   // why the newest version is not the one that runs
	Stale      string    `json:"stale,omitzero"`   // why what its registry has is not the newest version here
	// Refused is the newest version, where that may not be loaded: a digest, the lock or
	// its signatures speak against it.
	Refused *RefusedStatus `json:"refused,omitzero"`
	Shadow  *ShadowStatus  `json:"shadow,omitzero"`
}

// RefusedStatus is what can be seen of a version that may not be loaded.
type RefusedStatus struct {
	Digest string `json:"digest,omitzero"`
	Path   string `json:"path"`
	// Trust is what its signatures say: "unsigned", "unknown-key" or "bad-signature"; "" where
	// they were not looked at.
	Trust string `json:"trust,omitzero"`
	Error string `json:"error"`
}

// ShadowStatus is what can be seen of the version that runs beside a plugin.
type ShadowStatus struct {
	Version      string            `json:"version,omitzero"`
	Digest       string            `json:"digest,omitzero"`
	Path         string            `json:"path,omitzero"`
	Error        string            `json:"error,omitzero"` // why the newest version is not the one that runs beside
	Refused      *RefusedStatus    `json:"refused,omitzero"`
	Compared     map[string]uint64 `json:"compared"` // ticks: agree, disagree, error and skipped
	PromoteAfter *PromoteStatus    `json:"promoteAfter,omitzero"`
}

// PromoteStatus says when a shadow takes the plugin's place.
type PromoteStatus struct {
	Ticks     int     `json:"ticks"`
	Agreement float64 `json:"agreement"`
}

// statuses returns what can be seen of all plugins, by name: also of those that may not be
// loaded.
func (s *handlerSet) statuses() []PluginStatus {
	all, known := []PluginStatus{}, make(map[string]bool)
	latest := s.live.Latest()
	for _, p := range s.live.Statuses() {
		known[p.Name] = true
		all = append(all, pluginStatus(&p, latest))
	}
	for _, e := range latest.Plugins() {
		if e.State == admit.Refused && !known[e.Name] {
			all = append(all, PluginStatus{Name: e.Name, State: "failed", Error: oneLine(e.Reason), Refused: refusedStatus(e.Reason)})
		}
	}
	slices.SortFunc(all, func(a, b PluginStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}

var stateNames = map[live.State]string{live.Running: "running", live.Unused: "unused", live.Withdrawn: "withdrawn", live.Failed: "failed"}

// pluginStatus returns what can be seen of a plugin, by its status and what v has of it.
func pluginStatus(s *live.Status, v *admit.Snapshot) PluginStatus {
	p := PluginStatus{Name: s.Name, State: stateNames[s.State], Generation: s.Generation, Probes: s.Probes, Changed: s.Changed}
	if f := s.Plugin; f.Manifest != nil {
		p.Version, p.Digest, p.Path, p.Runtime = f.Manifest.Version, f.Digest, f.Path, runtimeOf(f)
		p.Trust, p.Signer = string(f.Verdict.State), f.Verdict.Signer()
	}
	switch {
	case s.Err != nil:
		p.Error = oneLine(s.Err)
	case s.State == live.Withdrawn:
		p.Error = live.ErrWithdrawn.Error()
	}
	e, beside := v.Plugin(s.Name), v.Shadow(s.Name)
	p.Refused = refusedStatus(e.Reason)
	if e.State == admit.Stale {
		p.Stale = oneLine(e.Reason)
	}
	if s.Shadow != nil {
		p.Shadow = shadowStatus(s.Shadow)
	} else if beside.State == admit.Refused {
		p.Shadow = shadowStatus(new(live.ShadowStatus))
	}
	if p.Shadow != nil && beside.Reason != nil {
		p.Shadow.Error, p.Shadow.Refused = cmp.Or(p.Shadow.Error, oneLine(beside.Reason)), refusedStatus(beside.Reason)
	}
	return p
}

// runtimeOf returns "wasm", "process" or "nagios".
func runtimeOf(p admit.Plugin) string { return string(cmp.Or(p.Manifest.Runtime, plugin.Wasm)) }

// runsPrograms reports whether the plugin called name runs programs on the host.
func (s *handlerSet) runsPrograms(name string) bool {
	p, ok := s.live.Status(name)
	return ok && p.Plugin.Manifest != nil && runtimeOf(p.Plugin) != string(plugin.Wasm)
}

// refusedStatus is what can be seen of the version that err says may not be loaded, nil
// where it says nothing of the kind.
func refusedStatus(err error) *RefusedStatus {
	r, ok := errors.AsType[*admit.RefusedError](err)
	if !ok {
		return nil
	}
	return &RefusedStatus{Digest: r.Digest, Path: r.Path, Trust: r.Trust(), Error: oneLine(r)}
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func shadowStatus(s *live.ShadowStatus) *ShadowStatus {
	p := &ShadowStatus{Compared: comparedTicks(s.Compared)}
	if f := s.Plugin; f.Manifest != nil {
		p.Version, p.Digest, p.Path = f.Manifest.Version, f.Digest, f.Path
	}
	if s.Err != nil {
		p.Error = oneLine(s.Err)
	}
	if s.PromoteAfter.Ticks > 0 {
		p.PromoteAfter = &PromoteStatus{s.PromoteAfter.Ticks, s.PromoteAfter.Agreement}
	}
	return p
}

func comparedTicks(c shadow.Counts) map[string]uint64 {
	return map[string]uint64{"agree": c.Agree, "disagree": c.Disagree, "error": c.Errors, "skipped": c.Skipped}
}

func (a *Agent) servePlugins(w http.ResponseWriter, _ *http.Request) {
	answer(w, pluginList{a.handlers.statuses()})
}

func (a *Agent) servePromote(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	status, err := a.handlers.live.Promote(r.Context(), name)
	switch {
	case errors.Is(err, live.ErrNoPlugin):
		fail(w, http.StatusNotFound, "plugin %q: %v", name, err)
	case err != nil:
		fail(w, http.StatusConflict, "%v", err)
	default:
		a.promoted()
		answer(w, pluginStatus(&status, a.handlers.live.Latest()))
	}
}
