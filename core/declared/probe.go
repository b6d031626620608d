// Package declared has the probes that a pod declares, as data that is parsed and validated once.
//
// [Parse] parses the probes of a pod: the fields of its containers, its annotation [Annotation], and probes
// of a caller. [ParseTemplate] parses one probe for any number of addresses. Both return a [Probe], the
// input of a manager. builtin.go has the table of built-in handlers.
package declared

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/probe"
)

// Probe is one probe of a pod: from its container, from the annotation [Annotation], from a [Template], or
// from a caller. It has the defaults of the API.
type Probe struct {
	Path      *field.Path // path of the probe in the pod, or in prober.yaml; [Parse] sets it for a caller's probe
	Container string      // name of the container
	Kind      probe.Kind
	Handler   string // name of the handler; "" if the probe names none
	Config    []byte // config of the handler, a JSON object
	// Bind returns a handler bound to the probe; the manager releases it. If Bind is nil, the handler is
	// found by its name, and bound to Config. Bind is called when the probe is started, and when an update
	// of the pod changes Handler, Config or Target. With Bind, Config may be any value that differs between
	// different bindings.
	Bind   func() (probe.Handler, error)
	Target probe.Target // target of a plugin; zero fields are filled in from the pod
	Spec   probe.Spec
	Paused bool // until it is resumed
	// TerminationGracePeriodSeconds replaces the grace period of the pod when this probe kills the
	// container. It may be nil.
	TerminationGracePeriodSeconds *int64

	// Refers means that Config may refer to secrets: the probe comes from the annotation or a [Template].
	Refers bool
	// Written is the command of Config before its variables were replaced; nil if it has no variables.
	Written []string
	// Combined has the checks of a probe that combines several, from the annotation; nil for any other. The
	// Handler of such a probe is [Checks], and its Config has everything of its checks, to be compared.
	Combined *Combined
	// Check is the name of a check in [Combined]; "" for a probe.
	Check string

	action   action      // built-in handler's config, whose JSON is Config; nil for a plugin and with Bind
	asPlugin bool        // the annotation names a built-in handler as a plugin
	parsed   bool        // the probe comes from the annotation or a [Template]
	combined *field.Path // path of the probe that combines the check; nil for a probe
	sidecar  bool        // the container is an init container
	index    int         // index of the container in its list
}

// Name identifies a probe within a pod.
type Name struct {
	Container string
	Kind      probe.Kind
}

// Name returns the name of the probe.
func (c *Probe) Name() Name { return Name{c.Container, c.Kind} }

// Error is the error of a valid probe that cannot be started.
type Error struct {
	Path *field.Path // path of the probe
	Err  error
}

func (e *Error) Error() string { return e.Path.String() + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// FieldPath returns Path. For a probe of a container it creates the path on demand, because few paths are
// needed.
func (c *Probe) FieldPath() *field.Path {
	if c.Path != nil {
		return c.Path
	}
	return containerPath(c.index, c.sidecar).Child(c.Kind.String() + "Probe")
}

func containerPath(index int, sidecar bool) *field.Path {
	if sidecar {
		return field.NewPath("spec", "initContainers").Index(index)
	}
	return field.NewPath("spec", "containers").Index(index)
}

// ProbesOf returns the probes of pod in the order in which a manager starts them, and a [*field.Error] for
// each invalid one. A probe of the annotation replaces the container's probe of the same kind.
func ProbesOf(pod *v1.Pod) (configs []Probe, errs []error) {
	d := Parse(pod)
	return d.Probes(), d.Errors()
}

// declaredBy returns the probes of pod. Probes of the caller replace the pod's own.
func declaredBy(pod *v1.Pod, typed []Probe) *List {
	d := new(List)
	left := maxCommands
	d.collect(pod, d.withTyped(pod, d.annotated(pod, &left), typed), &left)
	return d
}

// annotated returns the probes of the annotation, nil for each with an error, which is added to d.
func (d *List) annotated(pod *v1.Pod, left *int) (probes map[Name]*Probe) {
	probes, d.Invalid, d.text = parseAnnotation(pod, left)
	d.Errors = slices.Clone(d.text)
	return probes
}

// collect adds the probes of all containers to d. Probes in extra replace theirs.
func (d *List) collect(pod *v1.Pod, extra map[Name]*Probe, left *int) {
	d.Probes = make([]Probe, 0, probesIn(pod.Spec.Containers)+probesIn(pod.Spec.InitContainers)+len(extra))
	for i := range pod.Spec.Containers {
		d.add(&pod.Spec.Containers[i], i, false, extra, left)
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; IsSidecar(c) {
			d.add(c, i, true, extra, left)
		}
	}
}

func probesIn(containers []v1.Container) (n int) {
	for i := range containers {
		for _, p := range [...]*v1.Probe{containers[i].StartupProbe, containers[i].ReadinessProbe, containers[i].LivenessProbe} {
			if p != nil {
				n++
			}
		}
	}
	return n
}

// add adds the probes of a container. Probes in extra replace its own.
func (d *List) add(c *v1.Container, index int, sidecar bool, extra map[Name]*Probe, left *int) {
	for _, slot := range [...]struct {
		kind  probe.Kind
		probe *v1.Probe
	}{{probe.Startup, c.StartupProbe}, {probe.Readiness, c.ReadinessProbe}, {probe.Liveness, c.LivenessProbe}} {
		if a, ok := extra[Name{c.Name, slot.kind}]; ok {
			if a != nil {
				d.Probes = append(d.Probes, *a)
			}
			continue
		}
		if slot.probe == nil {
			continue
		}
		config := Probe{Container: c.Name, Kind: slot.kind, index: index, sidecar: sidecar}
		list := config.fromAPI(c, slot.probe, left)
		for _, err := range list {
			d.Errors = append(d.Errors, err)
		}
		if len(list) > 0 {
			d.Invalid = append(d.Invalid, Name{c.Name, slot.kind})
			continue
		}
		d.Probes = append(d.Probes, config)
	}
}

// withTyped returns extra with the probes of a caller, which replace the annotation's.
func (d *List) withTyped(pod *v1.Pod, extra map[Name]*Probe, typed []Probe) map[Name]*Probe {
	if extra == nil && len(typed) > 0 {
		extra = make(map[Name]*Probe)
	}
	for _, c := range typed {
		name := Name{c.Container, c.Kind}
		if err := c.complete(pod); err != nil {
			d.Errors = append(d.Errors, &Error{c.Path, err})
			d.Invalid, extra[name] = append(d.Invalid, name), nil
			continue
		}
		extra[name] = &c
	}
	return extra
}

// complete sets the API's defaults in a probe of a caller. A probe of a [Template] already has them.
func (c *Probe) complete(pod *v1.Pod) error {
	if !c.parsed {
		c.Path = field.NewPath("typed").Key(c.Container).Child(c.Kind.String())
	}
	if _, err := probedContainer(pod, c.Container, c.Path); err != nil {
		return errors.New("the pod has no such container, or it is an init container that is not restartable")
	}
	if c.parsed {
		return nil
	}
	if c.Combined != nil {
		return errors.New("only an annotation combines checks: bind one handler to them")
	}
	c.Spec.Period, c.Spec.Timeout = cmp.Or(c.Spec.Period, 10*time.Second), cmp.Or(c.Spec.Timeout, time.Second)
	c.Spec.SuccessThreshold, c.Spec.FailureThreshold = cmp.Or(c.Spec.SuccessThreshold, 1), cmp.Or(c.Spec.FailureThreshold, 3)
	switch {
	case int(c.Kind) >= len(probe.Kinds):
		return errors.New("unknown kind")
	case c.Handler == "":
		return errors.New("the handler has no name")
	case c.Spec.Period < minDuration || c.Spec.Timeout < minDuration:
		return fmt.Errorf("period and timeout must be at least %v", minDuration)
	case c.Spec.SuccessThreshold < 1 || c.Spec.FailureThreshold < 1 || c.Spec.InitialDelay < 0:
		return errors.New("thresholds must be at least 1, and the initial delay at least 0")
	}
	return nil
}

// fromAPI reads a probe in a field of the container.
func (c *Probe) fromAPI(in *v1.Container, own *v1.Probe, left *int) field.ErrorList {
	p := withDefaults(own)
	if errs := checkNumbers(&p, nil); len(errs) > 0 { // repeat to get the paths
		return checkNumbers(&p, c.FieldPath())
	}
	if found, err := c.setHandler(&p.ProbeHandler, in, left); err != nil {
		return field.ErrorList{field.Invalid(c.FieldPath().Child("exec", "command"), field.OmitValueType{}, err.Error())}
	} else if !found {
		return field.ErrorList{field.Required(c.FieldPath(), noHandler)}
	}
	c.Spec = specOf(&p)
	if grace := p.TerminationGracePeriodSeconds; grace != nil {
		c.TerminationGracePeriodSeconds = new(*grace)
	}
	return nil
}

// withDefaults returns p with the API's defaults. The result shares fields without defaults with p.
func withDefaults(own *v1.Probe) v1.Probe {
	p := *own
	if p.HTTPGet != nil {
		p.HTTPGet = new(*p.HTTPGet)
	}
	if p.GRPC != nil {
		p.GRPC = new(*p.GRPC)
	}
	SetProbeDefaults(&p)
	return p
}

func specOf(p *v1.Probe) probe.Spec {
	return probe.Spec{
		InitialDelay:     time.Duration(p.InitialDelaySeconds) * time.Second,
		Period:           time.Duration(p.PeriodSeconds) * time.Second,
		Timeout:          time.Duration(p.TimeoutSeconds) * time.Second,
		SuccessThreshold: int(p.SuccessThreshold),
		FailureThreshold: int(p.FailureThreshold),
	}
}

// namedPort resolves a port number, or the name of one of c's ports.
func namedPort(port intstr.IntOrString, c *v1.Container) (int, error) {
	n := port.IntValue()
	if port.Type == intstr.String {
		for _, p := range c.Ports {
			if p.Name == port.StrVal {
				n = int(p.ContainerPort)
			}
		}
	}
	if n < 1 || n > 65535 {
		return 0, fmt.Errorf("must be a port from 1 to 65535 or the name of a port of container %q", c.Name)
	}
	return n, nil
}

// ExpandCommand replaces $(NAME) in command by the literal value of that variable in env. The value is
// empty if it comes from a source. A name that is not in env is not replaced, and $$(NAME) becomes $(NAME).
// A nil command stays nil.
func ExpandCommand(command []string, env []v1.EnvVar) []string {
	left := math.MaxInt
	expanded, _ := expandCommand(command, env, &left)
	return expanded
}

// expandCommand is [ExpandCommand] with a limit of *left bytes, from which it subtracts the size of the
// result. It returns false if the limit is too small.
func expandCommand(command []string, env []v1.EnvVar, left *int) ([]string, bool) {
	if command == nil {
		return nil, true
	}
	values := make(map[string]string, len(env))
	for _, e := range env {
		values[e.Name] = e.Value
	}
	size := 0
	for _, arg := range command {
		for part := range expand(arg, values) {
			size += len(part)
		}
	}
	if size > *left {
		return nil, false
	}
	*left -= size
	expanded := make([]string, len(command))
	for i, arg := range command {
		expanded[i] = strings.Join(slices.Collect(expand(arg, values)), "")
	}
	return expanded, true
}

// expand yields the parts of s with its variables replaced.
func expand(s string, values map[string]string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for rest := s; ; {
			before, after, found := strings.Cut(rest, "$")
			if !yield(before) || !found {
				return
			}
			var text string
			if text, rest = reference(after, values); !yield(text) {
				return
			}
		}
	}
}

// reference returns the replacement of a reference, and the rest of s. s is the text after its dollar sign.
func reference(s string, values map[string]string) (text, rest string) {
	switch {
	case strings.HasPrefix(s, "$"): // an escaped dollar sign
		return "$", s[1:]
	case strings.HasPrefix(s, "("):
		name, rest, closed := strings.Cut(s[1:], ")")
		if !closed {
			return "$(", s[1:]
		}
		if value, ok := values[name]; ok {
			return value, rest
		}
		return "$(" + name + ")", rest
	default:
		return "$", s
	}
}
