package declared

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/probe"
)

// Template is a probe for any number of addresses. It is immutable.
type Template struct{ config Probe }

// Destination has the fields that an address sets in a probe.
type Destination struct {
	Port   int         // used if the probe has no port; 0 for none
	Scheme string      // "http" or "https"; if set, Port and Path replace the probe's
	Path   string      // "" for the path of the probe
	Env    []v1.EnvVar // the variables of a command
}

// ParseTemplate parses a probe, a JSON object with the fields of a probe in [Annotation]. A built-in
// handler needs no port. path is the path of the probe in errors. container is the container's name in the
// pods of [Template.At].
func ParseTemplate(path *field.Path, container string, kind probe.Kind, text []byte) (*Template, field.ErrorList) {
	config, errs := fromAnnotation(&v1.Container{Name: container}, kind, text, path, nil)
	if place, path, ok := config.Place(); ok && len(errs) == 0 && place.Port.StrVal != "" {
		errs = append(errs, field.Invalid(path.Child("port"), place.Port.StrVal, "must be a number: a target has no named ports"))
	}
	if len(errs) > 0 {
		return nil, errs
	}
	config.Refers = config.plugin() || secretReference().Match(config.Config)
	return &Template{config}, nil
}

// plugin reports whether c is a probe of a plugin, or names a built-in handler as a plugin.
func (c *Probe) plugin() bool { return c.action == nil || c.asPlugin }

// Probe returns the probe without an address. It is read-only.
func (t *Template) Probe() *Probe { return &t.config }

// Warnings returns the warnings about the probe; see [Pod.Warnings].
func (t *Template) Warnings() field.ErrorList { return t.config.warnings() }

// ErrURL is the error for a URL whose probe does not support URLs.
var ErrURL = errors.New("a URL needs an HTTP probe, or a plugin with url in its config")

// At returns the probe for an address. It returns [ErrURL] for an unsupported URL, and an error if the
// probe needs a port and has none. For a plugin, d only sets the port of the target.
func (t *Template) At(d Destination) (Probe, error) {
	c := t.config
	if _, http := c.action.(*httpGetAction); d.Scheme != "" && c.action != nil && (!http || c.asPlugin) {
		return c, ErrURL
	}
	if c.plugin() {
		if d.Scheme != "" || c.Target == (probe.Target{}) {
			c.Target.Port = d.Port
		}
		return c, nil
	}
	a, err := c.action.forDestination(d)
	if err != nil {
		return c, err
	}
	return c, c.setAction(builtinNamed(c.Handler), a)
}
