package agent

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/incidents"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// probe returns the API status of a probe.
func (a *Agent) probe(key manager.Key) (api.ProbeStatus, bool) {
	return a.apiStatusIf(a.manager.Probe(key))
}

// latest returns the API status of a probe, without its history.
func (a *Agent) latest(key manager.Key) (api.ProbeStatus, bool) {
	return a.apiStatusIf(a.manager.Latest(key))
}

func (a *Agent) apiStatusIf(s manager.ProbeStatus, ok bool) (p api.ProbeStatus, _ bool) {
	if ok {
		p = a.apiStatus(&s)
	}
	return p, ok
}

// apiStatus converts s to its API type, with the state of the probe and who has paused it.
func (a *Agent) apiStatus(s *manager.ProbeStatus) api.ProbeStatus {
	state := a.states.Of(string(s.UID), s.Container, s.Kind)
	p := api.ProbeStatus{
		Namespace: s.Namespace, Pod: s.Pod, UID: string(s.UID), Container: s.Container, ContainerID: s.ContainerID, Kind: s.Kind.String(),
		Handler: s.Handler, Target: s.Target, Result: s.Result.Word(), Run: s.Run, OnHold: s.OnHold, Paused: s.Paused, Gate: s.Gate, Next: s.Next,
		Spec:         apiSpec(&s.Spec),
		History:      make([]api.TickStatus, len(s.History)),
		CurrentState: apiState(state),
	}
	if s.Last != nil {
		p.Last = new(apiTick(s.Last))
	}
	for i := range s.History {
		p.History[i] = apiTick(&s.History[i])
	}
	p.Maintenance = a.maintenanceOf(s.Key())
	if s.Paused {
		p.Pause = a.pauses.Of(s.Key())
	}
	if state.Forced == worker.ForcedDown {
		p.Cause = explain.Forced(state.Forced.String(), p.PausedBy, p.PauseReason)
	}
	return p
}

func apiSpec(s *probe.Spec) api.SpecStatus {
	shown := api.SpecStatus{
		InitialDelay: s.InitialDelay.String(), Period: s.Period.String(), Timeout: s.Timeout.String(),
		SuccessThreshold: s.SuccessThreshold, FailureThreshold: s.FailureThreshold, Jitter: s.Jitter,
	}
	if s.UnhealthyPeriod != 0 {
		shown.UnhealthyPeriod = s.UnhealthyPeriod.String()
	}
	if s.Initial != probe.Unknown {
		shown.InitialState = s.Initial.String()
	}
	return shown
}

func apiTick(t *manager.TickStatus) api.TickStatus {
	shown := api.TickStatus{
		Result: t.Result.String(), Output: t.Output, Error: t.Error, Attempts: t.Attempts, Time: t.Time, DurationSeconds: t.Duration.Seconds(),
		Metrics: apiMetrics(t.Metrics),
	}
	if t.Details != "" {
		shown.Details = json.RawMessage(t.Details)
	}
	return shown
}

// apiMetrics converts metrics, without NaN and infinite values, which JSON cannot represent.
func apiMetrics(metrics []probe.Metric) []api.Metric {
	all := make([]api.Metric, 0, len(metrics))
	for _, m := range metrics {
		if !math.IsNaN(m.Value) && !math.IsInf(m.Value, 0) {
			all = append(all, api.Metric(m))
		}
	}
	return all
}

// apiExplanation converts x to its API type.
func (a *Agent) apiExplanation(x *manager.Explanation) api.Explanation {
	p := a.apiStatus(&x.Probe)
	shown := api.Explanation{Probe: p, Summary: x.Summary, Ticks: make([]api.TickExplanation, len(x.Ticks)), Agent: a.troubles()}
	if p.Pause != (api.Pause{}) {
		shown.Summary = explain.Paused(p.Forced, p.Result, p.PausedBy, p.PauseReason, p.PausedUntil, time.Now())
	}
	a.explainChecks(&shown, x.Probe.Key())
	for i := range x.Ticks {
		t := &x.Ticks[i]
		shown.Ticks[i] = api.TickExplanation{
			TickStatus: apiTick(&t.TickStatus), Reason: string(t.Reason), DeferredSeconds: t.Deferred.Seconds(),
			Counted: t.Counted, CountedAs: t.CountedAs, Run: t.Run, RunBefore: t.RunBefore, Threshold: t.Threshold,
			Before: t.Before.Word(), After: t.After.Word(), OnHold: t.OnHold,
			Events: make([]api.TraceEvent, len(t.Events)), DroppedEvents: t.Dropped,
		}
		for k, e := range t.Events {
			shown.Ticks[i].Events[k] = api.TraceEvent{Type: string(e.Type), Name: e.Name, Detail: e.Detail, DurationSeconds: e.Duration.Seconds()}
		}
	}
	return shown
}

// maxPartCause is the maximum length of [api.IncidentPart].Cause in bytes.
const maxPartCause = 200

// apiIncident converts n to its API type, with at most most parts.
func (a *Agent) apiIncident(n *incidents.Incident, most int) api.IncidentStatus {
	shown := api.IncidentStatus{
		ID: n.ID, State: api.IncidentOpen, Cause: n.Cause, Start: n.Start, End: n.End, Failing: n.Failing, Probes: max(n.Peak, len(n.Parts)),
		First: a.apiPart(&n.First), Parts: make([]api.IncidentPart, min(len(n.Parts), most)),
	}
	if !n.End.IsZero() {
		shown.State = api.IncidentEnded
	}
	shown.Maintenance = n.Failing > 0 && n.End.IsZero() && !slices.ContainsFunc(n.Parts, func(p incidents.Part) bool { return p.Until.IsZero() && !a.inMaintenance(&p) })
	for _, note := range a.incidents.Notes(n.ID) {
		shown.Notes = append(shown.Notes, api.IncidentNote(note))
	}
	for i := range shown.Parts {
		shown.Parts[i] = a.apiPart(&n.Parts[i])
	}
	return shown
}

// inMaintenance reports whether a probe that is a part of an incident is in a maintenance window.
func (a *Agent) inMaintenance(p *incidents.Part) bool {
	return a.maintenance.Of(manager.Key{PodUID: types.UID(p.UID), Container: p.Container, Kind: p.Kind}) != nil
}

func (a *Agent) apiPart(p *incidents.Part) api.IncidentPart {
	return api.IncidentPart{
		Namespace: p.Namespace, Pod: p.Pod, Container: p.Container, Kind: p.Kind.String(), Handler: p.Handler, Target: p.Target,
		State: p.State.String(), Since: p.Since, Until: p.Until, Cause: clip.Text(p.Cause.Text, maxPartCause), Dependent: p.Dependent,
		Maintenance: p.Until.IsZero() && a.inMaintenance(p),
	}
}
