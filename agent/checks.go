package agent

import (
	"net/http"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/endpoints"
	"github.com/daeace23/prober/agent/push"
	"github.com/daeace23/prober/agent/reply"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/states"
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
func (a *Agent) bindCheck(handler, name string) (probe.Handler, error) {
	if a.offline != nil {
		return unchecked{}, nil
	}
	if handler == pods.PushHandler {
		return a.judge.Wrap(a.pushes.Handler(name)), nil
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
	for _, e := range a.listEndpoints() {
		key := sortKey{e.Namespace, e.Name}
		if q.matches("namespace", e.Namespace) && q.matches("name", e.Name) && q.matches("type", e.Type) && q.matches("state", e.State) && !items.passed(&key) {
			items.add(key, &e)
		}
	}
	page, meta := items.page()
	writeList(w, endpointHead{meta}, page, func(e *api.Endpoint) (any, bool) { return e, true })
}

func stateWords() (words []string) {
	for _, s := range states.All() {
		words = append(words, s.String())
	}
	return words
}

// listEndpoints returns all endpoints and pushes.
func (a *Agent) listEndpoints() (all []api.Endpoint) {
	for s := range a.endpoints.All() {
		e := api.Endpoint{
			Namespace: s.Config.Namespace, Name: s.Config.Name, Type: api.TypeEndpoint, Rule: endpoints.RuleText(&s.Config), Missing: s.Empty,
			CurrentState: a.stateOfCheck(s.Config.Namespace, s.Config.Name, pods.EndpointHandler),
		}
		for i := range s.Members {
			m := &s.Members[i]
			e.Checks = append(e.Checks, api.EndpointCheck{
				Name: m.Name, Namespace: m.Subject.Namespace, Pod: m.Subject.Pod, Container: m.Subject.Container, Kind: m.Kind.String(),
				Weight: m.Weight, Decides: m.Decides, CurrentState: apiState(m.Status),
			})
		}
		for _, d := range s.Config.DependsOn {
			e.DependsOn = append(e.DependsOn, d.Name)
		}
		all = append(all, e)
	}
	for s := range a.pushes.All() {
		e := api.Endpoint{
			Namespace: s.Config.Namespace, Name: s.Config.Name, Type: api.TypePush,
			CurrentState: a.stateOfCheck(s.Config.Namespace, s.Config.Name, pods.PushHandler),
			Push:         &api.PushStatus{LastReport: s.Push.Report.UTC(), Started: s.Push.Started.UTC(), Due: s.Next.UTC(), Message: s.Message},
		}
		for _, d := range s.Config.DependsOn {
			e.DependsOn = append(e.DependsOn, d.Name)
		}
		all = append(all, e)
	}
	return all
}

// stateOfCheck returns the state of the probe of a push or an endpoint.
func (a *Agent) stateOfCheck(namespace, name, container string) api.CurrentState {
	for _, info := range a.selectProbes(name, exactly(namespace, name, container, probe.Readiness.String())) {
		return apiState(a.states.Of(info.PodUID, info.Container, info.Kind))
	}
	return apiState(states.Status{})
}

func apiState(s states.Status) api.CurrentState {
	return api.CurrentState{State: s.State.String(), StateSince: s.Since, Cause: s.Cause.Text}
}
