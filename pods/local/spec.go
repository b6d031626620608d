package local

import (
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/pods/local/manifest"
	"github.com/daeace23/prober/probe"
)

// defaultAddress is where a pod is when its manifest does not say.
const defaultAddress = "127.0.0.1"

// podProbes says what probes a container has.
type podProbes struct {
	kinds sets.Set[probe.Kind]
	grace map[probe.Kind]*int64 // of those that have one of their own
}

// setSpecLocked makes spec the pod's spec and sorts its containers into new, changed
// and removed ones.
func (p *pod) setSpecLocked(spec *v1.Pod) {
	p.spec, p.ip, p.probes = spec, addressOf(spec), probesOf(spec)
	each := func(specs []v1.Container, init bool) {
		for i := range specs {
			if c := p.containers[specs[i].Name]; c != nil {
				c.spec = &specs[i]
				continue
			}
			p.containers[specs[i].Name] = newContainer(&specs[i], init)
		}
	}
	each(spec.Spec.InitContainers, true)
	each(spec.Spec.Containers, false)
}

func probesOf(spec *v1.Pod) map[string]podProbes {
	all := make(map[string]podProbes)
	configs, _ := manager.ProbesOf(spec)
	for _, c := range configs {
		if all[c.Container].kinds == nil {
			all[c.Container] = podProbes{sets.New[probe.Kind](), make(map[probe.Kind]*int64)}
		}
		all[c.Container].kinds.Insert(c.Kind)
		if c.TerminationGracePeriodSeconds != nil {
			all[c.Container].grace[c.Kind] = c.TerminationGracePeriodSeconds
		}
	}
	return all
}

// addressOf returns where the pod is: what its annotation says, else its status.
func addressOf(spec *v1.Pod) string {
	if a := spec.Annotations[manifest.AddressAnnotation]; a != "" {
		return a
	}
	if spec.Status.PodIP != "" {
		return spec.Status.PodIP
	}
	return defaultAddress
}

// hashOf identifies what a container is started from. Probes are not part of it.
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
	return strconv.FormatUint(h.Sum64(), 16)
}

// samePod reports whether two specs of a pod ask for the same.
func samePod(a, b *v1.Pod) bool {
	return equality.Semantic.DeepEqual(a.Spec, b.Spec) && maps.Equal(a.Annotations, b.Annotations) &&
		maps.Equal(a.Labels, b.Labels) && a.Status.PodIP == b.Status.PodIP
}
