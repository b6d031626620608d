package agent

import (
	"errors"
	"iter"
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/endpoints"
	"github.com/daeace23/prober/agent/pauses"
	"github.com/daeace23/prober/agent/push"
	"github.com/daeace23/prober/agent/reply"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics/agentmetrics"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/probe"
)

// newChecks creates the parts for the pushes and endpoints of prober.yaml.
func (a *Agent) newChecks() {
	trigger := func(key manager.Key) error { return a.manager.Trigger(key) }
	a.pushes = push.New(push.Config{StateDir: a.cfg.StateDir, Trigger: trigger, Log: a.log})
	a.endpoints = endpoints.New(endpoints.Config{Trigger: trigger, Of: func(podUID, container string, kind probe.Kind) states.Status {
		return a.states.Of(podUID, container, kind)
	}})
}

// bindCheck implements [pods.Host].BindCheck.
func (a *Agent) bindCheck(handler, name string, podUID types.UID) (probe.Handler, error) {
	if a.offline != nil {
		return unchecked{}, nil
	}
	if handler == pods.PushHandler {
		return a.judge.Wrap(a.pushes.Handler(name, manager.Key{PodUID: podUID, Container: handler, Kind: probe.Readiness})), nil
	}
	return a.judge.Wrap(a.endpoints.Handler(name)), nil
}

// endpointHead has the fields of an [api.EndpointList] before its items.
type endpointHead struct {
	Metadata api.ListMeta `json:"metadata,omitzero"`
}

func (a *Agent) serveEndpoints(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery("endpoints", r.URL.Query(), "namespace", "name", "type", "state")
	if err == nil {
		err = q.oneOf("type", []string{api.TypeEndpoint, api.TypePush})
	}
	if err == nil {
		err = q.oneOf("state", stateWords())
	}
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	items := pager[*api.Endpoint]{query: &q}
	for e := range a.allEndpoints() {
		key := sortKey{e.Namespace, e.Name}
		if q.matches("namespace", e.Namespace) && q.matches("name", e.Name) && q.matches("type", e.Type) && q.matches("state", e.State) && !items.passed(&key) {
			items.add(key, e)
		}
	}
	page, meta := items.page()
	writeList(w, endpointHead{meta}, page, func(e *api.Endpoint) (any, bool) {
		full := *e // has its checks only while it is written
		return &full, a.addChecks(&full)
	})
}

func stateWords() (words []string) {
	for _, s := range states.All() {
		words = append(words, s.String())
	}
	return words
}

// allEndpoints yields all endpoints and pushes, without the rules and the checks of endpoints.
func (a *Agent) allEndpoints() iter.Seq[*api.Endpoint] {
	return func(yield func(*api.Endpoint) bool) {
		for c := range a.endpoints.Configs() {
			now, maintenance := a.stateOfCheck(c.Namespace, c.Name, pods.EndpointHandler)
			e := &api.Endpoint{
				Namespace: c.Namespace, Name: c.Name, Type: api.TypeEndpoint, DependsOn: namesOf(c.DependsOn),
				CurrentState: apiState(now), Forced: pauses.Word(now.Forced), Maintenance: maintenance,
			}
			if !yield(e) {
				return
			}
		}
		for s := range a.pushes.All() {
			now, maintenance := a.stateOfCheck(s.Config.Namespace, s.Config.Name, pods.PushHandler)
			e := &api.Endpoint{
				Namespace: s.Config.Namespace, Name: s.Config.Name, Type: api.TypePush, DependsOn: namesOf(s.Config.DependsOn),
				CurrentState: apiState(now), Forced: pauses.Word(now.Forced), Maintenance: maintenance,
				Push: &api.PushStatus{LastReport: s.Push.Report.UTC(), Started: s.Push.Started.UTC(), Due: s.Next.UTC(), Message: s.Message},
			}
			if !yield(e) {
				return
			}
		}
	}
}

func namesOf(refs []config.Ref) (names []string) {
	for _, r := range refs {
		names = append(names, r.Name)
	}
	return names
}

// addChecks adds the rule and the checks of an endpoint. It returns false if the endpoint was removed.
func (a *Agent) addChecks(e *api.Endpoint) bool {
	if e.Type != api.TypeEndpoint {
		return true
	}
	s, ok := a.endpoints.Status(e.Name)
	e.Rule, e.Missing = endpoints.RuleText(&s.Config), s.Empty
	for i := range s.Members {
		e.Checks = append(e.Checks, apiCheck(&s.Members[i]))
	}
	return ok
}

// explainChecks adds the endpoints of a probe to its explanation.
func (a *Agent) explainChecks(x *api.Explanation, key manager.Key) {
	deciding := a.endpoints.Deciding(key)
	for i := range deciding {
		x.Deciding = append(x.Deciding, apiCheck(&deciding[i]))
	}
	for _, e := range a.endpoints.PartOf(key) {
		x.PartOf = append(x.PartOf, api.EndpointName{Namespace: e.Namespace, Name: e.Name})
	}
}

func apiCheck(m *endpoints.MemberStatus) api.EndpointCheck {
	return api.EndpointCheck{
		Name: m.Name, Namespace: m.Subject.Namespace, Pod: m.Subject.Pod, Container: m.Subject.Container, Kind: m.Kind.String(),
		Weight: m.Weight, Decides: m.Decides, Drained: m.Forced == worker.Drained, CurrentState: apiState(m.Status),
	}
}

// registerChecks registers the metrics of pushes and endpoints.
func (a *Agent) registerChecks() error {
	return errors.Join(agentmetrics.RegisterPushes(a.registry, a.countPushes), agentmetrics.RegisterEndpoints(a.registry, a.countChecks))
}

// countPushes returns the counts of all pushes.
func (a *Agent) countPushes() map[string]agentmetrics.PushCounts {
	all := make(map[string]agentmetrics.PushCounts)
	for s := range a.pushes.All() {
		all[s.Config.Name] = agentmetrics.PushCounts{Reports: make(map[string]uint64), LastReport: s.Push.Report, Started: s.Push.Started}
	}
	for c, n := range a.pushes.Counts() {
		if p, ok := all[c.Name]; ok {
			p.Reports[c.Result] = n
		}
	}
	return all
}

// countChecks yields the numbers of checks of all endpoints.
func (a *Agent) countChecks() iter.Seq[agentmetrics.EndpointCounts] {
	return func(yield func(agentmetrics.EndpointCounts) bool) {
		for c := range a.endpoints.Counts() {
			checks := make(map[string]int, len(c.Checks))
			for state, n := range c.Checks {
				checks[states.State(state).String()] = n
			}
			if !yield(agentmetrics.EndpointCounts{Namespace: c.Namespace, Name: c.Name, Checks: checks}) {
				return
			}
		}
	}
}

// stateOfCheck returns the state and the maintenance of the probe of a push or an endpoint.
func (a *Agent) stateOfCheck(namespace, name, container string) (states.Status, *api.Maintenance) {
	for _, info := range a.selectProbes(name, exactly(namespace, name, container, probe.Readiness.String())) {
		return a.states.Of(info.PodUID, info.Container, info.Kind), a.maintenanceOf(keyOf(&info))
	}
	return states.Status{}, nil
}

func apiState(s states.Status) api.CurrentState {
	return api.CurrentState{State: s.State.String(), StateSince: s.Since, Cause: s.Cause.Text}
}
