package policy

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// GroupVersion is the API of the types of this package.
var GroupVersion = schema.GroupVersion{Group: "prober.dev", Version: "v1alpha1"}

// Names of the resources in the API.
const (
	PoliciesResource   = "probepolicies"
	NodeProbesResource = "nodeprobes"
)

// ProbePolicy declares probes of the pods in its namespace that its selector selects.
type ProbePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
}

// Spec is what the owner of a policy writes.
type Spec struct {
	// Selector selects pods of the namespace. It never changes.
	Selector metav1.LabelSelector `json:"selector"`
	Probes   []Probe              `json:"probes"`
	// Liveness says what follows a failed liveness or startup probe: a value of the annotation prober.dev/liveness.
	// "" leaves it to the annotation, whose default is observe.
	Liveness string `json:"liveness,omitempty"`
}

// Status is what the controller writes.
type Status struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Pods               Pods               `json:"pods"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// Pods counts the pods that a policy selects and that have not ended.
type Pods struct {
	Matched   int `json:"matched"`   // all of them
	Gated     int `json:"gated"`     // with the readiness gate prober.dev/ready
	Reporting int `json:"reporting"` // of which an agent has written a condition
	Healthy   int `json:"healthy"`   // whose conditions are true
	Failing   int `json:"failing"`   // with a condition that is false because of a probe
	Unknown   int `json:"unknown"`   // all others: no probe has decided, the agent is lost, or it refuses the probes
}

// Types of the conditions of a policy.
const (
	Accepted   = "Accepted"   // its probes are valid
	Programmed = "Programmed" // the agents of all nodes with matched pods can read them
	Healthy    = "Healthy"    // all matched pods are healthy
)

// NodeProbes has the policies that the pods of a node need. Its name is the name of the node.
type NodeProbes struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              NodeSpec `json:"spec"`
}

// NodeSpec has the policies of a node.
type NodeSpec struct {
	Policies []NodePolicy `json:"policies,omitempty"`
}

// NodePolicy is a policy as the agent of a node needs it.
type NodePolicy struct {
	Namespace  string      `json:"namespace"`
	Name       string      `json:"name"`
	UID        types.UID   `json:"uid"`
	Generation int64       `json:"generation"`
	Created    metav1.Time `json:"created"` // of two policies for one probe, the older counts
	Spec       `json:",inline"`
}

// ProbePolicyList is a list of policies.
type ProbePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []ProbePolicy `json:"items"`
}

// NodeProbesList is a list of the policies of nodes.
type NodeProbesList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []NodeProbes `json:"items"`
}

// AddToScheme adds the types to a scheme.
func AddToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(GroupVersion, &ProbePolicy{}, &ProbePolicyList{}, &NodeProbes{}, &NodeProbesList{})
	metav1.AddToGroupVersion(s, GroupVersion)
}

// DeepCopyObject implements [runtime.Object].
func (p *ProbePolicy) DeepCopyObject() runtime.Object {
	c := *p
	c.ObjectMeta, c.Spec = *p.ObjectMeta.DeepCopy(), p.Spec.deepCopy()
	c.Status.Conditions = slices.Clone(p.Status.Conditions)
	return &c
}

// DeepCopyObject implements [runtime.Object].
func (l *ProbePolicyList) DeepCopyObject() runtime.Object {
	c := *l
	c.ListMeta, c.Items = *l.ListMeta.DeepCopy(), copied[ProbePolicy](l.Items)
	return &c
}

// DeepCopyObject implements [runtime.Object].
func (n *NodeProbes) DeepCopyObject() runtime.Object {
	c := *n
	c.ObjectMeta, c.Spec.Policies = *n.ObjectMeta.DeepCopy(), slices.Clone(n.Spec.Policies)
	for i := range c.Spec.Policies {
		c.Spec.Policies[i].Spec = c.Spec.Policies[i].deepCopy()
	}
	return &c
}

// DeepCopyObject implements [runtime.Object].
func (l *NodeProbesList) DeepCopyObject() runtime.Object {
	c := *l
	c.ListMeta, c.Items = *l.ListMeta.DeepCopy(), copied[NodeProbes](l.Items)
	return &c
}

func copied[T any, P interface {
	*T
	runtime.Object
}](items []T) []T {
	next := slices.Clone(items)
	for i := range items {
		next[i] = *P(&items[i]).DeepCopyObject().(P)
	}
	return next
}

// deepCopy copies s except for the texts of probes, which nobody changes.
func (s *Spec) deepCopy() Spec {
	return Spec{*s.Selector.DeepCopy(), slices.Clone(s.Probes), s.Liveness}
}
