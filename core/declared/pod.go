package declared

import (
	"bytes"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Pod is a pod with its probes. An annotation is parsed and validated once, by [Parse]. Probes that are fields
// of containers are read and validated at each call of [Pod.List]. A Pod is immutable, and safe for concurrent
// use.
type Pod struct {
	pod    *v1.Pod
	list   *List             // nil if all probes are fields of containers, or if make is set
	make   func() Probe      // used instead of list; see [One]
	labels map[string]string // used instead of the pod's; see [Pod.WithLabels]
}

// List has the probes that a pod declares. It is read-only.
type List struct {
	Probes    []Probe // probes that can be started, in the order in which a manager starts them
	Invalid   []Name  // names of probes with an error, and names that may stand in an invalid part of the annotation
	Forbidden []Name  // probes that [Pod.Refuse] has removed
	Errors    []error // an error for each probe that cannot be started

	text []error // the errors of the annotation
}

// Parse parses the probes of pod. typed are additional probes of the caller, which replace probes of the
// pod for the same container and kind. The pod must not be modified afterwards.
func Parse(pod *v1.Pod, typed ...Probe) *Pod {
	if _, annotated := pod.Annotations[Annotation]; !annotated && len(typed) == 0 {
		return &Pod{pod: pod}
	}
	return &Pod{pod: pod, list: declaredBy(pod, typed)}
}

// One returns a Pod with a single probe, which make returns. make is called each time the probe is read,
// and must always return the same. For tens of thousands of pods, this takes less memory than stored
// probes.
func One(pod *v1.Pod, make func() Probe) *Pod {
	return &Pod{pod: pod, make: make}
}

// Pod returns the pod. It is read-only.
func (d *Pod) Pod() *v1.Pod { return d.pod }

// Probes returns the probes that can be started, in the order in which a manager starts them, and the checks
// of a combined probe in its place: each has one handler. So a reader that looks for a handler, a target or a
// secret sees all of them. Each has its path. They are read-only.
func (d *Pod) Probes() []Probe {
	configs := d.List().Probes
	if !slices.ContainsFunc(configs, func(c Probe) bool { return c.Path == nil || c.Combined != nil }) {
		return configs
	}
	all := make([]Probe, 0, len(configs))
	for i := range configs {
		all = append(all, configs[i].checks()...)
	}
	return all
}

// Errors returns an error for each probe that cannot be started. It is a [*field.Error] for an invalid
// probe, an [*Error] for a probe of a caller, and the error of check for a probe that [Pod.Refuse] has
// removed.
func (d *Pod) Errors() []error { return slices.Clone(d.List().Errors) }

// Refuse returns d without the probes for which refusal returns an error. It gets the checks of a combined
// probe, which run together, and any other probe alone. The error is added to the Errors of the result. A
// manager never starts a refused probe, and ends it if it is running. The probe counts as not run yet.
func (d *Pod) Refuse(refusal func(checks []Probe) error) *Pod {
	all := d.List().Probes
	next := *d.List()
	next.Probes, next.Errors = nil, slices.Clone(next.Errors)
	next.Forbidden = slices.Clone(next.Forbidden)
	for i := range all {
		if err := refusal(all[i].checks()); err != nil {
			next.Forbidden, next.Errors = append(next.Forbidden, all[i].Name()), append(next.Errors, err)
			continue
		}
		next.Probes = append(next.Probes, all[i])
	}
	return &Pod{pod: d.pod, list: &next, labels: d.labels}
}

// WithStatus returns d with another status of its pod. The results share the other data.
func (d *Pod) WithStatus(status v1.PodStatus) *Pod {
	pod := *d.pod
	pod.Status = status
	return d.WithPod(&pod)
}

// WithPod returns d with another state of its pod. pod must have the same spec and annotations.
func (d *Pod) WithPod(pod *v1.Pod) *Pod { return &Pod{pod, d.list, d.make, d.labels} }

// WithLabels returns d with labels that a v1.Pod cannot have, such as a URL. They replace the labels of the
// pod for handlers and for all who select probes by their labels. They must not be modified afterwards.
func (d *Pod) WithLabels(labels map[string]string) *Pod { return &Pod{d.pod, d.list, d.make, labels} }

// Labels returns the labels of the pod, or the argument of [Pod.WithLabels]. They are read-only.
func (d *Pod) Labels() map[string]string {
	if d.labels != nil {
		return d.labels
	}
	return d.pod.Labels
}

// Plain reports whether all probes are fields of containers. Then their handlers are built in, and their
// configs have no references to secrets.
func (d *Pod) Plain() bool { return d.list == nil && d.make == nil }

// Same reports whether other has the same probes. It compares neither the pods nor Bind.
func (d *Pod) Same(other *Pod) bool {
	same := func(a, b Probe) bool {
		return a.Name() == b.Name() && a.Handler == b.Handler && bytes.Equal(a.Config, b.Config) && a.Target == b.Target &&
			a.Spec == b.Spec && a.Paused == b.Paused && reflect.DeepEqual(a.TerminationGracePeriodSeconds, b.TerminationGracePeriodSeconds)
	}
	return d.list != nil && d.list == other.list || slices.EqualFunc(d.List().Probes, other.List().Probes, same)
}

// List returns the declared probes. The paths of the probes may be nil; see [Probe.FieldPath].
func (d *Pod) List() *List {
	switch {
	case d.list != nil:
		return d.list
	case d.make != nil:
		return declaredBy(d.pod, []Probe{d.make()})
	}
	return declaredBy(d.pod, nil)
}

// Names returns the names of the probes that can be started.
func (l *List) Names() []Name {
	names := make([]Name, len(l.Probes))
	for i := range l.Probes {
		names[i] = l.Probes[i].Name()
	}
	return names
}
