package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/internal/yamlpos"
)

// validatePortNames returns an error for each probe and hook whose port is a name that its
// container does not define. The kubelet accepts such a pod, but the probe always fails.
func validatePortNames(d *declared.Pod) (errs field.ErrorList) {
	containers := make(map[string]*v1.Container)
	check := func(container string, port intstr.IntOrString, path *field.Path) {
		if e := validatePortName(containers[container], port, path); e != nil {
			errs = append(errs, e)
		}
	}
	each(d.Pod(), func(c *v1.Container, path *field.Path, _ bool) {
		containers[c.Name] = c
		if h := c.Lifecycle; h != nil && h.PostStart != nil && h.PostStart.HTTPGet != nil {
			check(c.Name, h.PostStart.HTTPGet.Port, path.Child("lifecycle", "postStart", "httpGet", "port"))
		}
		if h := c.Lifecycle; h != nil && h.PreStop != nil && h.PreStop.HTTPGet != nil {
			check(c.Name, h.PreStop.HTTPGet.Port, path.Child("lifecycle", "preStop", "httpGet", "port"))
		}
	})
	for _, p := range d.Probes() {
		if place, path, ok := p.Place(); ok {
			check(p.Container, place.Port, path.Child("port"))
		}
	}
	return errs
}

// validatePortName returns an error if port is a name that no port of c has.
func validatePortName(c *v1.Container, port intstr.IntOrString, path *field.Path) *field.Error {
	if port.Type != intstr.String || len(validation.IsValidPortName(port.StrVal)) > 0 { // validateHook and ValidatePod report invalid names
		return nil
	}
	var names []string
	for _, p := range c.Ports {
		if p.Name == port.StrVal {
			return nil
		}
		if p.Name != "" {
			names = append(names, p.Name)
		}
	}
	return field.Invalid(path, port.StrVal, fmt.Sprintf("container %q has no port named %q%s", c.Name, port.StrVal, yamlpos.Known(port.StrVal, names)))
}

// unknownAnnotations returns an error for each unknown annotation with the prefix prober.dev/.
func unknownAnnotations(pod *v1.Pod) (errs field.ErrorList) {
	known := []string{AddressAnnotation, declared.Annotation, UmaskAnnotation}
	for _, name := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if strings.HasPrefix(name, "prober.dev/") && !slices.Contains(known, name) && !strings.HasPrefix(name, UmaskAnnotation+".") {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations").Key(name), "unknown annotation"+yamlpos.Known(name, known)))
		}
	}
	return errs
}
