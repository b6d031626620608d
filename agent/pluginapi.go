package agent

import (
	"errors"
	"net/http"
	"time"

	"github.com/daeace23/prober/handlers"
)

// pluginList is the answer of /api/v1/plugins.
type pluginList struct {
	Items []PluginStatus `json:"items"`
}

// PluginStatus is what can be seen of a plugin from outside.
type PluginStatus struct {
	Name       string        `json:"name"`
	State      string        `json:"state"` // "running", "unused", "withdrawn" or "failed"; nothing runs in the last three
	Version    string        `json:"version,omitzero"`
	Digest     string        `json:"digest,omitzero"`
	Path       string        `json:"path,omitzero"`
	Runtime    string        `json:"runtime,omitzero"` // "wasm" or "process"
	Trust      string        `json:"trust,omitzero"`
	Signer     string        `json:"signer,omitzero"`
	Generation int           `json:"generation"` // how many versions and settings there have been
	Probes     int           `json:"probes"`
	Changed    time.Time     `json:"changed,omitzero"` // when a version was last taken or refused
	Error      string        `json:"error,omitzero"`   // why the newest version is not the one that runs
	Shadow     *ShadowStatus `json:"shadow,omitzero"`
}

// ShadowStatus is what can be seen of the version that runs beside a plugin.
type ShadowStatus struct {
	Version      string            `json:"version,omitzero"`
	Digest       string            `json:"digest,omitzero"`
	Path         string            `json:"path,omitzero"`
	Error        string            `json:"error,omitzero"` // why the newest version is not the one that runs beside
	Compared     map[string]uint64 `json:"compared"`       // ticks: agree, disagree, error and skipped
	PromoteAfter *PromoteStatus    `json:"promoteAfter,omitzero"`
}

// PromoteStatus says when a shadow takes the plugin's place.
type PromoteStatus struct {
	Ticks     int     `json:"ticks"`
	Agreement float64 `json:"agreement"`
}

// statuses returns what is to be seen of all plugins, by name.
func (s *handlerSet) statuses() []PluginStatus {
	all := []PluginStatus{}
	for _, r := range s.records() {
		all = append(all, s.status(r))
	}
	return all
}

func (s *handlerSet) status(r *pluginRecord) PluginStatus {
	now := r.swap.Shadowing()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := PluginStatus{Name: r.name, State: "failed", Generation: r.swap.Generation(), Probes: r.swap.Live(), Changed: r.at}
	switch {
	case r.withdrawn:
		p.State, p.Error = "withdrawn", errWithdrawn.Error()
	case r.mark != "":
		p.State = "running"
	case r.err == nil:
		p.State = "unused"
	}
	if r.inUse.Manifest != nil && !r.withdrawn {
		p.Version, p.Digest, p.Path = r.inUse.Manifest.Version, r.inUse.Digest, r.inUse.Path
		p.Runtime, p.Trust, p.Signer = r.runtime, string(r.inUse.Verdict.State), r.inUse.Verdict.Signer()
	}
	if r.err != nil {
		p.Error = r.err.Error()
	}
	if r.shadow != nil {
		p.Shadow = r.shadow.status(now)
	}
	return p
}

func (sh *shadowRecord) status(now handlers.Shadowing) *ShadowStatus {
	seen := now.Less(sh.from)
	p := &ShadowStatus{Compared: map[string]uint64{
		"agree": seen.Agree, "disagree": seen.Disagree, "error": seen.Errors, "skipped": seen.Skipped,
	}}
	if sh.mark != "" {
		p.Version, p.Digest, p.Path = sh.f.Manifest.Version, sh.f.Digest, sh.f.Path
	}
	if sh.err != nil {
		p.Error = sh.err.Error()
	}
	if sh.after.Ticks > 0 {
		p.PromoteAfter = &PromoteStatus{sh.after.Ticks, sh.after.Agreement}
	}
	return p
}

func (a *Agent) servePlugins(w http.ResponseWriter, _ *http.Request) {
	answer(w, pluginList{a.handlers.statuses()})
}

func (a *Agent) servePromote(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	record, err := a.handlers.promote(r.Context(), name)
	switch {
	case errors.Is(err, errNoPlugin):
		fail(w, http.StatusNotFound, "plugin %q: %v", name, err)
	case err != nil:
		fail(w, http.StatusConflict, "%v", err)
	default:
		answer(w, a.handlers.status(record))
	}
}
