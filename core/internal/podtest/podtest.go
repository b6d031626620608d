// Package podtest makes pods for tests.
package podtest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/probe"
)

// Exec returns an exec probe with a period of 1 s and thresholds of 1.
func Exec(command ...string) *v1.Probe {
	if len(command) == 0 {
		command = []string{"check"}
	}
	return &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: command}},
		PeriodSeconds: 1, FailureThreshold: 1, SuccessThreshold: 1, TimeoutSeconds: 1,
	}
}

// Container returns a container with an exec probe of each of kinds.
func Container(name string, kinds ...probe.Kind) v1.Container {
	c := v1.Container{Name: name}
	for _, kind := range kinds {
		SetProbe(&c, kind, Exec())
	}
	return c
}

// Sidecar returns a restartable init container with such probes.
func Sidecar(name string, kinds ...probe.Kind) v1.Container {
	c := Container(name, kinds...)
	c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	return c
}

// SetProbe sets the probe of a kind.
func SetProbe(c *v1.Container, kind probe.Kind, p *v1.Probe) {
	switch kind {
	case probe.Liveness:
		c.LivenessProbe = p
	case probe.Readiness:
		c.ReadinessProbe = p
	case probe.Startup:
		c.StartupProbe = p
	}
}

// Pod returns a pod with containers.
func Pod(uid string, containers ...v1.Container) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + uid, UID: types.UID(uid)},
		Spec:       v1.PodSpec{Containers: containers, RestartPolicy: v1.RestartPolicyAlways},
	}
}

// Annotated returns a pod with a container "web" and the annotation text.
func Annotated(text string) *v1.Pod {
	pod := Pod("uid", v1.Container{Name: "web", Ports: []v1.ContainerPort{{Name: "redis", ContainerPort: 6379}}})
	pod.Annotations = map[string]string{declared.Annotation: strings.ReplaceAll(text, "\t", "  ")}
	return pod
}
