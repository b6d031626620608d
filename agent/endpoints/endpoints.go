// Package endpoints combines the states of several probes into the state of one thing: the endpoints of
// prober.yaml. An endpoint is a probe too. Its handler answers with the combined state, and the probe is
// triggered when one of its members changes.
//
// endpoints.go has the endpoints and their handler. members.go finds their members, status.go combines the
// states of the members, and explain.go names the members that decide.
package endpoints

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/endpoint"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/probe"
)

// Config configures [Endpoints]. All fields are required.
type Config struct {
	Of      func(podUID, container string, kind probe.Kind) states.Status // returns the state of a probe
	Trigger func(manager.Key) error                                       // requests an attempt of a probe; it must not block
}

// Endpoints has the endpoints and their members. It is safe for concurrent use.
type Endpoints struct {
	cfg   Config
	table atomic.Pointer[table]

	mu   sync.Mutex // held while table is made
	defs []config.Endpoint
	pods []*declared.Pod
}

// New returns Endpoints without endpoints.
func New(cfg Config) *Endpoints {
	e := &Endpoints{cfg: cfg}
	e.table.Store(new(table))
	return e
}

// Set replaces the endpoints.
func (e *Endpoints) Set(defs []config.Endpoint) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.defs = defs
	e.resolveLocked()
}

// Apply finds the members of all endpoints among pods, which are all pods of the agent. It requests an attempt
// of each endpoint.
func (e *Endpoints) Apply(pods []*declared.Pod) {
	e.setPods(pods)
	for key := range e.table.Load().owners {
		_ = e.cfg.Trigger(key) // an error means that the probe does not exist
	}
}

func (e *Endpoints) setPods(pods []*declared.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pods = pods
	e.resolveLocked()
}

// resolveLocked makes the table.
func (e *Endpoints) resolveLocked() {
	t := &table{endpoints: make(map[string]*entry, len(e.defs)), owners: make(map[manager.Key]*entry), uses: make(map[manager.Key]*use)}
	if len(e.defs) > 0 {
		index := indexOf(e.pods)
		for i := range e.defs {
			t.add(index.resolve(&e.defs[i]), index.groups[e.defs[i].Name])
		}
	}
	e.table.Store(t)
}

// Changed implements [states.Reader]. It triggers the probes of the endpoints with this member.
func (e *Endpoints) Changed(c *states.Change) {
	key := manager.Key{PodUID: types.UID(c.Info.PodUID), Container: c.Info.Container, Kind: c.Info.Kind}
	for x := range e.table.Load().partOf(key) {
		for _, own := range x.own {
			_ = e.cfg.Trigger(own) // an error means that the probe has ended
		}
	}
}

// ErrUnknown is the error for the name of an endpoint that does not exist.
var ErrUnknown = errors.New("there is no such endpoint in prober.yaml")

// Handler returns the handler of the probe of an endpoint.
func (e *Endpoints) Handler(name string) probe.Handler { return &handler{e, name} }

// handler answers with the combined state of an endpoint.
type handler struct {
	endpoints *Endpoints
	name      string
}

var _ probe.Describer = (*handler)(nil)

// Describe implements [probe.Describer].
func (h *handler) Describe(string, *probe.Request) string {
	x := h.endpoints.table.Load().endpoints[h.name]
	if x == nil {
		return ""
	}
	return RuleText(&x.def)
}

// RuleText describes the rule of an endpoint with the names of its members, such as "all of web, db".
func RuleText(e *config.Endpoint) string {
	names := make([]string, len(e.Members))
	for i, m := range e.Members {
		names[i] = m.Name
		if m.Weight > 1 {
			names[i] += fmt.Sprintf(" (weight %d)", m.Weight)
		}
	}
	list := strings.Join(names, ", ")
	switch e.Rule.Mode {
	case endpoint.Any:
		return "any of " + list
	case endpoint.AtLeast:
		return fmt.Sprintf("at least %d of %s", e.Rule.Min, list)
	default:
		return "all of " + list
	}
}

// Probe implements [probe.Handler].
func (h *handler) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	x := h.endpoints.table.Load().endpoints[h.name]
	if x == nil {
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonUndecided, Err: ErrUnknown}
	}
	d := x.decide(func(i int) states.Status { return h.endpoints.of(&x.members[i]) })
	switch d.State {
	case states.Success:
		return probe.Outcome{Result: probe.Success}, nil
	case states.Warning:
		return probe.Outcome{Result: probe.Warning, Output: d.Reason}, nil
	case states.Failure:
		return probe.Outcome{Result: probe.Failure, Output: d.Reason}, nil
	default:
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonUndecided, Err: errors.New(d.Reason)}
	}
}
