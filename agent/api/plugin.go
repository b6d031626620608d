package api

import "time"

// PluginList is the response of /api/v1/plugins.
type PluginList struct {
	Items []PluginStatus `json:"items"`
	// MemoryBytes is the memory of the instances of all WebAssembly plugins, which share one budget.
	MemoryBytes uint64 `json:"memoryBytes"`
}

// PluginStatus is the status of a plugin.
type PluginStatus struct {
	Name       string    `json:"name"`
	State      string    `json:"state"` // "running", "unused", "withdrawn" or "failed"; only a running plugin runs
	Version    string    `json:"version,omitzero"`
	Digest     string    `json:"digest,omitzero"` // "" if it was not read yet: a plugin is read when a probe or prober.yaml refers to it
	Path       string    `json:"path,omitzero"`
	Runtime    string    `json:"runtime,omitzero"` // "wasm", "process" or "nagios"
	Trust      string    `json:"trust,omitzero"`   // "" if it was not read yet
	Signer     string    `json:"signer,omitzero"`
	Generation int       `json:"generation"` // number of versions and settings so far
	Probes     int       `json:"probes"`
	Changed    time.Time `json:"changed,omitzero"` // when a version was last loaded or refused
	Error      string    `json:"error,omitzero"`   // why the newest version is not running
	Stale      string    `json:"stale,omitzero"`   // why the newest version in the registry is unknown
	// Refused is the newest version, if its digest, the lock file or its signatures forbid loading it.
	Refused *RefusedStatus `json:"refused,omitzero"`
	Shadow  *ShadowStatus  `json:"shadow,omitzero"`
	// Idle and Busy are the numbers of its instances.
	Idle int `json:"idle"`
	Busy int `json:"busy"`
	// Denied counts requests that its grants do not allow, over all versions.
	Denied uint64 `json:"denied"`
	// Limits counts how often each limit was hit, by the name of the limit, over all versions.
	Limits map[string]uint64 `json:"limits,omitzero"`
}

// RefusedStatus is the status of a version that must not be loaded.
type RefusedStatus struct {
	Digest string `json:"digest,omitzero"`
	Path   string `json:"path"`
	// Trust is the result of checking its signatures: "unsigned", "unknown-key" or
	// "bad-signature"; "" if they were not checked.
	Trust string `json:"trust,omitzero"`
	Error string `json:"error"`
}

// ShadowStatus is the status of a shadow, a version that runs beside a plugin.
type ShadowStatus struct {
	Version      string            `json:"version,omitzero"`
	Digest       string            `json:"digest,omitzero"`
	Path         string            `json:"path,omitzero"`
	Error        string            `json:"error,omitzero"` // why the newest version is not running
	Refused      *RefusedStatus    `json:"refused,omitzero"`
	Compared     map[string]uint64 `json:"compared"` // number of ticks: agree, disagree, error and skipped
	PromoteAfter *PromoteStatus    `json:"promoteAfter,omitzero"`
}

// PromoteStatus is the condition for a shadow to replace its plugin.
type PromoteStatus struct {
	Ticks     int     `json:"ticks"`
	Agreement float64 `json:"agreement"`
}
