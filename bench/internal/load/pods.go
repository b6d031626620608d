package load

import (
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/bench/internal/target"
)

const timeout = 1 // seconds

// maker makes pods whose probes are numbered.
type maker struct {
	request *Request
	started metav1.Time
	attempt []bool // whether the probe of this number makes attempts
}

// makePods returns pods with at least the requested number of probes. attempt says which of the probes make
// attempts.
func makePods(r *Request) (pods []*v1.Pod, attempt []bool) {
	m := &maker{request: r, started: metav1.NewTime(time.Now().Add(-time.Hour))}
	for i := 0; len(m.attempt) < r.Probes; i++ {
		pods = append(pods, m.pod(i))
	}
	return pods, m.attempt
}

func (m *maker) pod(i int) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		UID: types.UID(fmt.Sprintf("f81d4fae-7dec-11d0-a765-%012d", i)), Namespace: "default", Name: fmt.Sprintf("web-7d4b9c6f5d-%06d", i),
	}}
	pod.Status = v1.PodStatus{Phase: v1.PodRunning, PodIP: target.Address(0), PodIPs: []v1.PodIP{{IP: target.Address(0)}}, StartTime: &m.started}
	names := []string{"app", "side"}
	if m.request.OneProbe {
		names = names[:1]
	}
	for at, name := range names {
		c := v1.Container{Name: name, Image: "example/app:1"}
		if !m.request.OneProbe {
			c.StartupProbe, c.ReadinessProbe = m.probe(false), m.probe(true)
		}
		c.LivenessProbe = m.probe(true)
		pod.Spec.Containers = append(pod.Spec.Containers, c)
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, v1.ContainerStatus{
			Name: name, ContainerID: fmt.Sprintf("containerd://%064d", 2*i+at), Started: new(true),
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: m.started}},
		})
	}
	return pod
}

func (m *maker) probe(attempts bool) *v1.Probe {
	i := len(m.attempt)
	m.attempt = append(m.attempt, attempts)
	p := &v1.Probe{PeriodSeconds: int32(m.request.Period), TimeoutSeconds: timeout, SuccessThreshold: 1, FailureThreshold: 1 << 30}
	if m.request.Port > 0 {
		p.HTTPGet = &v1.HTTPGetAction{
			Host: target.Address(i), Port: intstr.FromInt32(int32(m.request.Port)), Path: "/healthz", Scheme: v1.URISchemeHTTP,
		}
	} else {
		p.Exec = &v1.ExecAction{Command: []string{strconv.Itoa(i)}}
	}
	return p
}
