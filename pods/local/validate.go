package local

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/core/manager"
)

const defaultGracePeriodSeconds = 30

// setDefaults fills in what the Kubernetes API server would, and a UID that depends on
// the pod's name alone.
func setDefaults(pod *v1.Pod) {
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	if pod.UID == "" {
		sum := sha256.Sum256([]byte(pod.Namespace + "/" + pod.Name))
		pod.UID = types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
	}
	if pod.Spec.RestartPolicy == "" {
		pod.Spec.RestartPolicy = v1.RestartPolicyAlways
	}
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(defaultGracePeriodSeconds))
	}
	each(pod, func(c *v1.Container, _ *field.Path, _ bool) {
		for i := range c.Ports {
			if c.Ports[i].Protocol == "" {
				c.Ports[i].Protocol = v1.ProtocolTCP
			}
		}
		for _, p := range [...]*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			if p != nil {
				manager.SetProbeDefaults(p)
			}
		}
	})
}

// each calls do with every container of pod.
func each(pod *v1.Pod, do func(c *v1.Container, path *field.Path, init bool)) {
	for i := range pod.Spec.InitContainers {
		do(&pod.Spec.InitContainers[i], field.NewPath("spec", "initContainers").Index(i), true)
	}
	for i := range pod.Spec.Containers {
		do(&pod.Spec.Containers[i], field.NewPath("spec", "containers").Index(i), false)
	}
}

// validatePod returns what is wrong with a pod that has its defaults.
func validatePod(pod *v1.Pod) (errs field.ErrorList) {
	meta, spec := field.NewPath("metadata"), field.NewPath("spec")
	errs = append(errs, validateName(pod.Name, meta.Child("name"), validation.IsDNS1123Subdomain)...)
	errs = append(errs, validateName(pod.Namespace, meta.Child("namespace"), validation.IsDNS1123Label)...)
	if pod.DeletionTimestamp != nil {
		errs = append(errs, field.Forbidden(meta.Child("deletionTimestamp"), "a pod that is being deleted can not be run"))
	}
	switch pod.Spec.RestartPolicy {
	case v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever:
	default:
		errs = append(errs, field.NotSupported(spec.Child("restartPolicy"), pod.Spec.RestartPolicy,
			[]v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}))
	}
	if *pod.Spec.TerminationGracePeriodSeconds < 0 {
		errs = append(errs, field.Invalid(spec.Child("terminationGracePeriodSeconds"), *pod.Spec.TerminationGracePeriodSeconds, "must be at least 0"))
	}
	if len(pod.Spec.Containers) == 0 {
		errs = append(errs, field.Required(spec.Child("containers"), ""))
	}
	errs = append(errs, validateAddress(pod)...)
	names := sets.New[string]()
	each(pod, func(c *v1.Container, path *field.Path, init bool) {
		if names.Has(c.Name) {
			errs = append(errs, field.Duplicate(path.Child("name"), c.Name))
		}
		names.Insert(c.Name)
		errs = append(errs, validateContainer(c, path, init)...)
	})
	errs = append(errs, validatePortNames(pod)...)
	return append(errs, manager.ValidatePod(pod)...)
}

// linuxOnly returns an error for every container of pod that is a process.
func linuxOnly(pod *v1.Pod) (errs field.ErrorList) {
	each(pod, func(c *v1.Container, path *field.Path, _ bool) {
		if len(c.Command) > 0 {
			errs = append(errs, field.Forbidden(path.Child("command"), ErrNeedsLinux.Error()))
		}
	})
	return errs
}

func validateName(name string, path *field.Path, check func(string) []string) (errs field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	for _, message := range check(name) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	return errs
}

// validateAddress checks where the pod is said to be.
func validateAddress(pod *v1.Pod) (errs field.ErrorList) {
	path := field.NewPath("metadata", "annotations").Key(AddressAnnotation)
	if a := pod.Annotations[AddressAnnotation]; a != "" && len(validation.IsValidIP(path, a)) > 0 && len(validation.IsDNS1123Subdomain(a)) > 0 {
		errs = append(errs, field.Invalid(path, a, "must be an IP address or the name of a host, without a port"))
	}
	if ip := pod.Status.PodIP; ip != "" {
		errs = append(errs, validation.IsValidIP(field.NewPath("status", "podIP"), ip)...)
	}
	return errs
}

func validateContainer(c *v1.Container, path *field.Path, init bool) (errs field.ErrorList) {
	errs = append(errs, validateName(c.Name, path.Child("name"), validation.IsDNS1123Label)...)
	if len(c.Command) == 0 && len(c.Args) > 0 {
		errs = append(errs, field.Forbidden(path.Child("args"), "needs a command: without one the container is an external target"))
	}
	if len(c.Command) > 0 && c.Command[0] == "" {
		errs = append(errs, field.Required(path.Child("command").Index(0), ""))
	}
	if init && len(c.Command) == 0 && !manager.IsSidecar(c) {
		errs = append(errs, field.Required(path.Child("command"), "an external target never ends, so that it can not be an init container"))
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

// validateStrings checks what is given to a process: no text may have a NUL in it.
func validateStrings(c *v1.Container, path *field.Path) (errs field.ErrorList) {
	check := func(path *field.Path, s string) {
		if strings.ContainsRune(s, 0) {
			errs = append(errs, field.Invalid(path, s, "must not have a NUL character"))
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

// validateRestart checks the container's own restart policy and rules.
func validateRestart(c *v1.Container, path *field.Path, init bool) (errs field.ErrorList) {
	rules := path.Child("restartPolicyRules")
	if c.RestartPolicy == nil {
		if len(c.RestartPolicyRules) > 0 {
			errs = append(errs, field.Required(path.Child("restartPolicy"), "rules need a policy beside them"))
		}
		return errs
	}
	switch *c.RestartPolicy {
	case v1.ContainerRestartPolicyAlways:
		if init && len(c.RestartPolicyRules) > 0 {
			errs = append(errs, field.Forbidden(rules, "a sidecar is restarted always"))
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

// What a pod and a container may have here. Everything else is what a local process
// can not have.
var (
	podFields = sets.New("containers", "initContainers", "restartPolicy", "terminationGracePeriodSeconds",
		"hostNetwork", "hostPID", "hostIPC", "nodeName")
	containerFields = sets.New("name", "image", "imagePullPolicy", "command", "args", "workingDir", "ports", "env",
		"livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "restartPolicy", "restartPolicyRules")
)

const unsupportedMessage = "a local process can not have this"

// unsupportedFields returns the fields that a local process can not have, and annotations
// that only another version of prober can know.
func unsupportedFields(pod *v1.Pod) (errs field.ErrorList) {
	errs = unknownAnnotations(pod)
	forbid := func(path *field.Path) { errs = append(errs, field.Forbidden(path, unsupportedMessage)) }
	others(pod.Spec, podFields, field.NewPath("spec"), forbid)
	each(pod, func(c *v1.Container, path *field.Path, _ bool) {
		others(*c, containerFields, path, forbid)
		for i, e := range c.Env {
			if e.ValueFrom != nil {
				forbid(path.Child("env").Index(i).Child("valueFrom"))
			}
		}
		if c.Lifecycle != nil && c.Lifecycle.StopSignal != nil {
			forbid(path.Child("lifecycle", "stopSignal"))
		}
	})
	return errs
}

// others calls do with the path of every field of object that is set and not allowed.
func others(object any, allowed sets.Set[string], path *field.Path, do func(*field.Path)) {
	v := reflect.ValueOf(object)
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if !allowed.Has(name) && !v.Field(i).IsZero() {
			do(path.Child(name))
		}
	}
}
