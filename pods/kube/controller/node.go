package controller

import (
	"cmp"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/pods/kube/policy"
)

// maxNode is the maximum size of the policies of a node, in bytes of JSON. An object of etcd may have 1.5 MiB.
const maxNode = 512 << 10

// node is a node with pods or with a NodeProbes.
type node struct {
	name   string
	groups []*group // of its pods
	wanted []*entry // policies that its NodeProbes must have, by namespace and name
	roles  map[*entry]role

	// The NodeProbes as the watch shows it.
	uid     types.UID
	version string // resource version; "": there is none
	has     []digest

	write write
}

// role is how far a policy has come on a node that needs it.
type role uint8

const (
	_          role = iota // it is not needed
	programmed             // the NodeProbes has it
	pending                // the NodeProbes must be written
	full                   // it does not fit
)

// nodeNamed returns a node, which it adds; nil for "".
func (s *state) nodeNamed(name string) *node {
	n := s.nodes[name]
	if n == nil && name != "" {
		n = &node{name: name}
		s.nodes[name] = n
	}
	return n
}

// setNodeProbes records the NodeProbes of a node.
func (s *state) setNodeProbes(object *policy.NodeProbes) {
	n := s.nodeNamed(object.Name)
	n.uid, n.version, n.has = object.UID, object.ResourceVersion, make([]digest, len(object.Spec.Policies))
	for i := range object.Spec.Policies {
		n.has[i], _ = digestOf(&object.Spec.Policies[i])
	}
	n.write.shown(n.version, 0)
	s.stale[n] = struct{}{}
}

// removeNodeProbes records that a node has none.
func (s *state) removeNodeProbes(name string) {
	if n := s.nodes[name]; n != nil {
		n.uid, n.version, n.has = "", "", nil
		n.write.shown("", 0)
		s.stale[n] = struct{}{}
	}
}

// settle computes the nodes that are stale.
func (s *state) settle() {
	for n := range s.stale {
		s.compute(n)
	}
	clear(s.stale)
}

// compute computes what a node needs, and whether its NodeProbes differs.
func (s *state) compute(n *node) {
	roles := make(map[*entry]role)
	for _, g := range n.groups {
		for _, e := range g.matched {
			roles[e] = full
		}
	}
	n.wanted = fitting(roles)
	differs := n.differs()
	for _, e := range n.wanted {
		if roles[e] = pending; !differs || slices.Contains(n.has, e.digest) {
			roles[e] = programmed
		}
	}
	for e, before := range n.roles {
		if roles[e] != before {
			delete(e.nodes[before], n)
			s.touch(e)
		}
	}
	for e, next := range roles {
		if n.roles[e] != next {
			if e.nodes[next] == nil {
				e.nodes[next] = make(map[*node]struct{})
			}
			e.nodes[next][n] = struct{}{}
			s.touch(e)
		}
	}
	n.roles = roles
	switch _, already := s.waiting[n]; {
	case !differs:
		delete(s.waiting, n)
		n.write.failures = 0
		if len(n.groups) == 0 && !n.write.busy {
			delete(s.nodes, n.name)
		}
	case !already:
		s.waiting[n], n.write.since = struct{}{}, time.Now()
	}
}

// fitting returns the policies that fit into a NodeProbes, by namespace and name.
func fitting(roles map[*entry]role) (fit []*entry) {
	all := make([]*entry, 0, len(roles))
	size := 0
	for e := range roles {
		all = append(all, e)
		size += e.size + len(",")
	}
	if size > maxNode {
		all = shared(all)
	}
	slices.SortFunc(all, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.policy.Namespace, b.policy.Namespace), cmp.Compare(a.policy.Name, b.policy.Name))
	})
	return all
}

// shared returns the policies that fit if the namespaces share the room of a node: a namespace that needs no more than
// an equal share has it, however much the others ask for. Within a namespace the oldest are the first to fit.
func shared(all []*entry) (fit []*entry) {
	slices.SortFunc(all, older)
	waiting, used := make(map[string][]*entry), make(map[string]int)
	for _, e := range all {
		waiting[e.policy.Namespace] = append(waiting[e.policy.Namespace], e)
	}
	for size := 0; len(waiting) > 0; {
		// The namespace that would have the least with its next policy.
		next := slices.MinFunc(slices.Collect(maps.Keys(waiting)), func(a, b string) int {
			return cmp.Or(cmp.Compare(used[a]+waiting[a][0].size, used[b]+waiting[b][0].size), older(waiting[a][0], waiting[b][0]))
		})
		e := waiting[next][0]
		if waiting[next] = waiting[next][1:]; len(waiting[next]) == 0 {
			delete(waiting, next)
		}
		if room := e.size + len(","); size+room <= maxNode {
			fit, size = append(fit, e), size+room
			used[next] += e.size
		}
	}
	return fit
}

// older orders policies from the oldest.
func older(a, b *entry) int {
	return cmp.Or(policy.Compare(&a.policy, &b.policy), cmp.Compare(a.policy.Namespace, b.policy.Namespace))
}

// differs reports whether the NodeProbes of a node must be written or deleted.
func (n *node) differs() bool {
	if len(n.wanted) == 0 {
		return n.version != ""
	}
	return !slices.EqualFunc(n.wanted, n.has, func(e *entry, d digest) bool { return e.digest == d })
}

// object returns the NodeProbes that the node must have.
func (n *node) object() *policy.NodeProbes {
	next := &policy.NodeProbes{ObjectMeta: metav1.ObjectMeta{Name: n.name, UID: n.uid, ResourceVersion: n.version}}
	for _, e := range n.wanted {
		next.Spec.Policies = append(next.Spec.Policies, e.policy)
	}
	return next
}
