package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/probe"
)

// MaxProbes is the maximum number of probes of a policy.
const MaxProbes = 16

// Probe is a probe of a policy.
type Probe struct {
	Name      string // within the policy
	Container string
	Kind      string          // Liveness, Readiness or Startup
	Text      json.RawMessage // an object with the fields of a probe in the annotation
}

var errNoObject = errors.New("a probe must be an object")

// kinds has the kinds of probes by their names in a policy.
var kinds = map[string]probe.Kind{"Liveness": probe.Liveness, "Readiness": probe.Readiness, "Startup": probe.Startup}

// Kinds returns the names of the kinds of probes, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// UnmarshalJSON implements [json.Unmarshaler]: name, container and kind stand beside the fields of the probe.
func (p *Probe) UnmarshalJSON(text []byte) error {
	fields := make(map[string]json.RawMessage)
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	if fields == nil {
		return errNoObject
	}
	for name, to := range p.texts() {
		value, ok := fields[name]
		if !ok {
			continue
		}
		delete(fields, name)
		if err := json.Unmarshal(value, to); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	var err error
	p.Text, err = json.Marshal(fields)
	return err
}

// MarshalJSON implements [json.Marshaler].
func (p Probe) MarshalJSON() ([]byte, error) {
	fields := make(map[string]json.RawMessage)
	if err := json.Unmarshal(p.Text, &fields); err != nil {
		return nil, err
	}
	if fields == nil {
		return nil, errNoObject
	}
	for name, from := range p.texts() {
		text, err := json.Marshal(*from)
		if err != nil {
			return nil, err
		}
		fields[name] = text
	}
	return json.Marshal(fields)
}

func (p *Probe) texts() map[string]*string {
	return map[string]*string{"name": &p.Name, "container": &p.Container, "kind": &p.Kind}
}

// written returns the probe for [declared.ParseWith]. root begins its path.
func (p *Probe) written(root *field.Path) declared.Written {
	return declared.Written{Name: declared.Name{Container: p.Container, Kind: kinds[p.Kind]}, Path: root.Child("probes").Key(p.Name), Text: p.Text}
}

// Check returns the errors in the probes and the selector of a policy, as far as they do not depend on the selected
// pods: in them a container or a port may be missing.
func (s *Spec) Check() (errs field.ErrorList) {
	root := field.NewPath("spec")
	if _, err := metav1.LabelSelectorAsSelector(&s.Selector); err != nil {
		errs = append(errs, field.Invalid(root.Child("selector"), field.OmitValueType{}, err.Error()))
	}
	if n := len(s.Probes); n == 0 || n > MaxProbes {
		errs = append(errs, field.Invalid(root.Child("probes"), field.OmitValueType{}, fmt.Sprintf("must have from 1 to %d probes", MaxProbes)))
	}
	first := make(map[declared.Name]string)
	named := make(map[string]bool)
	pod := new(v1.Pod)
	var written []declared.Written
	for i := range s.Probes {
		p := &s.Probes[i]
		at := root.Child("probes").Index(i)
		for _, reason := range validation.IsDNS1123Label(p.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), p.Name, reason))
		}
		if named[p.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
		}
		named[p.Name] = true
		if p.Container == "" {
			errs = append(errs, field.Required(at.Child("container"), ""))
		}
		if _, known := kinds[p.Kind]; !known {
			errs = append(errs, field.NotSupported(at.Child("kind"), p.Kind, Kinds()))
			continue
		}
		w := p.written(root)
		if earlier, taken := first[w.Name]; taken {
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("%s is a %s probe of container %s too: a probe combines several checks with all, any or atLeast", earlier, w.Kind, p.Container)))
			continue
		}
		first[w.Name] = p.Name
		written = append(written, w)
		addContainer(pod, p)
	}
	parsed, _ := declared.ParseWith(pod, written)
	for _, err := range parsed.Errors() {
		if placed, ok := errors.AsType[*field.Error](err); ok {
			errs = append(errs, placed)
		}
	}
	return errs
}

// addContainer adds the container of a probe to a pod, with a port for each name of a port in the probe.
func addContainer(pod *v1.Pod, p *Probe) {
	c := declared.ContainerNamed(pod.Spec.Containers, p.Container)
	if c == nil {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: p.Container})
		c = &pod.Spec.Containers[len(pod.Spec.Containers)-1]
	}
	var document any
	if json.Unmarshal(p.Text, &document) == nil {
		for name := range portNames(document) {
			c.Ports = append(c.Ports, v1.ContainerPort{Name: name, ContainerPort: 1})
		}
	}
}

// portNames returns the texts of all fields called port.
func portNames(document any) map[string]bool {
	names := make(map[string]bool)
	switch d := document.(type) {
	case map[string]any:
		for name, value := range d {
			if text, ok := value.(string); ok && name == "port" && len(validation.IsValidPortName(text)) == 0 {
				names[text] = true
			}
			maps.Copy(names, portNames(value))
		}
	case []any:
		for _, value := range d {
			maps.Copy(names, portNames(value))
		}
	}
	return names
}
