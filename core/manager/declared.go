package manager

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Declared are the probes of a pod, parsed once and checked. It is immutable, and safe for concurrent use.
type Declared struct {
	pod  *v1.Pod
	list *list // nil for a pod whose probes are all fields of its containers: they need no parsing
}

// list is the content of a [Declared]. It is read-only.
type list struct {
	configs   []ProbeConfig // those that can be started, in the order in which AddPod starts them
	invalid   []probeName   // that have an error, or may be declared by an invalid annotation
	forbidden []probeName   // that [Declared.Refuse] took out
	errs      []error
}

// Declare parses the probes of pod. typed are as in [Manager.AddPod]. The pod must not be modified later.
func Declare(pod *v1.Pod, typed ...ProbeConfig) *Declared {
	if _, annotated := pod.Annotations[Annotation]; !annotated && len(typed) == 0 {
		return &Declared{pod: pod}
	}
	return &Declared{pod, declaredBy(pod, typed)}
}

// Pod returns the pod. It is read-only.
func (d *Declared) Pod() *v1.Pod { return d.pod }

// Probes returns the probes that can be started, in the order in which AddPod starts them. They are
// read-only.
func (d *Declared) Probes() []ProbeConfig {
	configs := d.read().configs
	for i := range configs {
		if configs[i].Path != nil {
			continue
		}
		configs = slices.Clone(configs)
		for ; i < len(configs); i++ {
			configs[i].Path = configs[i].path()
		}
		break
	}
	return configs
}

// Errors returns an error for each probe that cannot be started. It is a [*field.Error] for an invalid
// probe, and begins with the path of a field for one of a caller.
func (d *Declared) Errors() []error { return slices.Clone(d.read().errs) }

// Refuse returns d without the probes for which check returns an error, which is one of the Errors of the
// result. [Manager.Apply] never starts such a probe, and ends it if it runs. It counts as one that has
// not run yet.
func (d *Declared) Refuse(check func(*ProbeConfig) error) *Declared {
	all := d.Probes()
	next := *d.read()
	next.configs, next.errs = nil, slices.Clone(next.errs)
	next.forbidden = slices.Clone(next.forbidden)
	for i := range all {
		c := all[i]
		if err := check(&c); err != nil {
			next.forbidden, next.errs = append(next.forbidden, all[i].name()), append(next.errs, err)
			continue
		}
		next.configs = append(next.configs, all[i])
	}
	return &Declared{d.pod, &next}
}

// WithStatus returns d with another status of its pod. They share the rest.
func (d *Declared) WithStatus(status v1.PodStatus) *Declared {
	pod := *d.pod
	pod.Status = status
	return &Declared{&pod, d.list}
}

func (d *Declared) read() *list {
	if d.list != nil {
		return d.list
	}
	return declaredBy(d.pod, nil)
}

func (d *Declared) uid() types.UID { return d.pod.UID }
