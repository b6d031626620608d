package pods

import "time"

// The states of a [Target].
const (
	TargetProbed  = "probed"
	TargetDropped = "dropped" // it cannot be probed, or a rule of its group drops it
	TargetGone    = "gone"    // it was probed, and its source no longer lists it
)

// TargetStates are all states of a [Target].
var TargetStates = []string{TargetProbed, TargetDropped, TargetGone}

// Target is a target of a group in prober.yaml.
type Target struct {
	Group, Name string
	Address     string // as its source lists it, or as a relabel step sets it
	// Source is where it is listed: "static PATH:LINE", "file PATH:LINE", "http URL", "dns NAME" or
	// "command PATH".
	Source string
	Labels map[string]string // read-only
	State  string
	Reason string // why it is dropped or gone
	// Pod is the pod with its probe, in Namespace. It is empty if a dropped target has no name.
	Namespace, Pod string
	Since          time.Time // when it was gone; zero in other states
}

// Targets are all targets, and what is known of their sources. They are read-only.
type Targets struct {
	Items   []Target // in the order of prober.yaml, those that are gone at the end
	Sources []TargetSource
}

// TargetSource is a source of targets: one entry of static, file, http, dns or command of a group.
type TargetSource struct {
	Group, Source   string
	Probed, Dropped int       // targets
	Failures        uint64    // to refresh it, so far
	Err             error     // of the last attempt; nil if it succeeded
	Refreshed       time.Time // of the last attempt that succeeded; zero for none
}

// TargetContainer is the name of the only container of the pod of a target.
const TargetContainer = "target"
