package manager_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
)

// The target of a probe does not contain the value of a variable, which is masked wherever the pod is
// shown.
func TestTargetHasCommandAsWritten(t *testing.T) {
	for _, c := range []struct{ command, want string }{
		{"$(PW)", `exec mysqladmin -p "$(PW)"`},
		{"-p$(PW)", `exec mysqladmin -p "-p$(PW)"`},
		{"$(OTHER)", `exec mysqladmin -p "$(OTHER)"`},
		{"plain", "exec mysqladmin -p plain"},
	} {
		for _, annotated := range []bool{true, false} {
			pod := &v1.Pod{}
			pod.UID = "u"
			pod.Spec.Containers = []v1.Container{{Name: "c", Env: []v1.EnvVar{{Name: "PW", Value: "hunter2"}}}}
			if annotated {
				pod.Annotations = map[string]string{declared.Annotation: fmt.Sprintf("c: {readiness: {exec: {command: [mysqladmin, -p, %q]}}}", c.command)}
			} else {
				pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"mysqladmin", "-p", c.command}}}}
			}
			var registry handlers.Registry
			if err := builtin.Register(&registry, builtin.Config{Runner: &builtin.HostRunner{}}); err != nil {
				t.Fatal(err)
			}
			m, err := manager.New(manager.Config{Status: &manager.StatusStore{}, Handlers: &registry})
			if err != nil {
				t.Fatal(err)
			}
			if err := m.AddPod(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			if got := m.Target(manager.Key{PodUID: "u", Container: "c", Kind: probe.Readiness}); got != c.want {
				t.Errorf("annotated %t: got %s, want %s", annotated, got, c.want)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
