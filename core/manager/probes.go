package manager

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/probe"
)

// ProbeConfig is one probe of a pod, from its container or from the annotation [Annotation],
// with the defaults of the API.
type ProbeConfig struct {
	Path      *field.Path // of the probe in the pod
	Container string      // name
	Kind      probe.Kind
	Handler   string       // name; "" when the probe names none
	Config    []byte       // the handler's config, a JSON object
	Target    probe.Target // of a plugin; zero fields are filled in from the pod
	Spec      probe.Spec
	Paused    bool // until [Manager.Resume]
	// TerminationGracePeriodSeconds replaces that of the pod when this probe kills the
	// container, unless it is nil.
	TerminationGracePeriodSeconds *int64

	annotated bool // from the annotation: its config may refer to secrets
}

func (c *ProbeConfig) id(uid types.UID) probeID {
	return probeID{Key: uid, Task: c.Container, Kind: c.Kind}
}

func (c *ProbeConfig) equal(o ProbeConfig) bool {
	return c.sameHandler(&o) && c.Spec == o.Spec && c.Paused == o.Paused
}

// sameHandler reports whether c and o have the same handler, config and target.
func (c *ProbeConfig) sameHandler(o *ProbeConfig) bool {
	return c.Handler == o.Handler && bytes.Equal(c.Config, o.Config) && c.Target == o.Target
}

// ProbesOf returns the probes of pod in the order in which AddPod starts them, and an error, a
// [*field.Error], for each invalid one. A probe of the annotation takes precedence over that of
// the container.
func ProbesOf(pod *v1.Pod) (configs []ProbeConfig, errs []error) {
	d := declaredBy(pod)
	return d.configs, d.errs
}

// declared are the probes of a pod.
type declared struct {
	configs []ProbeConfig
	refused []probeName // that are invalid, or may be declared by an invalid annotation
	errs    []error
}

func declaredBy(pod *v1.Pod) *declared {
	d := new(declared)
	var extra map[probeName]*ProbeConfig
	extra, d.refused, d.errs = parseAnnotation(pod)
	each := func(c *v1.Container, path *field.Path) {
		for _, slot := range [...]struct {
			kind  probe.Kind
			probe *v1.Probe
			name  string
		}{
			{probe.Startup, c.StartupProbe, "startupProbe"},
			{probe.Readiness, c.ReadinessProbe, "readinessProbe"},
			{probe.Liveness, c.LivenessProbe, "livenessProbe"},
		} {
			if a, ok := extra[probeName{c.Name, slot.kind}]; ok {
				if a != nil {
					d.configs = append(d.configs, *a)
				}
				continue
			}
			if slot.probe == nil {
				continue
			}
			config, list := fromAPI(c, slot.kind, slot.probe, path.Child(slot.name))
			for _, err := range list {
				d.errs = append(d.errs, err)
			}
			if len(list) > 0 {
				d.refused = append(d.refused, probeName{c.Name, slot.kind})
				continue
			}
			d.configs = append(d.configs, config)
		}
	}
	for i := range pod.Spec.Containers {
		each(&pod.Spec.Containers[i], field.NewPath("spec", "containers").Index(i))
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; IsSidecar(c) {
			each(c, field.NewPath("spec", "initContainers").Index(i))
		}
	}
	return d
}

// fail adds err, and refuses the probes of configs.
func (d *declared) fail(err error, configs ...ProbeConfig) {
	d.errs = append(d.errs, err)
	for _, c := range configs {
		d.refused = append(d.refused, probeName{c.Container, c.Kind})
	}
}

// fromAPI reads a container's own probe.
func fromAPI(c *v1.Container, kind probe.Kind, p *v1.Probe, path *field.Path) (ProbeConfig, field.ErrorList) {
	p = p.DeepCopy()
	SetProbeDefaults(p)
	if errs := checkNumbers(p, path); len(errs) > 0 {
		return ProbeConfig{}, errs
	}
	handler, config, err := handlerConfig(&p.ProbeHandler, c)
	if err != nil {
		return ProbeConfig{}, field.ErrorList{field.Required(path, err.Error())}
	}
	return ProbeConfig{
		Path: path, Container: c.Name, Kind: kind, Handler: handler, Config: config, Spec: specOf(p),
		TerminationGracePeriodSeconds: p.TerminationGracePeriodSeconds,
	}, nil
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

// handlerConfig returns the name and the config of the built-in handler of h.
func handlerConfig(h *v1.ProbeHandler, c *v1.Container) (name string, config []byte, err error) {
	switch {
	case h.Exec != nil:
		action := v1.ExecAction{Command: ExpandCommand(h.Exec.Command, c.Env)}
		config, err = json.Marshal(action)
		return "exec", config, err
	case h.HTTPGet != nil:
		config, err = json.Marshal(h.HTTPGet)
		return "http", config, err
	case h.TCPSocket != nil:
		config, err = json.Marshal(h.TCPSocket)
		return "tcp", config, err
	case h.GRPC != nil:
		config, err = json.Marshal(h.GRPC)
		return "grpc", config, err
	default:
		return "", nil, errors.New("must specify a handler type")
	}
}

// namedPort resolves a port by number or by the name of one of c's ports.
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

// ExpandCommand replaces $(NAME) in command by the literal value of that variable in env. The
// value is empty if it comes from a source. A name that is not in env is left as it is, and
// $$(NAME) becomes $(NAME). A nil command stays nil.
func ExpandCommand(command []string, env []v1.EnvVar) []string {
	if command == nil {
		return nil
	}
	values := make(map[string]string, len(env))
	for _, e := range env {
		values[e.Name] = e.Value
	}
	expanded := make([]string, len(command))
	for i, arg := range command {
		expanded[i] = expand(arg, values)
	}
	return expanded
}

func expand(s string, values map[string]string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		text, rest := reference(after, values)
		b.WriteString(text)
		s = rest
	}
}

// reference returns the replacement of a dollar sign and what belongs to it in s, the text
// after it, and the rest of s.
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
