package declared

import (
	"iter"

	v1 "k8s.io/api/core/v1"
)

// IsSidecar reports whether c, an init container, is restartable: it runs beside the regular
// containers, and may have probes.
func IsSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// Container returns the container called name, which is nil if the pod has none or an ephemeral one alone.
func Container(pod *v1.Pod, name string) (c *v1.Container, sidecar bool) {
	if c = ContainerNamed(pod.Spec.Containers, name); c != nil {
		return c, false
	}
	c = ContainerNamed(pod.Spec.InitContainers, name)
	return c, c != nil && IsSidecar(c)
}

// ContainerNamed returns the container called name; nil if there is none.
func ContainerNamed(specs []v1.Container, name string) *v1.Container {
	for i := range specs {
		if specs[i].Name == name {
			return &specs[i]
		}
	}
	return nil
}

// Containers returns the containers of pod that may have probes, the regular ones first.
func Containers(pod *v1.Pod) iter.Seq2[*v1.Container, bool] {
	return func(yield func(c *v1.Container, sidecar bool) bool) {
		for i := range pod.Spec.Containers {
			if !yield(&pod.Spec.Containers[i], false) {
				return
			}
		}
		for i := range pod.Spec.InitContainers {
			if c := &pod.Spec.InitContainers[i]; IsSidecar(c) && !yield(c, true) {
				return
			}
		}
	}
}
