package local

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/core/manager"
)

// A plugin may become a program while the pod that uses it stays the same.
func TestGuardStartsWhenPluginBecomesProgram(t *testing.T) {
	program := false
	pods, err := New(Config{Marked: func(string) bool { return program }})
	if err != nil {
		t.Fatal(err)
	}
	m, err := manager.New(manager.Config{Status: pods, Handlers: anyHandler{}, RestartGrace: RestartGrace})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	pods.Start(m)
	defer func() { _ = pods.Stop(t.Context()) }()
	spec := []*v1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", UID: "u", Annotations: map[string]string{
			manager.Annotation: "c: {readiness: {plugin: {name: x}, period: 1000h}}",
		}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}},
	}}
	for _, program = range []bool{false, true} {
		if err := pods.Apply(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		pods.mu.Lock()
		guarded := pods.guard != nil
		pods.mu.Unlock()
		if guarded != program {
			t.Errorf("a guard: %v, want %v", guarded, program)
		}
	}
}
