package api

import "time"

// Pause says more of a probe that is paused. It is empty for a probe that its configuration pauses.
type Pause struct {
	// PausedUntil is when the pause ends by itself; absent if it does not.
	PausedUntil time.Time `json:"pausedUntil,omitzero"`
	// PauseReason is what the caller gave as the reason.
	PauseReason string `json:"pauseReason,omitzero"`
	// PausedBy is who paused the probe, such as "uid 0, with the socket".
	PausedBy string `json:"pausedBy,omitzero"`
}

// PauseRequest is the body of a request to pause a probe. The body may be absent; the parameters of
// the query have the same names.
type PauseRequest struct {
	// For is how long the pause takes, such as "10m"; absent until it is resumed.
	For string `json:"for,omitzero"`
	// Reason is shown with the probe, at most 256 bytes on one line.
	Reason string `json:"reason,omitzero"`
}
