package declared

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/probe"
)

// Template is a probe for any number of addresses. It is immutable.
type Template struct{ config Probe }

// Destination is what an address sets in a probe.
type Destination struct {
	Port   int         // unless the probe has one; 0 for none
	Scheme string      // "http" or "https"; with it, Port and Path replace the probe's own
	Path   string      // "" for the path of the probe
	Env    []v1.EnvVar // the variables of a command
}

// ParseTemplate reads a probe, a JSON object with the fields that one has in [Annotation]. A built-in handler
// needs no port. path is the path of the probe in errors. container is the name of the container in the pods of
// [Template.At].
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

// plugin reports whether the config is the one of a plugin, or a built-in handler is named as one.
func (c *Probe) plugin() bool { return c.action == nil || c.asPlugin }

// Probe returns the probe without an address. It is read-only.
func (t *Template) Probe() *Probe { return &t.config }

// Warnings returns what [Pod.Warnings] returns.
func (t *Template) Warnings() field.ErrorList { return t.config.warnings() }

// ErrURL is the error of a probe for the address of a URL that cannot have one.
var ErrURL = errors.New("a URL needs an HTTP probe, or a plugin with url in its config")

// At returns the probe for an address. The error is [ErrURL], or the one of a probe that needs a port and gets
// none. For a plugin, d sets the port of its target alone.
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
	a, err := c.action.at(d)
	if err != nil {
		return c, err
	}
	return c, c.setAction(builtinNamed(c.Handler), a)
}
