package controller

import (
	"strings"
	"unique"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/daeace23/prober/pods/kube/conditions"
	"github.com/daeace23/prober/pods/kube/policy"
)

// pod is what the controller needs of a pod. It is 56 bytes and a name, while a v1.Pod is kilobytes.
//
// The state keeps less: for each pod a key of 24 bytes and a place of 24 in a map that is from 44 to 88 % full, and a
// name of about 48, so from 105 to 160 bytes. Pods with equal labels share a group. Each pair of a group and a node
// costs about 30 bytes more. BenchmarkController measures 190 bytes for each pod, and 105 MiB for 550,000 pods and
// 2,000 policies. The decoded objects of a list come on top, unless the API server streams it, as v1.34 and later do.
type pod struct {
	namespace, node unique.Handle[string]
	labels          unique.Handle[string] // as written by [labels.Set.String]
	name            string
	report          report
	ended           bool
}

// report is what the conditions of a pod say.
type report uint8

// Parts of a report.
const (
	gated report = 1 << iota
	reporting
	healthy
	failing // neither: unknown
)

// trim returns the *pod of a *v1.Pod. It returns any other object unchanged.
func trim(object any) (any, error) {
	p, ok := object.(*v1.Pod)
	if !ok {
		return object, nil
	}
	return &pod{
		namespace: unique.Make(p.Namespace), node: unique.Make(p.Spec.NodeName), labels: unique.Make(labels.Set(p.Labels).String()), name: p.Name,
		report: reportOf(p), ended: p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed,
	}, nil
}

// parseLabels is the inverse of [labels.Set.String]: names and values of labels have no comma and no equals sign.
func parseLabels(text string) map[string]string {
	set := make(map[string]string)
	for pair := range strings.SplitSeq(text, ",") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			set[name] = value
		}
	}
	return set
}

// reportOf judges a pod by its conditions of prober. One that no probe decides says nothing, except for the gate.
func reportOf(p *v1.Pod) (r report) {
	for _, g := range p.Spec.ReadinessGates {
		if g.ConditionType == conditions.Ready {
			r |= gated
		}
	}
	ready, succeeded, unknown := false, false, false
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if !conditions.IsOurs(c.Type) {
			continue
		}
		r |= reporting
		switch {
		case c.Reason == conditions.NotProbed:
		case c.Status == v1.ConditionTrue:
			succeeded = true
			ready = ready || c.Type == conditions.Ready
		case c.Status == v1.ConditionFalse && c.Reason != conditions.AgentLost:
			r |= failing
		default:
			unknown = true
		}
	}
	if succeeded && !unknown && r&failing == 0 && (ready || r&gated == 0) {
		r |= healthy
	}
	return r
}

// add adds n pods with the report to counts.
func (r report) add(counts *policy.Pods, n int) {
	counts.Matched += n
	if r&gated != 0 {
		counts.Gated += n
	}
	if r&reporting != 0 {
		counts.Reporting += n
	}
	switch {
	case r&failing != 0:
		counts.Failing += n
	case r&healthy != 0:
		counts.Healthy += n
	default:
		counts.Unknown += n
	}
}

// sum adds the counts of more to counts.
func sum(counts, more *policy.Pods) {
	counts.Matched += more.Matched
	counts.Gated += more.Gated
	counts.Reporting += more.Reporting
	counts.Healthy += more.Healthy
	counts.Failing += more.Failing
	counts.Unknown += more.Unknown
}
