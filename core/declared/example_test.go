package declared_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/core/declared"
)

// A program lists the probes that a pod declares in its spec and its annotation.
func ExampleParse() {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{
			declared.Annotation: "cache: {readiness: {plugin: {name: memcached, target: {port: 11211}}, period: 500ms}}",
		}},
		Spec: v1.PodSpec{Containers: []v1.Container{
			{Name: "web", LivenessProbe: &v1.Probe{
				ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/bin/check"}}}, FailureThreshold: 5,
			}},
			{Name: "cache"},
		}},
	}
	p := declared.Parse(pod)
	for _, c := range p.Probes() {
		fmt.Println(c.Container, c.Kind, c.Handler, c.Spec.Period, c.Spec.FailureThreshold)
	}
	fmt.Println("errors:", p.Errors())
	// Output:
	// web liveness exec 10s 5
	// cache readiness memcached 500ms 3
	// errors: []
}
