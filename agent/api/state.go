package api

import (
	"cmp"
	"time"
)

// States are the values by which probes are counted and selected: the states, [Paused] and [InMaintenance].
var States = []string{"success", "warning", "failure", "unknown", Paused, InMaintenance}

// Paused is counted for paused probes instead of their state.
const Paused = "paused"

// InMaintenance is counted for probes in a maintenance window instead of their state.
const InMaintenance = "maintenance"

// Now returns the state, or the decided result if the agent sends no states.
func (p *ProbeStatus) Now() string { return cmp.Or(p.State, p.Result) }

// Counted returns the value as which p is counted: its state, [Paused] or [InMaintenance]. A failure that is paused
// or in maintenance is no alarm.
func (p *ProbeStatus) Counted() string {
	switch {
	case p.Paused:
		return Paused
	case p.Maintenance != nil:
		return InMaintenance
	default:
		return p.Now()
	}
}

// Word returns the state for a table: "failure", "failure (paused)", "failure (forced down)", or
// "failure (maintenance)".
func (p *ProbeStatus) Word() string {
	switch {
	case p.Paused:
		return p.Now() + " (" + p.text() + ")"
	case p.Maintenance != nil:
		return p.Now() + " (" + InMaintenance + ")"
	default:
		return p.Now()
	}
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
