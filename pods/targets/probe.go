package targets

import (
	"encoding/json"
	"errors"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/internal/address"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/probe"
)

// blueprint is the probe of a group, from which its targets get theirs. It is read-only.
type blueprint struct {
	*manager.Template
	url string // url of the config of a plugin, whose scheme and path a URL replaces; "" for none
}

// problem is an error at a path below the probe.
type problem struct {
	path string
	err  error
}

// newBlueprint reads a probe, a JSON object with the fields of the annotation prober.dev/probes.
func newBlueprint(kind probe.Kind, text []byte) (*blueprint, []problem) {
	template, errs := manager.ParseTemplate(pods.TargetContainer, kind, text)
	if len(errs) > 0 {
		return nil, problemsOf(errs)
	}
	b := &blueprint{Template: template}
	if _, _, builtin := template.Probe().Place(); !builtin && template.Probe().Target.Host == "" && template.Probe().Target.Unix == "" {
		var config struct {
			URL string `json:"url"`
		}
		_ = json.Unmarshal(template.Probe().Config, &config) // else url is something of its own
		b.url = config.URL
	}
	return b, nil
}

func problemsOf(errs field.ErrorList) (all []problem) {
	for _, e := range errs {
		all = append(all, problem{below(e.Field), reason(e)})
	}
	return all
}

// reason returns e without its field.
func reason(e *field.Error) error {
	if e.Type == field.ErrorTypeRequired {
		return errors.New(strings.TrimSuffix("is required: "+e.Detail, ": "))
	}
	return errors.New(e.Detail)
}

// below returns the path of a field below the probe; "" for the probe itself, and for other fields.
func below(path string) string {
	rest, _ := strings.CutPrefix(path, "probe")
	return strings.TrimPrefix(rest, ".")
}

// of returns the probe of a target, whose pod has the variables env.
func (b *blueprint) of(a *address.Address, env []v1.EnvVar) (manager.ProbeConfig, error) {
	d := manager.Destination{Port: a.Port, Env: env}
	if a.Scheme != "" {
		if _, _, builtin := b.Probe().Place(); !builtin && b.url == "" {
			return manager.ProbeConfig{}, manager.ErrURL
		}
		d.Port, d.Scheme, d.Path = a.ProbePort(), a.Scheme, a.Path
	}
	c, err := b.At(d)
	if err == nil && a.Scheme != "" && b.url != "" {
		c.Config, err = withURL(c.Config, a.ConfigURL(b.url))
	}
	return c, err
}

// withURL returns config, a JSON object, with another url.
func withURL(config []byte, url string) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(config, &fields); err != nil {
		return nil, err
	}
	var err error
	if fields["url"], err = json.Marshal(url); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}
