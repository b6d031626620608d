package declared_test

import (
	"errors"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/probe"
)

const ms = time.Millisecond

var errNoSecret = errors.New("no such secret")

// resolveSecret knows one secret.
func resolveSecret(source, name string) (string, error) {
	if source != "env" || name != "TOKEN" {
		return "", errNoSecret
	}
	return "hunter2-token", nil
}

// execProbe is a probe with a period of 1 s and thresholds of 1.
func execProbe(command ...string) *v1.Probe {
	if len(command) == 0 {
		command = []string{"check"}
	}
	return &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: command}},
		PeriodSeconds: 1, FailureThreshold: 1, SuccessThreshold: 1, TimeoutSeconds: 1,
	}
}

// container is a container with a probe of each of kinds.
func container(name string, kinds ...probe.Kind) v1.Container {
	c := v1.Container{Name: name}
	for _, kind := range kinds {
		setProbe(&c, kind, execProbe())
	}
	return c
}

// sidecar is a restartable init container.
func sidecar(name string, kinds ...probe.Kind) v1.Container {
	c := container(name, kinds...)
	c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	return c
}

func setProbe(c *v1.Container, kind probe.Kind, p *v1.Probe) {
	switch kind {
	case probe.Liveness:
		c.LivenessProbe = p
	case probe.Readiness:
		c.ReadinessProbe = p
	case probe.Startup:
		c.StartupProbe = p
	}
}

func podOf(uid string, containers ...v1.Container) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + uid, UID: types.UID(uid)},
		Spec:       v1.PodSpec{Containers: containers, RestartPolicy: v1.RestartPolicyAlways},
	}
}

// annotated is a pod with a container "web" and the annotation text.
func annotated(text string) *v1.Pod {
	pod := podOf("uid", v1.Container{Name: "web", Ports: []v1.ContainerPort{{Name: "redis", ContainerPort: 6379}}})
	pod.Annotations = map[string]string{declared.Annotation: strings.ReplaceAll(text, "\t", "  ")}
	return pod
}
