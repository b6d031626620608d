package endpoints

import (
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/pods/targets"
	"github.com/daeace23/prober/probe"
)

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

// index has probes by the names that a [config.Member] may have.
type index struct {
	groups map[string][]Member // by the name of a group, a push or an endpoint
	pods   map[string][]Member // by NAMESPACE/POD
}

func indexOf(all []*declared.Pod) *index {
	x := &index{groups: make(map[string][]Member), pods: make(map[string][]Member)}
	for _, d := range all {
		p := d.Pod()
		for _, probe := range d.List().Names() {
			m := Member{Subject: results.Subject{Namespace: p.Namespace, Pod: p.Name, PodUID: string(p.UID), Container: probe.Container}, Kind: probe.Kind}
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

// partOf yields the endpoints that a probe is a member of.
func (t *table) partOf(key manager.Key) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		u := t.uses[key]
		for i := 0; u != nil && i < len(u.of) && yield(u.of[i]); i++ {
		}
	}
}
