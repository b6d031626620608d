package controller

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/pods/kube/policy"
	"github.com/daeace23/prober/probe"
)

// Reasons of the conditions of a policy.
const (
	Valid       = "Valid"
	Invalid     = "Invalid"
	Conflicted  = "Conflicted" // it is valid, and an older policy has a probe for the same container and kind
	Programmed  = "Programmed"
	NodeFull    = "NodeFull" // the policies of a node are too large
	Pending     = "Pending"  // it must be written for a node
	Healthy     = "Healthy"
	ProbeFailed = "ProbeFailed"
	Unknown     = "Unknown"
	NoPods      = "NoPods"
)

// maxMessage is the maximum length of a message in bytes.
const maxMessage = 1 << 10

// maxNamed is the maximum number of names in a message.
const maxNamed = 3

// status returns the status that a policy must have. A condition whose status has not changed keeps its time.
func (e *entry) status() *policy.Status {
	next := &policy.Status{ObservedGeneration: e.policy.Generation, Conditions: slices.Clone(e.observed.Conditions)}
	for g := range e.groups {
		sum(&next.Pods, &g.counts)
	}
	for _, c := range []metav1.Condition{e.accepted(), e.programmed(&next.Pods), e.healthy(&next.Pods)} {
		c.ObservedGeneration, c.Message = e.policy.Generation, clip.Text(c.Message, maxMessage)
		meta.SetStatusCondition(&next.Conditions, c)
	}
	return next
}

// same reports whether two statuses are equal. A condition that has not changed has the same time.
func same(a, b *policy.Status) bool {
	return a.ObservedGeneration == b.ObservedGeneration && a.Pods == b.Pods && reflect.DeepEqual(a.Conditions, b.Conditions)
}

func (e *entry) accepted() metav1.Condition {
	if e.invalid != "" {
		return metav1.Condition{Type: policy.Accepted, Status: metav1.ConditionFalse, Reason: Invalid, Message: e.invalid}
	}
	if replaced := e.replaced(); len(replaced) > 0 {
		return metav1.Condition{
			Type: policy.Accepted, Status: metav1.ConditionTrue, Reason: Conflicted,
			Message: "for some pods, probes of older policies count instead: " + strings.Join(replaced, "; "),
		}
	}
	return metav1.Condition{Type: policy.Accepted, Status: metav1.ConditionTrue, Reason: Valid}
}

// replaced lists the probes for which an older policy has a probe too, for the same container and kind of some pod.
func (e *entry) replaced() (lines []string) {
	by := make(map[declared.Name]*entry)
	asked := make(map[*entry]bool)
	for g := range e.groups {
		for _, o := range g.matched {
			if o == e {
				break // the others are newer
			}
			if asked[o] {
				continue
			}
			asked[o] = true
			for name := range e.probes {
				if o.probes[name] && (by[name] == nil || older(o, by[name]) < 0) {
					by[name] = o
				}
			}
		}
	}
	for name, o := range by {
		lines = append(lines, fmt.Sprintf("%s %s of %s", name.Container, name.Kind, o.policy.Name))
	}
	slices.Sort(lines)
	return lines
}

func (e *entry) programmed(pods *policy.Pods) metav1.Condition {
	c := metav1.Condition{Type: policy.Programmed, Status: metav1.ConditionFalse}
	switch {
	case len(e.nodes[full]) > 0:
		names := slices.SortedFunc(maps.Keys(e.nodes[full]), func(a, b *node) int { return cmp.Compare(a.name, b.name) })
		var listed []string
		for _, n := range names[:min(len(names), maxNamed)] {
			listed = append(listed, n.name)
		}
		if len(names) > maxNamed {
			listed = append(listed, "…")
		}
		c.Reason = NodeFull
		c.Message = fmt.Sprintf("%d nodes have no room for it: the namespaces of a node share %d KiB of policies: %s", len(names), maxNode>>10, strings.Join(listed, ", "))
	case len(e.nodes[pending]) > 0:
		c.Reason, c.Message = Pending, "the agents of some nodes cannot read it yet"
	default:
		c.Status, c.Reason = metav1.ConditionTrue, Programmed
	}
	if missing := pods.Matched - pods.Gated; missing > 0 && e.decidesReady() {
		gate := fmt.Sprintf("%d of %d pods do not have the readiness gate prober.dev/ready: its probes do not decide whether they are ready", missing, pods.Matched)
		c.Message = strings.TrimPrefix(c.Message+"; "+gate, "; ")
	}
	return c
}

// decidesReady reports whether the policy has probes that decide the readiness gate.
func (e *entry) decidesReady() bool {
	for name := range e.probes {
		if name.Kind == probe.Readiness || name.Kind == probe.Startup {
			return true
		}
	}
	return false
}

func (e *entry) healthy(pods *policy.Pods) metav1.Condition {
	c := metav1.Condition{Type: policy.Healthy, Status: metav1.ConditionUnknown}
	switch {
	case pods.Matched == 0:
		c.Reason, c.Message = NoPods, "it selects no pod"
	case pods.Failing > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, ProbeFailed, fmt.Sprintf("a probe of %d of %d pods fails", pods.Failing, pods.Matched)
	case pods.Unknown > 0:
		c.Reason, c.Message = Unknown, fmt.Sprintf("%d of %d pods are unknown", pods.Unknown, pods.Matched)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, Healthy
	}
	return c
}
