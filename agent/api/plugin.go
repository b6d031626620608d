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
	State      string    `json:"state"` // "running", "unused", "withdrawn" or "failed"; it runs in the first only
	Version    string    `json:"version,omitzero"`
	Digest     string    `json:"digest,omitzero"` // "" before it was read: when a probe asks for it, or prober.yaml names it
	Path       string    `json:"path,omitzero"`
	Runtime    string    `json:"runtime,omitzero"` // "wasm", "process" or "nagios"
	Trust      string    `json:"trust,omitzero"`   // "" before it was read
	Signer     string    `json:"signer,omitzero"`
	Generation int       `json:"generation"` // the number of versions and settings so far
	Probes     int       `json:"probes"`
	Changed    time.Time `json:"changed,omitzero"` // when a version was last loaded or refused
	Error      string    `json:"error,omitzero"`   // why the newest version is not the one that runs
	Stale      string    `json:"stale,omitzero"`   // why the newest version of its registry is not known
	// Refused is the newest version, if its digest, the lock or its signatures forbid loading it.
	Refused *RefusedStatus `json:"refused,omitzero"`
	Shadow  *ShadowStatus  `json:"shadow,omitzero"`
	// Idle and Busy are its instances.
	Idle int `json:"idle"`
	Busy int `json:"busy"`
	// Denied counts requests that its grants do not allow, in all versions.
	Denied uint64 `json:"denied"`
	// Limits count how often each limit was hit, by its name, in all versions.
	Limits map[string]uint64 `json:"limits,omitzero"`
}

// RefusedStatus is the status of a version that may not be loaded.
type RefusedStatus struct {
	Digest string `json:"digest,omitzero"`
	Path   string `json:"path"`
	// Trust is the result of checking its signatures: "unsigned", "unknown-key" or
	// "bad-signature"; "" if they were not checked.
	Trust string `json:"trust,omitzero"`
	Error string `json:"error"`
}

// ShadowStatus is the status of a shadow, the version that runs beside a plugin.
type ShadowStatus struct {
	Version      string            `json:"version,omitzero"`
	Digest       string            `json:"digest,omitzero"`
	Path         string            `json:"path,omitzero"`
	Error        string            `json:"error,omitzero"` // why the newest version is not the one that runs
	Refused      *RefusedStatus    `json:"refused,omitzero"`
	Compared     map[string]uint64 `json:"compared"` // ticks: agree, disagree, error and skipped
	PromoteAfter *PromoteStatus    `json:"promoteAfter,omitzero"`
}

// PromoteStatus is the condition on which a shadow replaces its plugin.
type PromoteStatus struct {
	Ticks     int     `json:"ticks"`
	Agreement float64 `json:"agreement"`
}
