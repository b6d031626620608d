package pods

import "time"

// The states of a [Target].
const (
	TargetProbed  = "probed"
	TargetDropped = "dropped" // it cannot be probed, or a relabel rule of its group drops it
	TargetGone    = "gone"    // it was probed, and its source no longer lists it
)

// TargetStates has all states of a [Target].
var TargetStates = []string{TargetProbed, TargetDropped, TargetGone}

// Target is a target of a group in prober.yaml.
type Target struct {
	Group, Name string
	Address     string // listed by its source, or set by a relabel step
	// Source is where the target is listed: "static PATH:LINE", "file PATH:LINE", "http URL", "dns NAME" or
	// "command PATH".
	Source string
	Labels map[string]string // read-only
	State  string
	Reason string // why it is dropped or gone
	// Pod is the pod with its probe, in Namespace. It is empty if a dropped target has no name.
	Namespace, Pod string
	Since          time.Time // when it was found to be gone; zero in other states
}

// Targets has all targets, and the state of their sources. It is read-only.
type Targets struct {
	Items   []Target // in the order of prober.yaml; gone targets are at the end
	Sources []TargetSource
}

// TargetSource is a source of targets: one entry of static, file, http, dns or command of a group.
type TargetSource struct {
	Group, Source   string
	Probed, Dropped int       // targets
	Failures        uint64    // failed refreshes so far
	Err             error     // error of the last refresh; nil if it succeeded
	Refreshed       time.Time // time of the last successful refresh; zero for none
}

// TargetContainer is the name of the only container of the pod of a target.
const TargetContainer = "target"
