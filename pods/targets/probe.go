package targets

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/internal/address"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/probe"
)

// action is the handler of a probe, by the name of its field.
type action string

const (
	httpGet   action = "httpGet"
	tcpSocket action = "tcpSocket"
	grpcCall  action = "grpc"
	execRun   action = "exec"
	plugin    action = "plugin"
)

// placeholder stands for the port of a target while a probe without one is checked.
const placeholder = 1

// blueprint is the probe of a group, from which those of its targets are made. It is read-only.
type blueprint struct {
	kind     probe.Kind
	action   action
	document map[string]any // the probe, as JSON
	fields   map[string]any // of the action, in document; those of plugin.target for a plugin
	needPort bool           // the probe has no port: it is that of the address
	own      bool           // a plugin whose target is not the address
	url      string         // url of the config of a plugin, whose scheme and path a URL replaces; "" for none
	// api is the probe with the fields of v1.Probe, if those can express it: it takes far less time
	// and memory than the annotation.
	api      *v1.Probe
	warnings []problem // see [manager.Warnings]
}

// problem is an error at a path below the probe.
type problem struct {
	path string
	err  error
}

// newBlueprint reads a probe, a JSON object with the fields of the annotation prober.dev/probes.
func newBlueprint(kind probe.Kind, text []byte) (*blueprint, []problem) {
	b := &blueprint{kind: kind}
	if err := json.Unmarshal(text, &b.document); err != nil {
		return nil, []problem{{"", err}}
	}
	b.findAction()
	if b.needPort {
		b.fields["port"] = placeholder
	}
	pod := v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: pods.TargetContainer}}}}
	pod.Annotations = map[string]string{manager.Annotation: b.annotation(b.document)}
	var problems []problem
	for _, e := range manager.ValidatePod(&pod) {
		problems = append(problems, problem{b.below(e.Field), reason(e)})
	}
	if port, named := b.fields["port"].(string); named && len(problems) == 0 && b.action != plugin {
		if n := intstr.Parse(port); n.Type == intstr.String {
			problems = append(problems, problem{string(b.action) + ".port", errors.New("must be a number: a target has no named ports")})
		}
	}
	configs, _ := manager.ProbesOf(&pod)
	if len(problems) > 0 || len(configs) != 1 {
		return nil, problems
	}
	if b.needPort {
		delete(b.fields, "port")
	}
	for _, e := range manager.Warnings(&pod) {
		b.warnings = append(b.warnings, problem{b.below(e.Field), reason(e)})
	}
	b.api = b.asAPI(&configs[0])
	return b, nil
}

// reason returns e without its field.
func reason(e *field.Error) error {
	if e.Type == field.ErrorTypeRequired {
		return errors.New(strings.TrimSuffix("is required: "+e.Detail, ": "))
	}
	return errors.New(e.Detail)
}

// below returns the path below the probe of a field of a pod that has the probe.
func (b *blueprint) below(path string) string {
	for _, prefix := range [...]string{
		field.NewPath("metadata", "annotations").Key(manager.Annotation).Key(pods.TargetContainer).Child(b.kind.String()).String(),
		field.NewPath("spec", "containers").Index(0).Child(b.kind.String() + "Probe").String(),
		field.NewPath("metadata", "annotations").Key(manager.Annotation).Key(pods.TargetContainer).String(),
	} {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			return strings.TrimPrefix(rest, ".")
		}
	}
	return ""
}

// findAction finds the action of the probe, and whether it has a port.
func (b *blueprint) findAction() {
	for _, a := range [...]action{httpGet, tcpSocket, grpcCall, execRun, plugin} {
		fields, ok := b.document[string(a)].(map[string]any)
		if !ok {
			continue
		}
		b.action, b.fields = a, fields
		break
	}
	switch b.action {
	case httpGet, tcpSocket, grpcCall:
		_, has := b.fields["port"]
		b.needPort = !has
	case plugin:
		target, ok := b.fields["target"].(map[string]any)
		if !ok {
			target = make(map[string]any)
		}
		_, host := target["host"]
		_, unix := target["unix"]
		config, _ := b.fields["config"].(map[string]any)
		b.url, _ = config["url"].(string)
		b.own, b.fields = host || unix, target
	}
}

// annotation returns the annotation of a pod whose target has the probe.
func (b *blueprint) annotation(document map[string]any) string {
	text, _ := json.Marshal(map[string]any{pods.TargetContainer: map[string]any{b.kind.String(): document}}) // it was decoded, so it can be encoded
	return string(text)
}

// asAPI returns the probe of config with the fields of v1.Probe, or nil.
func (b *blueprint) asAPI(config *manager.ProbeConfig) *v1.Probe {
	s := &config.Spec
	whole := func(d time.Duration) bool { return d%time.Second == 0 && d/time.Second <= math.MaxInt32 }
	switch {
	case b.action == plugin || config.Paused || s.WarningIsFailure || s.ErrorPolicy != probe.Discard || len(config.SecretReferences()) > 0,
		!whole(s.InitialDelay) || !whole(s.Period) || !whole(s.Timeout),
		s.SuccessThreshold != 1 && b.kind != probe.Readiness:
		return nil
	}
	text, err := json.Marshal(map[string]any{string(b.action): b.document[string(b.action)]})
	if err != nil {
		return nil
	}
	p := &v1.Probe{}
	if json.Unmarshal(text, &p.ProbeHandler) != nil {
		return nil
	}
	p.InitialDelaySeconds, p.PeriodSeconds, p.TimeoutSeconds = int32(s.InitialDelay/time.Second), int32(s.Period/time.Second), int32(s.Timeout/time.Second)
	p.SuccessThreshold, p.FailureThreshold = int32(s.SuccessThreshold), int32(s.FailureThreshold)
	p.TerminationGracePeriodSeconds = config.TerminationGracePeriodSeconds
	manager.SetProbeDefaults(p)
	return p
}

// made is the probe of one target: one of its fields is set.
type made struct {
	probe      *v1.Probe // may be shared: it is read-only
	annotation string
}

// of returns the probe of a target.
func (b *blueprint) of(a *address.Address) (made, error) {
	if a.Scheme != "" && b.action != httpGet && (b.url == "" || b.own) {
		return made{}, errors.New("a URL needs an HTTP probe, or a plugin with url in its config")
	}
	port, err := b.portOf(a)
	if err != nil {
		return made{}, err
	}
	if b.api != nil {
		return made{probe: b.withAddress(a, port)}, nil
	}
	changes := make(map[string]any)
	if port != 0 {
		changes["port"] = port
	}
	if a.Scheme != "" && b.action == httpGet {
		changes["scheme"] = strings.ToUpper(a.Scheme)
		if a.Path != "" {
			changes["path"] = a.Path
		}
	}
	if len(changes) == 0 {
		return made{annotation: b.annotation(b.document)}, nil
	}
	document := maps.Clone(b.document)
	name, fields := string(b.action), maps.Clone(b.fields)
	maps.Copy(fields, changes)
	document[name] = fields
	if b.action == plugin {
		call := maps.Clone(b.document[name].(map[string]any))
		call["target"] = fields
		if a.Scheme != "" {
			config := maps.Clone(call["config"].(map[string]any))
			config["url"] = a.ConfigURL(b.url)
			call["config"] = config
		}
		document[name] = call
	}
	return made{annotation: b.annotation(document)}, nil
}

// portOf returns the port that a target gives its probe; 0 for none.
func (b *blueprint) portOf(a *address.Address) (int, error) {
	_, has := b.fields["port"]
	switch {
	case a.Scheme != "":
		return a.ProbePort(), nil
	case b.action == plugin && (has || b.own), b.action == execRun, !b.needPort && b.action != plugin:
		return 0, nil
	case a.Port != 0 || b.action == plugin:
		return a.Port, nil
	case b.action == httpGet && strings.EqualFold(fmt.Sprint(b.fields["scheme"]), "https"):
		return 443, nil
	case b.action == httpGet:
		return 80, nil
	default:
		return 0, errors.New("there is no port, neither in the address nor in the probe")
	}
}

// withAddress returns the probe of the API with what the address of a target sets.
func (b *blueprint) withAddress(a *address.Address, port int) *v1.Probe {
	if port == 0 && a.Scheme == "" {
		return b.api
	}
	p := *b.api
	switch b.action {
	case httpGet:
		p.HTTPGet = new(*p.HTTPGet)
		p.HTTPGet.Port = intstr.FromInt(port)
		if a.Scheme != "" {
			p.HTTPGet.Scheme = v1.URIScheme(strings.ToUpper(a.Scheme))
		}
		if a.Path != "" {
			p.HTTPGet.Path = a.Path
		}
	case tcpSocket:
		p.TCPSocket = new(*p.TCPSocket)
		p.TCPSocket.Port = intstr.FromInt(port)
	case grpcCall:
		p.GRPC = new(*p.GRPC)
		p.GRPC.Port = int32(port)
	}
	return &p
}
