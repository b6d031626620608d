package declared

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Builtin describes a built-in handler. [Builtins] returns all of them; code that treats them differently
// from plugins uses it.
type Builtin struct {
	// Name is the name of the handler in the registry, the API, metrics and commands.
	Name string
	// Field is the field with the config in a probe, in the annotation and in v1.ProbeHandler.
	Field string

	config func() action                   // returns an empty config
	inAPI  func(h *v1.ProbeHandler) action // returns the config in a probe of the API; nil if the API lacks the handler
}

// action is the config of a built-in handler: a pointer to a struct whose JSON is the handler's config.
type action interface {
	setDefaults()
	validate(path *field.Path) field.ErrorList
	// place returns the host and the port in the config.
	place() Place
	// forDestination returns a copy for the address of a target.
	forDestination(d Destination) (action, error)
}

// Place is the host and the port in the config of a built-in handler. Zero fields are taken from the
// target.
type Place struct {
	Host string
	Port intstr.IntOrString
}

// builtins is the table of built-in handlers, in the order in which the API server reports their errors.
var builtins = []Builtin{
	{
		Name: "exec", Field: "exec", config: func() action { return new(execAction) },
		inAPI: func(h *v1.ProbeHandler) action { return orNil((*execAction)(h.Exec)) },
	},
	{
		Name: "http", Field: "httpGet", config: func() action { return &httpGetAction{HTTPGetAction: new(v1.HTTPGetAction)} },
		inAPI: func(h *v1.ProbeHandler) action {
			if h.HTTPGet == nil {
				return nil
			}
			return &httpGetAction{HTTPGetAction: h.HTTPGet}
		},
	},
	{
		Name: "tcp", Field: "tcpSocket", config: func() action { return new(tcpSocketAction) },
		inAPI: func(h *v1.ProbeHandler) action { return orNil((*tcpSocketAction)(h.TCPSocket)) },
	},
	{
		Name: "grpc", Field: "grpc", config: func() action { return new(grpcAction) },
		inAPI: func(h *v1.ProbeHandler) action { return orNil((*grpcAction)(h.GRPC)) },
	},
}

// orNil returns a as an action, nil for a nil pointer.
func orNil[T any, A interface {
	*T
	action
}](a A) action {
	if a == nil {
		return nil
	}
	return a
}

// Builtins returns the built-in handlers.
func Builtins() []Builtin { return slices.Clone(builtins) }

// IsBuiltin reports whether a handler is built in.
func IsBuiltin(name string) bool { return builtinNamed(name) != nil }

func builtinNamed(name string) *Builtin {
	if i := slices.IndexFunc(builtins, func(b Builtin) bool { return b.Name == name }); i >= 0 {
		return &builtins[i]
	}
	return nil
}

// Place returns the host and the port in the config of a built-in handler, and the path of the config. ok
// is false for a plugin.
func (c *Probe) Place() (p Place, path *field.Path, ok bool) {
	if c.action == nil {
		return Place{}, nil, false
	}
	path = c.FieldPath().Child(builtinNamed(c.Handler).Field)
	if c.asPlugin {
		path = c.FieldPath().Child("plugin", "config")
	}
	return c.action.place(), path, true
}

// setAction makes c a probe of the built-in handler b with the config a.
func (c *Probe) setAction(b *Builtin, a action) (err error) {
	c.Handler, c.action = b.Name, a
	c.Config, err = json.Marshal(a)
	return err
}

// setHandler makes c a probe of the handler in h, and reports whether h has one. left is the number of
// bytes left for the commands of the pod.
func (c *Probe) setHandler(h *v1.ProbeHandler, in *v1.Container, left *int) (found bool, err error) {
	for i := range builtins {
		b := &builtins[i]
		if b.inAPI == nil {
			continue
		}
		if a := b.inAPI(h); a != nil {
			next, err := c.expand(a, in.Env, left)
			if err != nil {
				return true, err
			}
			return true, c.setAction(b, next)
		}
	}
	return false, nil
}

// maxCommands limits the size of all expanded commands of a pod in bytes. A variable may have 100 KiB and
// more. Linux does not run a single longer command by default.
const maxCommands = 2 << 20

// expand returns a with the variables of env replaced in its command, if it has one. c.Written gets the
// original command. expand subtracts the size of the command from left. It returns an error, without
// expanding, if left is too small.
func (c *Probe) expand(a action, env []v1.EnvVar, left *int) (action, error) {
	exec, ok := a.(*execAction)
	if !ok {
		return a, nil
	}
	command, ok := expandCommand(exec.Command, env, left)
	if !ok {
		return a, fmt.Errorf("all commands of the probes of the pod take more than %d bytes with their variables", maxCommands)
	}
	if !slices.Equal(exec.Command, command) {
		c.Written = exec.Command
	}
	return &execAction{Command: command}, nil
}

type (
	execAction      v1.ExecAction
	tcpSocketAction v1.TCPSocketAction
	grpcAction      v1.GRPCAction
)

// httpGetAction is a v1.HTTPGetAction with additional fields of the handler.
type httpGetAction struct {
	*v1.HTTPGetAction
	Connection *string `json:"connection,omitempty"` // see httpprobe.Action
}

func (*execAction) setDefaults()      {}
func (*tcpSocketAction) setDefaults() {}

func (a *httpGetAction) setDefaults() {
	if a.Path == "" {
		a.Path = "/"
	}
	if a.Scheme == "" {
		a.Scheme = v1.URISchemeHTTP
	}
}

func (a *grpcAction) setDefaults() {
	if a.Service == nil {
		a.Service = new("")
	}
}

func (*execAction) place() Place        { return Place{} }
func (a *httpGetAction) place() Place   { return Place{a.Host, a.Port} }
func (a *tcpSocketAction) place() Place { return Place{a.Host, a.Port} }
func (a *grpcAction) place() Place      { return Place{Port: intstr.FromInt32(a.Port)} }

func (a *execAction) forDestination(d Destination) (action, error) {
	return &execAction{Command: ExpandCommand(a.Command, d.Env)}, nil
}

func (a *httpGetAction) forDestination(d Destination) (action, error) {
	next := *a.HTTPGetAction
	if d.Scheme != "" {
		next.Scheme = v1.URIScheme(strings.ToUpper(d.Scheme))
		next.Path = cmp.Or(d.Path, next.Path)
	}
	if d.Scheme != "" || next.Port == (intstr.IntOrString{}) {
		next.Port = intstr.FromInt(cmp.Or(d.Port, map[v1.URIScheme]int{v1.URISchemeHTTP: 80, v1.URISchemeHTTPS: 443}[next.Scheme]))
	}
	return &httpGetAction{&next, a.Connection}, nil
}

func (a *tcpSocketAction) forDestination(d Destination) (action, error) {
	next := *a
	return &next, d.setPort(&next.Port)
}

func (a *grpcAction) forDestination(d Destination) (action, error) {
	next, port := *a, intstr.FromInt32(a.Port)
	err := d.setPort(&port)
	next.Port = port.IntVal
	return &next, err
}

// setPort sets a port that the config does not set.
func (d *Destination) setPort(port *intstr.IntOrString) error {
	if *port != (intstr.IntOrString{}) {
		return nil
	}
	if *port = intstr.FromInt(d.Port); d.Port == 0 {
		return errors.New("neither the address nor the probe has a port")
	}
	return nil
}

func (a *execAction) validate(path *field.Path) (errs field.ErrorList) {
	if len(a.Command) == 0 {
		errs = append(errs, field.Required(path.Child("command"), ""))
	}
	return errs
}

func (a *httpGetAction) validate(path *field.Path) (errs field.ErrorList) {
	if a.Path == "" {
		errs = append(errs, field.Required(path.Child("path"), ""))
	}
	errs = append(errs, validatePort(a.Port, path.Child("port"))...)
	if a.Scheme != v1.URISchemeHTTP && a.Scheme != v1.URISchemeHTTPS {
		errs = append(errs, field.NotSupported(path.Child("scheme"), a.Scheme, choices("scheme")))
	}
	for i, h := range a.HTTPHeaders {
		for _, msg := range validation.IsHTTPHeaderName(h.Name) {
			errs = append(errs, field.Invalid(path.Child("httpHeaders").Index(i).Child("name"), h.Name, msg))
		}
	}
	return append(errs, validateProtocol(a.HTTPGetAction, path)...)
}

func (a *tcpSocketAction) validate(path *field.Path) field.ErrorList {
	return validatePort(a.Port, path.Child("port"))
}

func (a *grpcAction) validate(path *field.Path) field.ErrorList {
	return append(validatePort(intstr.FromInt32(a.Port), path.Child("port")), validateMode((*v1.GRPCAction)(a), path)...)
}

func validatePort(port intstr.IntOrString, path *field.Path) (errs field.ErrorList) {
	msgs := validation.IsValidPortNum(port.IntValue())
	if port.Type == intstr.String {
		msgs = validation.IsValidPortName(port.StrVal)
	}
	for _, msg := range msgs {
		errs = append(errs, field.Invalid(path, port.String(), msg))
	}
	return errs
}
