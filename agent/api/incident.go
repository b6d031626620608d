package api

import (
	"slices"
	"time"
)

// IncidentList is the response of /api/v1/incidents: the open incidents, those with the most failing probes first,
// and ended ones, the newest first.
type IncidentList struct {
	Items []IncidentStatus `json:"items"`
}

// The values of [IncidentStatus].State.
const (
	IncidentOpen  = "open"
	IncidentEnded = "ended"
)

// IncidentStatus is a group of probes that began to fail together, and share a cause, a place or a dependency.
type IncidentStatus struct {
	// ID is the same as long as the incident is known. With a state directory, a restart of the agent keeps it.
	ID    string `json:"id"`
	State string `json:"state"` // "open", or "ended" if no probe fails any more
	// Cause is what the probes share, such as "connection refused from 10.0.3.0/24". A target may have written a
	// part of it.
	Cause   string    `json:"cause"`
	Start   time.Time `json:"start"`        // begin of the first failure
	End     time.Time `json:"end,omitzero"` // absent while it is open
	Failing int       `json:"failing"`      // number of probes that fail
	// Maintenance means that it is open, and all probes that fail are in a maintenance window.
	Maintenance bool `json:"maintenance,omitzero"`
	Probes      int  `json:"probes"` // number of probes at its peak, or of parts if there are more
	// First is the first probe that failed, and does not depend on others that fail.
	First IncidentPart `json:"first"`
	// Parts are the probes, in the order of their failures: all that fail, and the newest 200 of those that have
	// recovered. The parameter "parts" of the list limits them.
	Parts []IncidentPart `json:"parts"`
	Notes []IncidentNote `json:"notes,omitempty"` // the oldest first
}

// IncidentNote is what a person has written about an incident.
type IncidentNote struct {
	Time time.Time `json:"time"`
	By   string    `json:"by"` // who has written it, as far as the agent knows
	Text string    `json:"text"`
}

// NoteRequest is the body of POST /api/v1/incidents/ID/notes.
type NoteRequest struct {
	Text string `json:"text"` // one line of at most 256 bytes
}

// IncidentPart is a probe of an incident.
type IncidentPart struct {
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	Container string    `json:"container"`
	Kind      string    `json:"kind"` // "liveness", "readiness" or "startup"
	Handler   string    `json:"handler"`
	Target    string    `json:"target,omitzero"` // see [ProbeStatus]
	State     string    `json:"state"`           // when it failed: "failure", or "unknown" if it gives no verdict
	Since     time.Time `json:"since"`           // begin of its first failure
	Until     time.Time `json:"until,omitzero"`  // when it recovered, was paused or removed; absent while it fails
	// Cause is the output or the error of the attempt with which the failure began, as one line of at most 200
	// bytes. A target may have written it.
	Cause string `json:"cause,omitzero"`
	// Dependent means that it fails because other probes do.
	Dependent bool `json:"dependent,omitzero"`
	// Maintenance means that it fails, and is in a maintenance window.
	Maintenance bool `json:"maintenance,omitzero"`
}

// Word returns the state for people, which is the same in tables and on the page.
func (s *IncidentStatus) Word() string {
	if s.Maintenance {
		return s.State + " (" + InMaintenance + ")"
	}
	return s.State
}

// inWindow reports whether all parts that fail are in a maintenance window, and there is one.
func (s *IncidentStatus) inWindow() bool {
	fails := func(p IncidentPart) bool { return p.Until.IsZero() }
	return slices.ContainsFunc(s.Parts, fails) && !slices.ContainsFunc(s.Parts, func(p IncidentPart) bool { return fails(p) && !p.Maintenance })
}

// Only returns the incident as if it had only the parts for which match returns true; false if there are none, or
// if it is open and none of them fails.
func (s *IncidentStatus) Only(match func(*IncidentPart) bool) (IncidentStatus, bool) {
	only := *s
	only.Parts, only.Failing = nil, 0
	for i := range s.Parts {
		if p := &s.Parts[i]; match(p) {
			only.Parts = append(only.Parts, *p)
			if p.Until.IsZero() {
				only.Failing++
			}
		}
	}
	if len(only.Parts) == len(s.Parts) {
		return *s, true
	}
	if len(only.Parts) == 0 || only.Failing == 0 && s.State == IncidentOpen {
		return IncidentStatus{}, false
	}
	only.Probes, only.Maintenance = len(only.Parts), s.State == IncidentOpen && only.inWindow()
	if !match(&s.First) {
		only.First = only.Parts[max(0, slices.IndexFunc(only.Parts, func(p IncidentPart) bool { return !p.Dependent }))]
	}
	return only, true
}
