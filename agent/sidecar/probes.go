package sidecar

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/probe"
)

// MaxText is the limit of the text of an annotation, in bytes. All annotations of a pod together are limited
// to 256 KiB.
const MaxText = 256 << 10

// Ports has the named ports of containers, by container. The downward API does not have them.
type Ports map[string][]v1.ContainerPort

// ParsePorts parses texts of the form CONTAINER:NAME=NUMBER.
func ParsePorts(texts []string) (Ports, error) {
	all := make(Ports)
	for _, text := range texts {
		container, port, _ := strings.Cut(text, ":")
		name, number, _ := strings.Cut(port, "=")
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > 65535 || len(validation.IsDNS1123Label(container)) > 0 || len(validation.IsValidPortName(name)) > 0 {
			return nil, fmt.Errorf("%q: must be CONTAINER:NAME=PORT", text)
		}
		if slices.ContainsFunc(all[container], func(p v1.ContainerPort) bool { return p.Name == name }) {
			return nil, fmt.Errorf("%q: container %s has this port twice", text, container)
		}
		all[container] = append(all[container], v1.ContainerPort{Name: name, ContainerPort: int32(n), Protocol: v1.ProtocolTCP})
	}
	return all, nil
}

// parse returns the probes in the text of the annotation, and a pod with their containers. The error joins a
// [*field.Error] for each problem.
func parse(text string, ports Ports) (*v1.Pod, []declared.Probe, error) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{declared.Annotation: text}}}
	at := field.NewPath("metadata", "annotations").Key(declared.Annotation)
	if len(text) > MaxText {
		return nil, nil, field.TooLong(at, "", MaxText)
	}
	var containers map[string]json.RawMessage
	if document, err := declared.AnnotationJSON(text); err == nil { // ProbesOf returns the error
		_ = json.Unmarshal(document, &containers)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(containers)) {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name, Ports: ports[name]})
		for _, why := range validation.IsDNS1123Label(name) {
			errs = append(errs, field.Invalid(at.Key(name), name, why))
		}
	}
	configs, invalid := declared.ProbesOf(pod)
	for _, err := range invalid {
		errs = append(errs, explainPort(err))
	}
	for i := range configs {
		errs = append(errs, unsupported(&configs[i], ports)...)
	}
	if len(configs) == 0 && len(errs) == 0 {
		errs = append(errs, field.Required(at, "it declares no probe"))
	}
	return pod, configs, errors.Join(errs...)
}

const whyNoPort = "prober sidecar does not know the names of ports: use the number, or set --ports"

// explainPort replaces the error of a named port by one that explains why its name is unknown.
func explainPort(err error) error {
	e, ok := errors.AsType[*field.Error](err)
	name, isText := "", false
	if ok {
		name, isText = e.BadValue.(string)
	}
	if _, notNumber := strconv.Atoi(name); !isText || notNumber == nil || !strings.HasSuffix(e.Field, ".target.port") || len(validation.IsValidPortName(name)) > 0 {
		return err
	}
	return field.Invalid(field.NewPath(e.Field), name, whyNoPort)
}

// unsupported returns errors for features of a valid probe that a sidecar does not support.
func unsupported(c *declared.Probe, ports Ports) (errs []error) {
	if c.Check != "" {
		return []error{field.Forbidden(c.Path, "prober sidecar combines no checks: give each kind one")}
	}
	if c.Paused {
		errs = append(errs, field.Forbidden(c.Path.Child("paused"), "prober sidecar has no pauses: the kubelet decides when to probe"))
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"unhealthyPeriod", c.Spec.UnhealthyPeriod != 0}, {"jitter", c.Spec.Jitter != 0}, {"initialState", c.Spec.Initial != probe.Unknown}} {
		if f.set {
			errs = append(errs, field.Forbidden(c.Path.Child(f.name), "the kubelet decides when prober sidecar probes, and about the result before it"))
		}
	}
	if c.Handler == "exec" {
		errs = append(errs, field.Forbidden(c.Path.Child("exec"), "the command would run in the container of prober sidecar: leave it to the kubelet's own exec probe"))
	}
	place, path, _ := c.Place()
	named := func(p v1.ContainerPort) bool { return p.Name == place.Port.StrVal }
	if place.Port.Type == intstr.String && !slices.ContainsFunc(ports[c.Container], named) {
		errs = append(errs, field.Invalid(path.Child("port"), place.Port.StrVal, whyNoPort))
	}
	return errs
}
