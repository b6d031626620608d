package policy

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/core/declared"
)

// Set selects the policies of pods. It is read-only. The zero value selects none.
type Set struct{ byNamespace map[string][]selected }

type selected struct {
	NodePolicy
	selector labels.Selector
}

// NewSet returns a set of policies. A policy whose selector is invalid selects no pod.
func NewSet(policies []NodePolicy) *Set {
	s := &Set{make(map[string][]selected)}
	for _, p := range policies {
		selector, err := metav1.LabelSelectorAsSelector(&p.Selector)
		if err != nil {
			continue
		}
		s.byNamespace[p.Namespace] = append(s.byNamespace[p.Namespace], selected{p, selector})
	}
	for _, all := range s.byNamespace {
		slices.SortFunc(all, func(a, b selected) int { return Compare(&a.NodePolicy, &b.NodePolicy) })
	}
	return s
}

// Compare orders the policies of a namespace from the oldest to the newest.
func Compare(a, b *NodePolicy) int {
	return cmp.Or(a.Created.Compare(b.Created.Time), cmp.Compare(a.Name, b.Name))
}

// Of returns the policies that select a pod, from the oldest to the newest.
func (s *Set) Of(pod *v1.Pod) (policies []NodePolicy) {
	for _, p := range s.byNamespace[pod.Namespace] {
		if p.selector.Matches(labels.Set(pod.Labels)) {
			policies = append(policies, p.NodePolicy)
		}
	}
	return policies
}

// Namespaces returns the namespaces whose policies differ between s and other.
func (s *Set) Namespaces(other *Set) (differ []string) {
	same := func(a, b selected) bool { return a.UID == b.UID && a.Generation == b.Generation }
	for name, all := range s.byNamespace {
		if !slices.EqualFunc(all, other.byNamespace[name], same) {
			differ = append(differ, name)
		}
	}
	for name := range other.byNamespace {
		if _, both := s.byNamespace[name]; !both {
			differ = append(differ, name)
		}
	}
	return differ
}

// Mode is the liveness mode of a policy.
type Mode struct {
	Name string // "" for none
	Path *field.Path
}

// Written returns the probes of policies for [declared.ParseWith], and their liveness mode. Of two probes for one
// container and kind, and of two modes, the first counts. A path begins with the name of the policy.
func Written(policies []NodePolicy) (probes []declared.Written, mode Mode) {
	for i := range policies {
		p := &policies[i]
		root := field.NewPath("ProbePolicy " + p.Name + ": spec")
		if mode.Name == "" {
			mode = Mode{p.Liveness, root.Child("liveness")}
		}
		for j := range p.Probes {
			if _, known := kinds[p.Probes[j].Kind]; known {
				probes = append(probes, p.Probes[j].written(root))
			}
		}
	}
	return probes, mode
}
