package manifest

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/core/declared"
)

const defaultGracePeriodSeconds = 30

// setDefaults sets the defaults of the Kubernetes API server, and a UID that depends only on the
// namespace and the name.
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
				declared.SetProbeDefaults(p)
			}
		}
	})
}

// each calls do with every container of pod, init containers first.
func each(pod *v1.Pod, do func(c *v1.Container, path *field.Path, init bool)) {
	for i := range pod.Spec.InitContainers {
		do(&pod.Spec.InitContainers[i], field.NewPath("spec", "initContainers").Index(i), true)
	}
	for i := range pod.Spec.Containers {
		do(&pod.Spec.Containers[i], field.NewPath("spec", "containers").Index(i), false)
	}
}

// validatePod returns the errors of a pod that has its defaults.
func validatePod(d *declared.Pod) (errs field.ErrorList) {
	pod := d.Pod()
	meta, spec := field.NewPath("metadata"), field.NewPath("spec")
	errs = append(errs, validateName(pod.Name, meta.Child("name"), validation.IsDNS1123Subdomain)...)
	errs = append(errs, validateName(pod.Namespace, meta.Child("namespace"), validation.IsDNS1123Label)...)
	if pod.DeletionTimestamp != nil {
		errs = append(errs, field.Forbidden(meta.Child("deletionTimestamp"), "a pod that is being deleted cannot be run"))
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
	errs = append(errs, validatePortNames(d)...)
	errs = append(errs, validateIdentity(pod)...)
	return append(errs, d.Validate()...)
}

// linuxOnly returns an error for each container of pod that runs as a process.
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

// validateAddress returns the errors of the address annotation and of the IP address in the status.
func validateAddress(pod *v1.Pod) (errs field.ErrorList) {
	path := field.NewPath("metadata", "annotations").Key(AddressAnnotation)
	if a := pod.Annotations[AddressAnnotation]; a != "" && len(validation.IsValidIP(path, a)) > 0 && len(validation.IsDNS1123Subdomain(a)) > 0 {
		errs = append(errs, field.Invalid(path, a, "must be an IP address or a host name, without a port"))
	}
	if ip := pod.Status.PodIP; ip != "" {
		errs = append(errs, validation.IsValidIP(field.NewPath("status", "podIP"), ip)...)
	}
	return errs
}

// The fields that a local process supports. All others are unsupported.
var (
	podFields = sets.New("containers", "initContainers", "restartPolicy", "terminationGracePeriodSeconds",
		"hostNetwork", "hostPID", "hostIPC", "nodeName", "securityContext")
	containerFields = sets.New("name", "image", "imagePullPolicy", "command", "args", "workingDir", "ports", "env",
		"livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "restartPolicy", "restartPolicyRules", "securityContext")
)

const unsupportedMessage = "is not supported for a local process"

// unsupportedFields returns an error for each field that a local process does not support, and for
// each unknown annotation of prober.
func unsupportedFields(pod *v1.Pod) (errs field.ErrorList) {
	errs = unknownAnnotations(pod)
	forbid := func(path *field.Path) { errs = append(errs, field.Forbidden(path, unsupportedMessage)) }
	otherFields(pod.Spec, podFields, field.NewPath("spec"), forbid)
	if s := pod.Spec.SecurityContext; s != nil {
		otherFields(*s, podSecurityFields, field.NewPath("spec", "securityContext"), forbid)
	}
	each(pod, func(c *v1.Container, path *field.Path, _ bool) {
		otherFields(*c, containerFields, path, forbid)
		if s := c.SecurityContext; s != nil && len(c.Command) == 0 {
			forbid(path.Child("securityContext")) // no process is started
		} else if s != nil {
			otherFields(*s, containerSecurityFields, path.Child("securityContext"), forbid)
		}
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

// otherFields calls do with the path of each field of object that is set and not in allowed.
func otherFields(object any, allowed sets.Set[string], path *field.Path, do func(*field.Path)) {
	v := reflect.ValueOf(object)
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if !allowed.Has(name) && !v.Field(i).IsZero() {
			do(path.Child(name))
		}
	}
}
