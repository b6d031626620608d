package endpoint

import (
	"time"
)

// Push is a check to which somebody reports results, with [Set.Report]. It fails when no report comes in time.
type Push struct {
	Thresholds
	// TTL is the time after a report, or after Put, in which the next one must come. Exactly one of TTL and Schedule is set.
	TTL time.Duration
	// Schedule says when reports are due. Each must come within Grace.
	Schedule *Schedule
	Grace    time.Duration
	// MaxRun is the time in which a report must follow [Set.Started]; 0 means no limit.
	MaxRun time.Duration
	// Last is what an earlier agent knew of the check, from [CheckStatus.Push]; nil if nothing is known.
	Last *PushState
}

// PushState is what must outlive an agent, so that nothing is forgotten.
type PushState struct {
	Report  time.Time // the last one; zero if there is none
	Started time.Time // the start of a run without a report yet; zero if there is none
}

func (p *Push) check() (problem string) {
	switch {
	case p == nil:
		return ""
	case (p.TTL != 0) == (p.Schedule != nil):
		return "exactly one of TTL and Schedule must be set"
	case p.TTL < 0 || p.Grace < 0 || p.MaxRun < 0:
		return "TTL, Grace and MaxRun must not be negative"
	case p.Schedule == nil && p.Grace != 0:
		return "Grace is only for a Schedule"
	}
	return p.Thresholds.check()
}

// due returns when a report must have come, after the last report or the start; the zero time means never.
func (p *Push) due(from time.Time) time.Time {
	if p.Schedule == nil {
		return from.Add(p.TTL)
	}
	next := p.Schedule.Next(from)
	if next.IsZero() {
		return next
	}
	return next.Add(p.Grace)
}
