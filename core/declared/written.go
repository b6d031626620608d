package declared

import (
	"encoding/json"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Written is the text of a probe that is not in the annotation of a pod: a policy of a cluster has it.
type Written struct {
	Name
	Path *field.Path     // of the probe, for errors
	Text json.RawMessage // an object with the fields of a probe in [Annotation]
}

// ParseWith is [Parse] with probes that are written elsewhere, which replace probes in the fields of containers.
// The first of the same name counts. A probe in the annotation goes before all of them, even an invalid one, so
// an error in the annotation does not bring another probe of that name to life. The names of the written probes
// that do not count are returned too, each as often as there is such a probe.
func ParseWith(pod *v1.Pod, written []Written) (parsed *Pod, replaced []Name) {
	if len(written) == 0 {
		return Parse(pod), nil
	}
	d := new(List)
	left := maxCommands
	extra := d.annotated(pod, &left)
	if extra == nil {
		extra = make(map[Name]*Probe)
	}
	taken := make(map[Name]bool)
	for _, name := range slices.Concat(slices.Collect(maps.Keys(extra)), d.Invalid) {
		taken[name] = true
	}
	for i := range written {
		w := &written[i]
		if taken[w.Name] {
			replaced = append(replaced, w.Name)
			continue
		}
		taken[w.Name] = true
		extra[w.Name] = d.write(pod, w, &left)
	}
	d.collect(pod, extra, &left)
	return &Pod{pod: pod, list: d}, replaced
}

// write returns the probe that w declares in pod; nil if it has an error, which is added to d.
func (d *List) write(pod *v1.Pod, w *Written, left *int) *Probe {
	c, err := probedContainer(pod, w.Container, w.Path)
	if err != nil {
		d.Errors, d.Invalid = append(d.Errors, err), append(d.Invalid, w.Name)
		return nil
	}
	config, errs := fromAnnotation(c, w.Kind, w.Text, w.Path, left)
	if len(errs) == 0 {
		config.Refers = true
		return &config
	}
	for _, err := range errs {
		d.Errors = append(d.Errors, err)
	}
	d.Invalid = append(d.Invalid, w.Name)
	return nil
}
