package targets

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/internal/address"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/probe"
)

// blueprint is the probe of a group, from which the probes of its targets are made. It is read-only.
type blueprint struct {
	*declared.Template
	path string // path of the probe in errors of the manager
	url  string // url in the config of a plugin, whose scheme and path the URL of a target replaces; "" for none
}

// problem is an error at a path below the probe.
type problem struct {
	path string
	err  error
}

// newBlueprint reads a probe, a JSON object with the fields of the annotation prober.dev/probes.
func newBlueprint(group string, kind probe.Kind, text []byte) (*blueprint, []problem) {
	path := field.NewPath("targets").Key(group).Child("probe")
	template, errs := declared.ParseTemplate(path, pods.TargetContainer, kind, text)
	b := &blueprint{Template: template, path: path.String()}
	if len(errs) > 0 {
		return nil, b.problemsOf(errs)
	}
	if _, _, builtin := template.Probe().Place(); !builtin && template.Probe().Target.Host == "" && template.Probe().Target.Unix == "" {
		var config map[string]json.RawMessage
		if json.Unmarshal(template.Probe().Config, &config) == nil {
			_ = json.Unmarshal(config["url"], &b.url) // if url is not a string, it has another meaning for the plugin
		}
	}
	return b, nil
}

func (b *blueprint) problemsOf(errs field.ErrorList) (all []problem) {
	for _, e := range errs {
		all = append(all, problem{b.below(e.Field), reason(e)})
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
func (b *blueprint) below(path string) string {
	rest, ok := strings.CutPrefix(path, b.path)
	if !ok {
		return ""
	}
	return strings.TrimPrefix(rest, ".")
}

// errSecret is the error of an address with a reference to a secret, which would then be sent to that address. Lists
// of addresses may come from others than the operator, who writes the probe.
var errSecret = errors.New("the address must not refer to a secret: only the probe may")

// probeOf returns the probe of a target, whose container has the variables env.
func (b *blueprint) probeOf(a *address.Address, env []v1.EnvVar) (declared.Probe, error) {
	d := declared.Destination{Port: a.Port, Env: env}
	if a.Scheme != "" {
		if len(declared.SecretFields([]byte(strconv.Quote(a.Path)))) > 0 {
			return declared.Probe{}, errSecret
		}
		if _, _, builtin := b.Probe().Place(); !builtin && b.url == "" {
			return declared.Probe{}, declared.ErrURL
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
