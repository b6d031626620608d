package controller

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"
	"time"
	"unique"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/pods/kube/policy"
)

// state has the pods, policies and NodeProbes of the cluster, as the watches show them, and what follows from them.
type state struct {
	changed func() // called after a change

	mu         sync.Mutex
	unlisted   int // resources that were not listed yet
	failing    int // resources that cannot be followed at present
	namespaces map[string]*namespace
	pods       map[podKey]place
	nodes      map[string]*node
	stale      map[*node]struct{}  // must be computed
	waiting    map[*node]struct{}  // whose NodeProbes differs
	touched    map[*entry]struct{} // whose status may differ
}

type podKey struct {
	namespace unique.Handle[string]
	name      string
}

// place is where a pod is counted.
type place struct {
	group  *group
	node   *node // nil if it has none yet
	report report
}

type namespace struct {
	name     string
	policies map[string]*entry
	groups   map[unique.Handle[string]]*group
}

// group has the pods of a namespace with the same labels.
type group struct {
	namespace *namespace
	labels    unique.Handle[string]
	counts    policy.Pods
	nodes     map[*node]int32 // number of its pods
	matched   []*entry        // policies that select them, from the oldest
}

// entry is a policy.
type entry struct {
	policy   policy.NodePolicy
	set      *policy.Set // of this policy alone
	invalid  string      // its errors; "" if it has none
	digest   digest      // of its JSON
	size     int         // of its JSON, in bytes
	probes   map[declared.Name]bool
	groups   map[*group]struct{}
	nodes    map[role]map[*node]struct{} // that need it
	version  string                      // resource version of the object
	observed policy.Status               // as the watch shows it
	removed  bool                        // the policy was deleted; nodes that are stale may still refer to it
	write    write
}

// digest identifies the JSON of a policy.
type digest [16]byte

func newState(changed func()) *state {
	return &state{
		changed: changed, unlisted: 3, namespaces: make(map[string]*namespace), pods: make(map[podKey]place), nodes: make(map[string]*node),
		stale: make(map[*node]struct{}), waiting: make(map[*node]struct{}), touched: make(map[*entry]struct{}),
	}
}

// touch marks a policy whose status may differ.
func (s *state) touch(e *entry) {
	if _, already := s.touched[e]; !already && !e.removed {
		s.touched[e], e.write.since = struct{}{}, time.Now()
	}
}

// namespaceOf returns a namespace, which it adds.
func (s *state) namespaceOf(name string) *namespace {
	ns := s.namespaces[name]
	if ns == nil {
		ns = &namespace{name, make(map[string]*entry), make(map[unique.Handle[string]]*group)}
		s.namespaces[name] = ns
	}
	return ns
}

// drop removes a namespace that is empty.
func (s *state) drop(ns *namespace) {
	if len(ns.policies)+len(ns.groups) == 0 {
		delete(s.namespaces, ns.name)
	}
}

func (s *state) setPod(p *pod) {
	key := podKey{p.namespace, p.name}
	if p.ended {
		s.removePod(key)
		return
	}
	next := place{s.groupOf(p), s.nodeNamed(p.node.Value()), p.report}
	before, known := s.pods[key]
	if known && next == before {
		return
	}
	s.pods[key] = next
	s.count(next, 1)
	if known {
		s.count(before, -1)
	}
}

func (s *state) removePod(key podKey) {
	if before, known := s.pods[key]; known {
		delete(s.pods, key)
		s.count(before, -1)
	}
}

// groupOf returns the group of a pod, which it adds.
func (s *state) groupOf(p *pod) *group {
	ns := s.namespaceOf(p.namespace.Value())
	g := ns.groups[p.labels]
	if g != nil {
		return g
	}
	g = &group{namespace: ns, labels: p.labels, nodes: make(map[*node]int32)}
	ns.groups[p.labels] = g
	for _, e := range ns.policies {
		g.match(e)
	}
	return g
}

// match adds a policy to the group, if it selects its pods.
func (g *group) match(e *entry) {
	if len(e.set.Of(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace.name, Labels: parseLabels(g.labels.Value())}})) > 0 {
		i, _ := slices.BinarySearchFunc(g.matched, e, older)
		g.matched = slices.Insert(g.matched, i, e)
		e.groups[g] = struct{}{}
	}
}

// count adds n pods to a place, and removes a group without pods.
func (s *state) count(p place, n int) {
	g := p.group
	p.report.add(&g.counts, n)
	for _, e := range g.matched {
		s.touch(e)
	}
	if p.node != nil {
		before := g.nodes[p.node]
		switch next := before + int32(n); {
		case next == 0:
			delete(g.nodes, p.node)
			i := slices.Index(p.node.groups, g)
			p.node.groups = slices.Delete(p.node.groups, i, i+1)
			s.stale[p.node] = struct{}{}
		case before == 0:
			p.node.groups = append(p.node.groups, g)
			s.stale[p.node] = struct{}{}
			fallthrough
		default:
			g.nodes[p.node] = next
		}
	}
	if g.counts.Matched == 0 {
		for _, e := range g.matched {
			delete(e.groups, g)
		}
		delete(g.namespace.groups, g.labels)
		s.drop(g.namespace)
	}
}

func (s *state) setPolicy(p *policy.ProbePolicy) {
	ns := s.namespaceOf(p.Namespace)
	e := ns.policies[p.Name]
	if e != nil && e.policy.UID != p.UID { // deleted and created again
		s.removePolicy(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
		ns, e = s.namespaceOf(p.Namespace), nil
	}
	added := e == nil
	if added {
		e = &entry{nodes: make(map[role]map[*node]struct{})}
		ns.policies[p.Name] = e
	}
	e.version, e.observed = p.ResourceVersion, p.Status
	e.write.shown(e.version, statusEvery)
	s.touch(e)
	if !added && e.policy.Generation == p.Generation {
		return
	}
	s.unmatch(e)
	e.compile(p)
	for _, g := range ns.groups {
		g.match(e)
	}
	s.spread(e)
}

// compile sets what follows from the spec of a policy.
func (e *entry) compile(p *policy.ProbePolicy) {
	e.policy = policy.NodePolicy{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Generation: p.Generation, Created: p.CreationTimestamp, Spec: p.Spec}
	one := []policy.NodePolicy{e.policy}
	e.set, e.groups, e.invalid = policy.NewSet(one), make(map[*group]struct{}), ""
	if errs := p.Spec.Check(); len(errs) > 0 {
		e.invalid = clip.Text(errs.ToAggregate().Error(), maxMessage)
	}
	e.digest, e.size = digestOf(&e.policy)
	e.probes = make(map[declared.Name]bool)
	written, _ := policy.Written(one)
	for _, w := range written {
		e.probes[w.Name] = true
	}
}

// digestOf returns the digest of the JSON of a policy, and its size. A policy that has no JSON has the zero digest.
func digestOf(p *policy.NodePolicy) (d digest, size int) {
	text, err := json.Marshal(p)
	if err == nil {
		whole := sha256.Sum256(text)
		copy(d[:], whole[:])
	}
	return d, len(text)
}

// unmatch removes a policy from its groups.
func (s *state) unmatch(e *entry) {
	s.spread(e)
	for g := range e.groups {
		i := slices.Index(g.matched, e)
		g.matched = slices.Delete(g.matched, i, i+1)
	}
	e.groups = nil
}

// spread marks the nodes with pods of a policy, and the other policies of these pods.
func (s *state) spread(e *entry) {
	for g := range e.groups {
		for n := range g.nodes {
			s.stale[n] = struct{}{}
		}
		for _, other := range g.matched {
			s.touch(other)
		}
	}
}

func (s *state) removePolicy(name types.NamespacedName) {
	ns := s.namespaces[name.Namespace]
	if ns == nil || ns.policies[name.Name] == nil {
		return
	}
	e := ns.policies[name.Name]
	s.unmatch(e)
	e.removed = true
	delete(ns.policies, name.Name)
	delete(s.touched, e)
	s.drop(ns)
}
