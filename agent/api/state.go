package api

import "cmp"

// States are what probes are counted as, and selected by: the states, and [Paused].
var States = []string{"success", "warning", "failure", "unknown", Paused}

// Paused is what counts of probes by state count a paused probe as, beside the states.
const Paused = "paused"

// Now returns the state, or the decided result of an agent that tells no states.
func (p *ProbeStatus) Now() string { return cmp.Or(p.State, p.Result) }

// Counted returns what counts of probes by state count p as: its state, or [Paused]. A failure that is paused
// is no alarm.
func (p *ProbeStatus) Counted() string {
	if p.Paused {
		return Paused
	}
	return p.Now()
}

// Word returns the state for a table: "failure", or "failure (paused)".
func (p *ProbeStatus) Word() string {
	if p.Paused {
		return p.Now() + " (" + Paused + ")"
	}
	return p.Now()
}

// Activity returns why the probe makes no attempts, with the end of a pause in a layout of package time, and
// why it is paused; "active" if it makes some.
func (p *ProbeStatus) Activity(layout string) string {
	if !p.Paused {
		return cmp.Or(p.Gate, "active")
	}
	text := Paused
	if !p.PausedUntil.IsZero() {
		text += " until " + p.PausedUntil.Local().Format(layout)
	}
	if p.PauseReason != "" {
		text += ": " + p.PauseReason
	}
	return text
}
