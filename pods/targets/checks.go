package targets

import (
	"encoding/json"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/probe"
)

// check is a push or an endpoint of prober.yaml. Its pod has one external container with a readiness probe, and
// the label of a group.
// See RATIONALE.md, "Why is a push or an endpoint a probe too?"
type check struct {
	handler         string // the name of the handler, and of the container
	namespace, name string // of the pod
	labels          map[string]string
	path            string // of the entry in the file
	line            int
	pod             *declared.Pod
}

// checksOf returns the checks of a prober.yaml. It reuses the pods of unchanged checks of known.
func checksOf(cfg *config.Agent, known []check, bind func(handler, name string, podUID types.UID) (probe.Handler, error)) []check {
	all := make([]check, 0, len(cfg.Push)+len(cfg.Endpoints))
	for _, p := range cfg.Push {
		all = append(all, check{pods.PushHandler, p.Namespace, p.Name, p.Labels, p.Path, p.Line, nil})
	}
	for _, e := range cfg.Endpoints {
		all = append(all, check{pods.EndpointHandler, e.Namespace, e.Name, e.Labels, e.Path, e.Line, nil})
	}
	before := make(map[types.UID]*check, len(known))
	for i := range known {
		before[known[i].uid()] = &known[i]
	}
	for i := range all {
		c := &all[i]
		if old := before[c.uid()]; old != nil && maps.Equal(old.labels, c.labels) {
			c.pod = old.pod
			continue
		}
		c.pod = c.newPod(bind)
	}
	return all
}

func (c *check) uid() types.UID { return uidOf(c.namespace, c.handler+"\x00"+c.name, c.name) }

// newPod returns the pod of c. Its probe reads a state in memory that has thresholds of its own.
func (c *check) newPod(bind func(handler, name string, podUID types.UID) (probe.Handler, error)) *declared.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: c.name, Namespace: c.namespace, UID: c.uid(), Annotations: make(map[string]string)},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: &noGrace,
			Containers: []v1.Container{{Name: c.handler}},
		},
	}
	all := setLabels(pod, c.name, c.labels)
	text, _ := json.Marshal(map[string]string{"name": c.name}) // strings can be encoded
	handler, name := c.handler, c.name
	return declared.Parse(pod, declared.Probe{
		Container: handler, Kind: probe.Readiness, Handler: handler, Config: text,
		Bind: func() (probe.Handler, error) { return bind(handler, name, pod.UID) },
		Spec: probe.Spec{SuccessThreshold: 1, FailureThreshold: 1},
	}).WithLabels(all)
}

// checkErrors returns an error for each check whose name is the name of another pod.
func checkErrors(file string, checks []check, names taken) error {
	d := yamlpos.Decoder{File: file}
	for i := range checks {
		c := &checks[i]
		if names(c.namespace, c.name) {
			d.ErrorAt(c.line, c.path+".name", fmt.Errorf("another pod has the name %s/%s", c.namespace, c.name))
		}
	}
	return d.Err()
}

// podsOf returns the pods of checks.
func podsOf(checks []check) []*declared.Pod {
	all := make([]*declared.Pod, len(checks))
	for i := range checks {
		all[i] = checks[i].pod
	}
	return all
}
