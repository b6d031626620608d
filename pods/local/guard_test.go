package local

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/pods"
)

func TestPodNeedsGuard(t *testing.T) {
	p := &Pods{
		host: pods.Host{RunsPrograms: func(handler string) bool { return handler == "program" }},
		pods: make(map[types.UID]*pod),
	}
	for _, c := range []struct {
		name, probe string
		command     []string
		preStop     *v1.LifecycleHandler
		want        bool
	}{
		{"exec of an external target", "exec: {command: [a]}", nil, nil, true},
		{"exec of a process", "exec: {command: [a]}", []string{"a"}, nil, true},
		{"http of an external target", "httpGet: {port: 1}", nil, nil, false},
		{"http of a process", "httpGet: {port: 1}", []string{"a"}, nil, false},
		{"exec hook of a process", "httpGet: {port: 1}", []string{"a"}, &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"a"}}}, true},
		{"http hook of a process", "httpGet: {port: 1}", []string{"a"}, &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{}}, false},
		{"plugin that is a program", "plugin: {name: program}", nil, nil, true},
		{"plugin of a process that is a program", "plugin: {name: program}", []string{"a"}, nil, true},
		{"plugin that is a module", "plugin: {name: module}", nil, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := p.newPodLocked(declared.Parse(&v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{declared.Annotation: "c: {readiness: {" + c.probe + "}}"}},
				Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Command: c.command, Lifecycle: &v1.Lifecycle{PreStop: c.preStop}}}},
			}))
			if got := pod.needsGuard(); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
