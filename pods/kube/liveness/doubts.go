package liveness

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/probe"
)

// Scope is a part of the pods of a node: a workload, a namespace if Workload is "", or all of
// them, which is the zero value.
type Scope struct {
	Namespace string
	Workload  types.UID // of the controller, or else of the pod
}

// String returns the kind of the scope and its name.
func (s Scope) String() string {
	switch {
	case s == Scope{}:
		return "node"
	case s.Workload == "":
		return "namespace " + s.Namespace
	}
	return "workload in namespace " + s.Namespace
}

// Party is whose a pod is, and what depends on its probes. Probes on which nothing depends are observed only, and
// the breaker does not count them.
type Party struct {
	Scope      // the workload
	Gated bool // the pod's Ready depends on its readiness and startup probes
	Acts  bool // failures of its liveness and startup probes restart or evict
}

// depends reports whether something depends on the probes of a kind.
func (p Party) depends(on probe.Kind) bool {
	return p.Gated && on != probe.Liveness || p.Acts && on != probe.Readiness
}

// Doubt is why the agent distrusts probes of a scope.
type Doubt struct {
	Blind string // what the probes say may be wrong; "": it is trusted
	Open  string // why nothing is restarted or evicted, which Blind implies; "": that is allowed
	All   bool   // it concerns whatever is in the scope: its cause is the agent or the node, and not that probes fail
	Well  bool   // of a namespace of which few probes fail: it is not doubted for others
}

// Doubts are the scopes whose probes the agent distrusts at present. It is read-only.
type Doubts map[Scope]Doubt

// About returns the doubt about the pods of a workload: of the node, else of its namespace, else of itself.
func (d Doubts) About(workload Scope) (found Doubt) {
	node, namespace := d[Scope{}], d[Scope{Namespace: workload.Namespace}]
	if namespace.Well && !node.All {
		node = Doubt{}
	}
	for _, of := range [...]Doubt{node, namespace, d[workload]} {
		found.Blind, found.Open = cmp.Or(found.Blind, of.Blind), cmp.Or(found.Open, of.Open)
	}
	return found
}
