package api

import (
	"cmp"
	"time"
)

// States are the values by which probes are counted and selected: the states, and [Paused].
var States = []string{"success", "warning", "failure", "unknown", Paused}

// Paused is counted for paused probes instead of their state.
const Paused = "paused"

// Now returns the state, or the decided result if the agent sends no states.
func (p *ProbeStatus) Now() string { return cmp.Or(p.State, p.Result) }

// Counted returns the value as which p is counted: its state, or [Paused]. A paused failure is no alarm.
func (p *ProbeStatus) Counted() string {
	if p.Paused {
		return Paused
	}
	return p.Now()
}

// Word returns the state for a table: "failure", "failure (paused)", or "failure (forced down)".
func (p *ProbeStatus) Word() string {
	if p.Paused {
		return p.Now() + " (" + p.text() + ")"
	}
	return p.Now()
}

// Activity returns why the probe makes no attempts, or "active" if it makes attempts. For a pause, it
// includes its reason and its end, in a layout of package time and a time zone.
func (p *ProbeStatus) Activity(layout string, zone *time.Location) string {
	if !p.Paused {
		return cmp.Or(p.Gate, "active")
	}
	text := p.text()
	if !p.PausedUntil.IsZero() {
		text += " until " + p.PausedUntil.In(zone).Format(layout)
	}
	if p.PauseReason != "" {
		text += ": " + p.PauseReason
	}
	return text
}
