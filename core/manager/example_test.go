package manager_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
)

// An agent that knows a running container has its readiness probed, and is notified when it becomes ready.
func Example() {
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer app.Close()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", ReadinessProbe: &v1.Probe{ProbeHandler: v1.ProbeHandler{
			HTTPGet: &v1.HTTPGetAction{Path: "/ready", Port: intstr.Parse(app.URL[len("http://127.0.0.1:"):])},
		}, PeriodSeconds: 1}}}},
	}

	var registry handlers.Registry
	if err := builtin.Register(&registry, builtin.Config{Runner: &builtin.HostRunner{}}); err != nil {
		panic(err)
	}
	var status manager.StatusStore
	m, err := manager.New(manager.Config{Status: &status, Handlers: &registry})
	if err != nil {
		panic(err)
	}
	defer m.Close()

	status.SetPodStatus(pod, v1.PodStatus{Phase: v1.PodRunning, PodIP: "127.0.0.1", ContainerStatuses: []v1.ContainerStatus{{
		Name: "app", ContainerID: "mine://1", Started: new(true),
		State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}}})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := m.AddPod(ctx, pod); err != nil {
		panic(err)
	}
	for u := range m.Subscribe(ctx) {
		if u.Kind == probe.Readiness && u.Result == results.Success {
			fmt.Println(u.ContainerID, "is ready")
			break
		}
	}
	// Output: mine://1 is ready
}
