package declared

import (
	"iter"

	v1 "k8s.io/api/core/v1"
)

// IsSidecar reports whether c, an init container, is restartable. A restartable init container runs beside
// the regular containers, and may have probes.
func IsSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// Container returns the regular or init container called name, nil if there is none. Ephemeral containers
// are ignored. sidecar reports whether it is a restartable init container.
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

// Containers yields the containers of pod that may have probes, the regular ones first.
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
