package api

import "time"

// TargetList is a page of targets.
type TargetList struct {
	Metadata ListMeta `json:"metadata,omitzero"`
	// Sources are all sources of the requested groups, on each page.
	Sources []TargetSource `json:"sources"`
	Items   []Target       `json:"items"`
}

// Target is a target of prober.yaml.
type Target struct {
	Group string `json:"group"`
	// Name is the address, unless a relabel step sets a name.
	Name    string `json:"name"`
	Address string `json:"address"`
	// Source is where the target is listed, such as "static prober.yaml:12" and "file sd/a.json:3".
	Source string            `json:"source"`
	Labels map[string]string `json:"labels,omitzero"`
	// State is "probed", "dropped", or "gone" if its source no longer lists it.
	State string `json:"state"`
	// Reason is why it is dropped or gone.
	Reason    string `json:"reason,omitzero"`
	Namespace string `json:"namespace"`
	// Pod is the pod of its probe.
	Pod string `json:"pod,omitzero"`
	// Since is when it was removed from its source.
	Since time.Time `json:"since,omitzero"`
}

// TargetSource is a source of targets: an entry of static, file, http, dns or command in prober.yaml.
type TargetSource struct {
	Group string `json:"group"`
	// Source is the kind and the name of the source, such as "http https://cmdb.example/targets".
	Source string `json:"source"`
	// Probed and Dropped are the numbers of its targets in these states.
	Probed  int `json:"probed"`
	Dropped int `json:"dropped"`
	// Failures counts attempts to refresh it that failed.
	Failures uint64 `json:"failures"`
	// Error is the error of the last attempt. The last good list stays in use.
	Error string `json:"error,omitzero"`
	// Refreshed is when an attempt last succeeded.
	Refreshed time.Time `json:"refreshed,omitzero"`
}
