package api

import "time"

// PluginList is the answer of /api/v1/plugins.
type PluginList struct {
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
