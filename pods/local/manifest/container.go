package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/core/declared"
)

// validateContainer returns the errors of one container.
func validateContainer(c *v1.Container, path *field.Path, init bool) (errs field.ErrorList) {
	errs = append(errs, validateName(c.Name, path.Child("name"), validation.IsDNS1123Label)...)
	if len(c.Command) == 0 && len(c.Args) > 0 {
		errs = append(errs, field.Forbidden(path.Child("args"), "needs a command: without one the container is an external target"))
	}
	if len(c.Command) > 0 && c.Command[0] == "" {
		errs = append(errs, field.Required(path.Child("command").Index(0), ""))
	}
	if init && len(c.Command) == 0 && !declared.IsSidecar(c) {
		errs = append(errs, field.Required(path.Child("command"), "an external target never ends and cannot be an init container"))
	}
	errs = append(errs, validateStrings(c, path)...)
	errs = append(errs, validatePorts(c.Ports, path.Child("ports"))...)
	errs = append(errs, validateRestart(c, path, init)...)
	if h := c.Lifecycle; h != nil {
		errs = append(errs, validateHook(h.PostStart, path.Child("lifecycle", "postStart"))...)
		errs = append(errs, validateHook(h.PreStop, path.Child("lifecycle", "preStop"))...)
		if len(c.Command) == 0 {
			errs = append(errs, field.Forbidden(path.Child("lifecycle"), "an external target is neither started nor stopped"))
		}
	}
	return errs
}

// validateStrings returns the errors of the strings that are passed to a process. They must not contain NUL.
func validateStrings(c *v1.Container, path *field.Path) (errs field.ErrorList) {
	check := func(path *field.Path, s string) {
		if strings.ContainsRune(s, 0) {
			errs = append(errs, field.Invalid(path, s, "must not contain a NUL character"))
		}
	}
	for i, s := range c.Command {
		check(path.Child("command").Index(i), s)
	}
	for i, s := range c.Args {
		check(path.Child("args").Index(i), s)
	}
	check(path.Child("workingDir"), c.WorkingDir)
	for i, e := range c.Env {
		at := path.Child("env").Index(i)
		check(at.Child("value"), e.Value)
		if e.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
			continue
		}
		for _, message := range validation.IsRelaxedEnvVarName(e.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), e.Name, message))
		}
	}
	return errs
}

func validatePorts(ports []v1.ContainerPort, path *field.Path) (errs field.ErrorList) {
	names := sets.New[string]()
	for i, p := range ports {
		at := path.Index(i)
		if p.Name != "" {
			for _, message := range validation.IsValidPortName(p.Name) {
				errs = append(errs, field.Invalid(at.Child("name"), p.Name, message))
			}
			if names.Has(p.Name) {
				errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
			}
			names.Insert(p.Name)
		}
		for _, message := range validation.IsValidPortNum(int(p.ContainerPort)) {
			errs = append(errs, field.Invalid(at.Child("containerPort"), p.ContainerPort, message))
		}
		switch p.Protocol {
		case v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP:
		default:
			errs = append(errs, field.NotSupported(at.Child("protocol"), p.Protocol, []v1.Protocol{v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP}))
		}
	}
	return errs
}

// validateRestart returns the errors of the restart policy and the restart rules of a container.
func validateRestart(c *v1.Container, path *field.Path, init bool) (errs field.ErrorList) {
	rules := path.Child("restartPolicyRules")
	if c.RestartPolicy == nil {
		if len(c.RestartPolicyRules) > 0 {
			errs = append(errs, field.Required(path.Child("restartPolicy"), "restartPolicyRules needs it"))
		}
		return errs
	}
	switch *c.RestartPolicy {
	case v1.ContainerRestartPolicyAlways:
		if init && len(c.RestartPolicyRules) > 0 {
			errs = append(errs, field.Forbidden(rules, "a sidecar is always restarted"))
		}
	case v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever:
	default:
		errs = append(errs, field.NotSupported(path.Child("restartPolicy"), *c.RestartPolicy,
			[]v1.ContainerRestartPolicy{v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever}))
	}
	for i, r := range c.RestartPolicyRules {
		at := rules.Index(i)
		if r.Action != v1.ContainerRestartRuleActionRestart && r.Action != v1.ContainerRestartRuleActionRestartAllContainers {
			errs = append(errs, field.NotSupported(at.Child("action"), r.Action,
				[]v1.ContainerRestartRuleAction{v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers}))
		}
		if r.ExitCodes == nil {
			errs = append(errs, field.Required(at.Child("exitCodes"), ""))
			continue
		}
		if op := r.ExitCodes.Operator; op != v1.ContainerRestartRuleOnExitCodesOpIn && op != v1.ContainerRestartRuleOnExitCodesOpNotIn {
			errs = append(errs, field.NotSupported(at.Child("exitCodes", "operator"), op,
				[]v1.ContainerRestartRuleOnExitCodesOperator{v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn}))
		}
	}
	return errs
}

func validateHook(h *v1.LifecycleHandler, path *field.Path) (errs field.ErrorList) {
	if h == nil {
		return nil
	}
	n := 0
	for _, set := range [...]bool{h.Exec != nil, h.HTTPGet != nil, h.Sleep != nil} {
		if set {
			n++
		}
	}
	switch {
	case h.TCPSocket != nil:
		errs = append(errs, field.Forbidden(path.Child("tcpSocket"), "is not supported in hooks"))
	case n == 0:
		errs = append(errs, field.Required(path, "must specify a handler type"))
	case n > 1:
		errs = append(errs, field.Forbidden(path, "may not specify more than 1 handler type"))
	}
	if h.Exec != nil && len(h.Exec.Command) == 0 {
		errs = append(errs, field.Required(path.Child("exec", "command"), ""))
	}
	if h.Sleep != nil && h.Sleep.Seconds < 0 {
		errs = append(errs, field.Invalid(path.Child("sleep", "seconds"), h.Sleep.Seconds, "must be at least 0"))
	}
	if h.HTTPGet != nil {
		messages := validation.IsValidPortNum(h.HTTPGet.Port.IntValue())
		if h.HTTPGet.Port.Type == intstr.String {
			messages = validation.IsValidPortName(h.HTTPGet.Port.StrVal)
		}
		for _, message := range messages {
			errs = append(errs, field.Invalid(path.Child("httpGet", "port"), h.HTTPGet.Port.String(), message))
		}
	}
	return errs
}
