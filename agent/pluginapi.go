package agent

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/handlers/shadow"
	"github.com/daeace23/prober/plugin/admit"
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

// statuses returns what is to be seen of all plugins, by name: also of those that cannot
// be used.
func (s *handlerSet) statuses() []PluginStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []PluginStatus{}
	for _, r := range s.plugins {
		all = append(all, s.statusLocked(r))
	}
	for _, e := range s.latest.Plugins() {
		if e.State == admit.Refused && s.plugins[e.Name] == nil {
			all = append(all, PluginStatus{Name: e.Name, State: "failed", Error: oneLine(e.Reason), Refused: refusedStatus(e.Reason)})
		}
	}
	slices.SortFunc(all, func(a, b PluginStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (s *handlerSet) status(r *pluginRecord) PluginStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.statusLocked(r)
}

func (s *handlerSet) statusLocked(r *pluginRecord) PluginStatus {
	compared := r.swap.Shadowing() // not before what it is held against
	now, generation, err := r.nowLocked()
	p := PluginStatus{Name: r.name, State: "failed", Generation: generation, Probes: r.swap.Live(), Changed: r.at}
	f, runtime := r.inUse, r.runtime
	switch {
	case now != nil:
		p.State, f, runtime = "running", now.f, now.runtime
	case r.withdrawn:
		p.State, p.Error, f = "withdrawn", errWithdrawn.Error(), admit.Plugin{}
	case err == nil:
		p.State = "unused"
	}
	if f.Manifest != nil {
		p.Version, p.Digest, p.Path, p.Runtime = f.Manifest.Version, f.Digest, f.Path, runtime
		p.Trust, p.Signer = string(f.Verdict.State), f.Verdict.Signer()
	}
	if err != nil {
		p.Error = oneLine(err)
	}
	e, beside := s.latest.Plugin(r.name), s.latest.Shadow(r.name)
	p.Refused = refusedStatus(e.Reason)
	if e.State == admit.Stale {
		p.Stale = oneLine(e.Reason)
	}
	if r.shadow != nil {
		p.Shadow = r.shadow.status(compared)
	} else if beside.State == admit.Refused {
		p.Shadow = new(shadowRecord).status(shadow.Counts{})
	}
	if p.Shadow != nil && beside.Reason != nil {
		p.Shadow.Error, p.Shadow.Refused = cmp.Or(p.Shadow.Error, oneLine(beside.Reason)), refusedStatus(beside.Reason)
	}
	return p
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

func (sh *shadowRecord) status(now shadow.Counts) *ShadowStatus {
	seen := now.Less(sh.from)
	p := &ShadowStatus{Compared: map[string]uint64{
		"agree": seen.Agree, "disagree": seen.Disagree, "error": seen.Errors, "skipped": seen.Skipped,
	}}
	if sh.mark != "" {
		p.Version, p.Digest, p.Path = sh.f.Manifest.Version, sh.f.Digest, sh.f.Path
	}
	if sh.err != nil {
		p.Error = oneLine(sh.err)
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
		a.promoted()
		answer(w, a.handlers.status(record))
	}
}
