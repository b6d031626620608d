package local

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
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
		want        bool
	}{
		{"exec of an external target", "exec: {command: [a]}", nil, true},
		{"exec of a process", "exec: {command: [a]}", []string{"a"}, false},
		{"http of an external target", "httpGet: {port: 1}", nil, false},
		{"plugin that is a program", "plugin: {name: program}", nil, true},
		{"plugin of a process that is a program", "plugin: {name: program}", []string{"a"}, true},
		{"plugin that is a module", "plugin: {name: module}", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := p.newPodLocked(&v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{manager.Annotation: "c: {readiness: {" + c.probe + "}}"}},
				Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Command: c.command}}},
			})
			if got := pod.needsGuard(); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
