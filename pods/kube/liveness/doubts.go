package liveness

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/probe"
)

// Scope is a set of pods of a node: a workload, a namespace if Workload is "", or all pods if it is the zero
// value.
type Scope struct {
	Namespace string
	Workload  types.UID // UID of the controller, or else of the pod
}

// String returns the kind of the scope and its namespace.
func (s Scope) String() string {
	switch {
	case s == Scope{}:
		return "node"
	case s.Workload == "":
		return "namespace " + s.Namespace
	}
	return "workload in namespace " + s.Namespace
}

// Party is the workload of a pod, and what depends on the pod's probes. The breaker does not count probes on which
// nothing depends.
type Party struct {
	Scope      // the workload
	Gated bool // the pod's Ready depends on its readiness and startup probes
	Acts  bool // failures of its liveness and startup probes restart or evict
}

// depends reports whether the gate or an action depends on probes of a kind.
func (p Party) depends(on probe.Kind) bool {
	return p.Gated && on != probe.Liveness || p.Acts && on != probe.Readiness
}

// Doubt says why the agent distrusts the probes of a scope.
type Doubt struct {
	Blind string // why results may be wrong; "": they are trusted
	Open  string // why nothing is restarted or evicted, which Blind implies; "": actions are allowed
	All   bool   // the cause is the agent or the node, not failing probes: it applies to every namespace of the scope
	Well  bool   // of a namespace in which few probes fail: doubts about the node do not apply to it, unless All
}

// Doubts has the scopes whose probes the agent distrusts at present. It is read-only.
type Doubts map[Scope]Doubt

// About returns the doubt that applies to the pods of a workload. For Blind and for Open, it is the doubt about the
// node, or else about the namespace, or else about the workload.
func (d Doubts) About(workload Scope) (found Doubt) {
	node, namespace := d[Scope{}], d[Scope{Namespace: workload.Namespace}]
	if namespace.Well && !node.All {
		node = Doubt{}
	}
	for _, doubt := range [...]Doubt{node, namespace, d[workload]} {
		found.Blind, found.Open = cmp.Or(found.Blind, doubt.Blind), cmp.Or(found.Open, doubt.Open)
	}
	return found
}
