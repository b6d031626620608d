package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/core/endpoint"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// checks is the handler of a probe that combines several. Each attempt makes one attempt with each of them,
// all at once, and waits for all. Their results become the result of the attempt by an [endpoint.Rule].
// See RATIONALE.md, "Why is a probe that combines checks one handler?"
type checks struct {
	rule   endpoint.Rule
	checks []check
}

// check is one check of a combined probe. It is bound as the handler of a probe is.
type check struct {
	name    string
	handler probe.Handler
	of      string // name of the handler
	target  probe.Target
	weight  int
}

var (
	_ probe.Releaser  = (*checks)(nil)
	_ probe.Inheritor = (*checks)(nil)
	_ probe.Describer = (*checks)(nil)
)

// bindChecks binds the handlers of all checks of a combined probe. r has their resolved configs.
func (m *Manager) bindChecks(c ProbeConfig, r resolved) (bound, error) {
	h := &checks{rule: endpoint.Rule{Mode: endpoint.AtLeast, Min: c.Combined.Needed}}
	for i, one := range c.Combined.Checks {
		b, err := m.bind(one, r.checks[i])
		if err != nil {
			m.release(h)
			return bound{}, err
		}
		h.checks = append(h.checks, check{one.Check, b.handler, one.Handler, one.Target, c.Combined.Weights[i]})
	}
	return bound{handler: h, mark: r.mark}, nil
}

// answer is the result of the attempt of one check.
type answer struct {
	outcome probe.Outcome
	err     error
	took    time.Duration

	mu     sync.Mutex
	ended  bool // a later event is dropped, as of a goroutine that the handler left behind
	events []probe.TraceEvent
}

// maxCheckEvents limits the trace of one check. The worker limits the trace of all.
const maxCheckEvents = 64

// Probe implements [probe.Handler].
func (h *checks) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	answers := make([]answer, len(h.checks))
	var wg sync.WaitGroup
	for i := range h.checks {
		answers[i].err = probe.ErrGoexit // in case the attempt does not return
		wg.Go(func() { answers[i].attempt(ctx, &h.checks[i], req) })
	}
	wg.Wait()
	if req.Trace != nil {
		for i := range answers {
			answers[i].emit(&req, h.checks[i].name)
		}
	}
	return h.decide(answers)
}

// attempt makes the attempt of c. A tracer is called in one goroutine only, so it keeps the events.
func (a *answer) attempt(ctx context.Context, c *check, req probe.Request) {
	req.Target = c.targetOf(&req)
	if req.Trace != nil {
		req.Trace = a.trace
	}
	start := time.Now()
	a.outcome, a.err = worker.Attempt(ctx, c.handler, req)
	a.took = time.Since(start)
}

func (a *answer) trace(e probe.TraceEvent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended && len(a.events) < maxCheckEvents {
		a.events = append(a.events, e)
	}
}

// end returns the events of the attempt. No event is added afterwards.
func (a *answer) end() []probe.TraceEvent {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	return a.events
}

// targetOf returns the target of c. Like the target of a probe, it is the pod unless it has a host or a socket.
func (c *check) targetOf(req *probe.Request) probe.Target {
	t := c.target
	if t.Host == "" && t.Unix == "" {
		t.Host = req.Target.Host
	}
	return t
}

// emit adds the events of a check to the trace of the probe.
func (a *answer) emit(req *probe.Request, name string) {
	state, text := a.state()
	e := probe.TraceEvent{Type: probe.TraceCall, Name: name, Duration: a.took}
	if req.Debug || state != states.Success {
		e.Detail = strings.TrimSuffix(state.String()+": "+explain.OneLine(text), ": ")
	}
	req.Trace(e)
	for _, e := range a.end() {
		if e.Type == probe.TraceLog { // its name is a level
			e.Detail = name + ": " + e.Detail
		} else {
			e.Name = name + ": " + e.Name
		}
		req.Trace(e)
	}
}

var stateOfResult = [...]states.State{
	probe.Unknown: states.Unknown, probe.Success: states.Success, probe.Warning: states.Warning, probe.Failure: states.Failure,
}

// state returns the state of the check, and the text of its attempt. A check without a verdict is unknown.
func (a *answer) state() (states.State, string) {
	switch {
	case a.err != nil:
		return states.Unknown, a.err.Error()
	case int(a.outcome.Result) < len(stateOfResult):
		return stateOfResult[a.outcome.Result], a.outcome.Output
	default:
		return states.Failure, a.outcome.Output // as of a probe with such a result
	}
}

// decide returns the result of the probe. If it depends on checks that ended in errors, it is the error of one
// of them; see errorOf.
func (h *checks) decide(answers []answer) (probe.Outcome, error) {
	parts := make([]endpoint.Part, len(answers))
	passed := 0
	for i := range parts {
		state, text := answers[i].state()
		parts[i] = endpoint.Part{Name: h.checks[i].name, State: state, Text: explain.OneLine(text), Weight: h.checks[i].weight}
		if state == states.Success || state == states.Warning {
			passed++
		}
	}
	d := h.rule.Decide(parts)
	if err := errorOf(answers); d.State == states.Unknown && err != nil {
		return probe.Outcome{}, &checksError{d.Reason, err}
	}
	o := probe.Outcome{Output: d.Reason, Metrics: h.metrics(answers), Details: h.details(answers)}
	for r, state := range stateOfResult {
		if state == d.State {
			o.Result = probe.Result(r)
		}
	}
	if d.State == states.Success {
		o.Output = successText(parts, passed)
	}
	for i := range parts {
		if parts[i].State == d.State {
			o.Reason = cmp.Or(o.Reason, answers[i].outcome.Reason)
		}
	}
	return o, nil
}

// successText returns the output of a success: how many checks passed, and the texts of the others.
func successText(parts []endpoint.Part, passed int) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d of %d checks succeed", passed, len(parts))
	for i := range parts {
		if p := &parts[i]; p.State == states.Failure || p.State == states.Unknown {
			fmt.Fprintf(&text, "; %s is %v: %s", p.Name, p.State, p.Text)
		}
	}
	return probe.Cut(text.String())
}

// checksError is the error of a combined probe. It has the reason and the kind of the error of one check.
type checksError struct {
	text  string
	check error
}

// Error implements error.
func (e *checksError) Error() string { return e.text }

// Unwrap returns the error of the check.
func (e *checksError) Unwrap() error { return e.check }

// errorOf returns the first error of a check; nil if there is none. An error that never counts as a failure goes
// first, because the probe did not fail for certain.
func errorOf(answers []answer) (first error) {
	for i := range answers {
		err := answers[i].err
		if err != nil && (first == nil || neverCounts(err) && !neverCounts(first)) {
			first = err
		}
	}
	return first
}

// neverCounts reports whether err is no failure even with [probe.CountAsFailure].
func neverCounts(err error) bool {
	return probe.IsHostTrouble(err) || probe.ReasonOf(err) == probe.ReasonDependency || errors.Is(err, probe.ErrNoSlot)
}

// metrics returns the metrics of all checks. Each has the name of its check as the label "check".
func (h *checks) metrics(answers []answer) (all []probe.Metric) {
	for i := range answers {
		for _, m := range answers[i].outcome.Metrics {
			labels := maps.Clone(m.Labels)
			if labels == nil {
				labels = make(map[string]string, 1)
			}
			labels["check"] = h.checks[i].name
			m.Labels = labels
			all = append(all, m)
		}
	}
	return all
}

// details returns an object with the details of each check that has some, as the worker limits them.
func (h *checks) details(answers []answer) string {
	all := make(map[string]json.RawMessage)
	for i := range answers {
		if d := answers[i].outcome.Details; d != "" {
			all[h.checks[i].name] = json.RawMessage(d)
		}
	}
	if len(all) == 0 {
		return ""
	}
	text, _ := json.Marshal(all) // they are valid: the worker drops others
	return string(text)
}

// Release implements [probe.Releaser]. It releases all checks, even if one panics.
func (h *checks) Release() {
	for i := range h.checks {
		defer probe.Release(h.checks[i].handler)
	}
}

// Inherit implements [probe.Inheritor]: a check inherits from the check with its name and handler.
func (h *checks) Inherit(from probe.Handler) {
	old, ok := from.(*checks)
	if !ok {
		return
	}
	for i := range h.checks {
		for k := range old.checks {
			if c, was := &h.checks[i], &old.checks[k]; c.name == was.name && c.of == was.of {
				probe.Inherit(c.handler, was.handler)
			}
		}
	}
}

// Describe implements [probe.Describer].
func (h *checks) Describe(_ string, req *probe.Request) string {
	total := 0
	texts := make([]string, len(h.checks))
	for i := range h.checks {
		c, own := &h.checks[i], *req
		own.Target = c.targetOf(req)
		texts[i] = c.name + " (" + probe.Describe(c.handler, c.of, &own) + ")"
		total += c.weight
	}
	list := strings.Join(texts, ", ")
	switch {
	case len(texts) == 1:
		return list
	case h.rule.Min == total:
		return "all of " + list
	case h.rule.Min == 1:
		return "any of " + list
	case total == len(texts):
		return fmt.Sprintf("%d of %s", h.rule.Min, list)
	default:
		return fmt.Sprintf("weight %d of %s", h.rule.Min, list)
	}
}
