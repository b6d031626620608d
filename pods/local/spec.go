package local

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/pods/local/manifest"
	"github.com/daeace23/prober/probe"
)

// defaultAddress is the address of a pod whose manifest has none.
const defaultAddress = "127.0.0.1"

// podProbes describes the probes of a container.
type podProbes struct {
	kinds    [len(probe.Kinds)]bool
	handlers []string
	grace    [len(probe.Kinds)]*int64 // grace periods set by probes
}

// setSpecLocked sets the spec and the probes of the pod, and adds its new containers.
func (p *pod) setSpecLocked(d *declared.Pod) {
	spec := d.Pod()
	p.declared, p.spec, p.ip = d, spec, addressOf(spec)
	for _, c := range p.containers {
		c.probes = podProbes{}
	}
	each := func(specs []v1.Container, init bool) {
		for i := range specs {
			if c := p.containerLocked(specs[i].Name); c != nil {
				c.spec = &specs[i]
				continue
			}
			p.containers = append(p.containers, newContainer(&specs[i], init))
		}
	}
	each(spec.Spec.InitContainers, true)
	each(spec.Spec.Containers, false)
	for _, config := range d.Probes() {
		if c := p.containerLocked(config.Container); c != nil {
			c.probes.kinds[config.Kind] = true
			c.probes.handlers = append(c.probes.handlers, config.Handler)
			c.probes.grace[config.Kind] = config.TerminationGracePeriodSeconds
		}
	}
}

// addressOf returns the address of the pod, from its annotation or else from its status.
func addressOf(spec *v1.Pod) string {
	if a := spec.Annotations[manifest.AddressAnnotation]; a != "" {
		return a
	}
	if spec.Status.PodIP != "" {
		return spec.Status.PodIP
	}
	return defaultAddress
}

// hashOf returns a hash of the definition of a container, without its probes.
func (p *pod) hashOf(c *v1.Container) string {
	h := fnv.New64a()
	if len(c.Command) == 0 {
		fmt.Fprintf(h, "%q", p.ip)
	} else {
		fmt.Fprintf(h, "%q %q %q", c.Command, c.Args, c.WorkingDir)
	}
	for _, e := range c.Env {
		fmt.Fprintf(h, " %q=%q", e.Name, e.Value)
	}
	if len(c.Command) > 0 {
		hashIdentity(h, p.spec, c)
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// hashIdentity writes the settings that determine the user and the umask of a container to h.
func hashIdentity(h io.Writer, pod *v1.Pod, c *v1.Container) {
	if s := pod.Spec.SecurityContext; s != nil {
		text, _ := json.Marshal(s) // cannot fail
		fmt.Fprintf(h, " pod %s", text)
	}
	if s := c.SecurityContext; s != nil {
		text, _ := json.Marshal(s)
		fmt.Fprintf(h, " container %s", text)
	}
	if mask := manifest.UmaskOf(pod, c.Name); mask != nil {
		fmt.Fprintf(h, " umask %o", *mask)
	}
}

// containerNames returns the names of all containers of the pod.
func containerNames(spec *v1.Pod) sets.Set[string] {
	names := sets.New[string]()
	for _, specs := range [...][]v1.Container{spec.Spec.InitContainers, spec.Spec.Containers} {
		for i := range specs {
			names.Insert(specs[i].Name)
		}
	}
	return names
}

// samePod reports whether two pods are equivalent, so that no update is needed.
func samePod(before, after *declared.Pod) bool {
	a, b := before.Pod(), after.Pod()
	return before == after || equality.Semantic.DeepEqual(a.Spec, b.Spec) && maps.Equal(a.Annotations, b.Annotations) &&
		maps.Equal(a.Labels, b.Labels) && a.Status.PodIP == b.Status.PodIP && before.Same(after)
}
