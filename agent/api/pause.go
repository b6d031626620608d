package api

import "time"

// Pause has the details of a pause. It is empty for a probe that its configuration pauses.
type Pause struct {
	// Forced is the state that a user has forced: "up", "down" or "drained"; absent for a pause. A forced probe
	// is a paused one with a given result.
	Forced string `json:"forced,omitzero"`
	// PausedUntil is when the pause ends by itself; absent if it does not.
	PausedUntil time.Time `json:"pausedUntil,omitzero"`
	// PauseReason is the reason that the caller gave.
	PauseReason string `json:"pauseReason,omitzero"`
	// PausedBy is who paused the probe, such as "uid 0, with the socket".
	PausedBy string `json:"pausedBy,omitzero"`
}

// PauseRequest is the body of a request to pause a probe. The body is optional. The query parameters have the
// same names.
type PauseRequest struct {
	// For is the duration of the pause, such as "10m"; absent to pause until resumed.
	For string `json:"for,omitzero"`
	// Reason is shown with the probe, at most 256 bytes on one line.
	Reason string `json:"reason,omitzero"`
}

// ForceRequest is the body of a request to force a probe into a state. The query parameters have the same
// names.
type ForceRequest struct {
	// State is "up", "down" or "drained".
	State string `json:"state"`
	// For is how long, such as "10m"; absent for no end.
	For string `json:"for,omitzero"`
	// Reason is shown with the probe, at most 256 bytes on one line.
	Reason string `json:"reason,omitzero"`
}

// text returns "paused", "forced up", "forced down" or "drained".
func (p *Pause) text() string {
	switch p.Forced {
	case "":
		return Paused
	case "up", "down":
		return "forced " + p.Forced
	default:
		return p.Forced
	}
}
