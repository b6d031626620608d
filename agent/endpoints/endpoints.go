// Package endpoints combines the states of several probes into the state of one thing: the endpoints of
// prober.yaml. An endpoint is a probe too. Its handler answers with the combined state, and the probe is
// triggered when one of its members changes.
package endpoints

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/endpoint"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/pods/targets"
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

// table has the members of all endpoints. It is read-only.
type table struct {
	order     []string
	endpoints map[string]*entry
	owners    map[manager.Key]*entry // endpoints by their own probes
	uses      map[manager.Key]*use
	members   []*Member // each probe that is a member, once
}

// use has the endpoints that a probe is a member of.
type use struct {
	at int // index in table.members
	of []*entry
}

// add adds an endpoint with its own probes.
func (t *table) add(x *entry, own []Member) {
	t.order, t.endpoints[x.def.Name] = append(t.order, x.def.Name), x
	for i := range own {
		k := own[i].key()
		x.own, t.owners[k] = append(x.own, k), x
	}
	for i := range x.members {
		m := &x.members[i]
		u := t.uses[m.key()]
		if u == nil {
			u = &use{at: len(t.members)}
			t.uses[m.key()], t.members = u, append(t.members, m)
		}
		m.at = u.at
		if n := len(u.of); n == 0 || u.of[n-1] != x { // two members may name it
			u.of = append(u.of, x)
		}
	}
}

// entry is an endpoint with its members.
type entry struct {
	def     config.Endpoint
	own     []manager.Key // probes of the endpoint
	members []Member
	empty   []string // names of members without a probe
}

// Member is a probe that is a check of an endpoint.
type Member struct {
	Subject results.Subject
	Kind    probe.Kind
	Name    string // within the endpoint
	Weight  int

	at int // index in table.members
}

func (m *Member) key() manager.Key {
	return manager.Key{PodUID: types.UID(m.Subject.PodUID), Container: m.Subject.Container, Kind: m.Kind}
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

// Apply finds the members of all endpoints among pods, which are all pods of the agent.
func (e *Endpoints) Apply(pods []*declared.Pod) {
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

// index has probes by the names that a [config.Member] may have.
type index struct {
	groups map[string][]Member // by the name of a group, a push or an endpoint
	pods   map[string][]Member // by NAMESPACE/POD
}

func indexOf(all []*declared.Pod) *index {
	x := &index{groups: make(map[string][]Member), pods: make(map[string][]Member)}
	for _, d := range all {
		p := d.Pod()
		for _, c := range d.Probes() {
			m := Member{Subject: results.Subject{Namespace: p.Namespace, Pod: p.Name, PodUID: string(p.UID), Container: c.Container}, Kind: c.Kind}
			name := p.Namespace + "/" + p.Name
			x.pods[name] = append(x.pods[name], m)
			if group := p.Labels[targets.GroupLabel]; group != "" {
				x.groups[group] = append(x.groups[group], m)
			}
		}
	}
	return x
}

// resolve returns an endpoint with its members. A member of one probe has the name of the member, and of
// several probes the names of their pods.
func (x *index) resolve(def *config.Endpoint) *entry {
	e := &entry{def: *def}
	for _, m := range def.Members {
		found := x.find(m.Name)
		if len(found) == 0 {
			e.empty = append(e.empty, m.Name)
		}
		for _, f := range found {
			f.Name, f.Weight = m.Name, m.Weight
			if len(found) > 1 {
				f.Name = f.Subject.Pod
				if m.IsPod() {
					f.Name = m.Name + "/" + f.Subject.Container + "/" + f.Kind.String()
				}
			}
			e.members = append(e.members, f)
		}
	}
	return e
}

func (x *index) find(name string) []Member {
	parts := strings.Split(name, "/")
	if len(parts) < 2 {
		return x.groups[name]
	}
	all := x.pods[parts[0]+"/"+parts[1]]
	if len(parts) == 2 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(m Member) bool {
		return m.Subject.Container != parts[2] || m.Kind.String() != parts[3]
	})
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

// partOf yields the endpoints that a probe is a member of.
func (t *table) partOf(key manager.Key) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		u := t.uses[key]
		for i := 0; u != nil && i < len(u.of) && yield(u.of[i]); i++ {
		}
	}
}

// Status is an endpoint with the states of its members.
type Status struct {
	Config   config.Endpoint
	Members  []MemberStatus
	Empty    []string // names of members without a probe
	Decision endpoint.Decision
}

// MemberStatus is a member with its state.
type MemberStatus struct {
	Member
	states.Status
	Decides bool // the state of the endpoint
}

// Status returns an endpoint; false if there is none.
func (e *Endpoints) Status(name string) (Status, bool) {
	x := e.table.Load().endpoints[name]
	if x == nil {
		return Status{}, false
	}
	return e.status(x), true
}

func (e *Endpoints) status(x *entry) Status {
	s := Status{Config: x.def, Empty: x.empty, Members: make([]MemberStatus, len(x.members))}
	for i := range x.members {
		m := &x.members[i]
		s.Members[i] = MemberStatus{Member: *m, Status: e.cfg.Of(m.Subject.PodUID, m.Subject.Container, m.Kind)}
	}
	s.Decision = s.decide()
	for i := range s.Members {
		m := &s.Members[i]
		m.Decides = m.State != states.Success && m.State == s.Decision.State // as [endpoint.Rule.Decide] has it
	}
	return s
}

// noProbe is the cause of a member without a probe.
const noProbe = "there is no such probe"

// Configs yields all endpoints, in the order of prober.yaml. The caller must not change them.
func (e *Endpoints) Configs() iter.Seq[*config.Endpoint] {
	return func(yield func(*config.Endpoint) bool) {
		t := e.table.Load()
		for _, name := range t.order {
			if !yield(&t.endpoints[name].def) {
				return
			}
		}
	}
}

// Count is the number of checks of an endpoint by state. A check without a probe is unknown.
type Count struct {
	Namespace, Name string
	Checks          [states.Failure + 1]int // by state
}

// Counts yields the numbers of checks of all endpoints, in the order of prober.yaml. It looks up the state of
// each probe once.
func (e *Endpoints) Counts() iter.Seq[Count] {
	return func(yield func(Count) bool) {
		t := e.table.Load()
		now := make([]states.State, len(t.members))
		for i, m := range t.members {
			now[i] = e.cfg.Of(m.Subject.PodUID, m.Subject.Container, m.Kind).State
		}
		for _, name := range t.order {
			x := t.endpoints[name]
			c := Count{Namespace: x.def.Namespace, Name: name}
			c.Checks[states.Unknown] = len(x.empty)
			for i := range x.members {
				c.Checks[now[x.members[i].at]]++
			}
			if !yield(c) {
				return
			}
		}
	}
}

// decide combines the states of the members. A member without a probe is unknown.
func (s *Status) decide() endpoint.Decision {
	parts := make([]endpoint.Part, 0, len(s.Members)+len(s.Empty))
	for i := range s.Members {
		m := &s.Members[i]
		parts = append(parts, endpoint.Part{Name: m.Name, State: m.State, Text: m.Cause.Text, Weight: m.Weight})
	}
	for _, name := range s.Empty {
		parts = append(parts, endpoint.Part{Name: name, Text: noProbe, Weight: 1})
	}
	return s.Config.Rule.Decide(parts)
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
	s, ok := h.endpoints.Status(h.name)
	if !ok {
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonUndecided, Err: ErrUnknown}
	}
	d := &s.Decision
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
