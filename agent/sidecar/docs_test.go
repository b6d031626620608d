package sidecar_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc/health/grpc_health_v1"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/probe/probetest"
)

// TestExample checks the pod in the docs and the examples: each of the kubelet's probes requests a probe of
// the annotation at the port of the sidecar, and all fields are known to the kubelet.
func TestExample(t *testing.T) {
	text, err := os.ReadFile("../../examples/kubernetes/sidecar.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/kubernetes/sidecar.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 1 || blocks[0][1] != string(text) {
		t.Error("docs/kubernetes/sidecar.md and examples/kubernetes/sidecar.yaml are not the same pod")
	}
	var pod v1.Pod
	if err := yaml.UnmarshalStrict(text, &pod); err != nil {
		t.Fatal(err)
	}
	for _, err := range declared.ValidatePod(&pod) {
		t.Error(err)
	}
	own := &pod.Spec.InitContainers[0]
	if !declared.IsSidecar(own) || strings.Join(own.Args, " ") != "sidecar --probes "+own.VolumeMounts[0].MountPath+"/"+pod.Spec.Volumes[0].DownwardAPI.Items[0].Path {
		t.Errorf("sidecar: %v", own.Args)
	}
	if at := pod.Spec.Volumes[0].DownwardAPI.Items[0].FieldRef.FieldPath; at != "metadata.annotations['"+declared.Annotation+"']" {
		t.Errorf("field of the volume: %s", at)
	}
	address := newRig(t, pod.Annotations[declared.Annotation], probetest.NewHandler()).serve(t)
	asked := 0
	for _, c := range pod.Spec.Containers {
		for _, p := range []*v1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			asked++
			service, port := "", int32(0)
			if p.GRPC != nil {
				service, port = *p.GRPC.Service, p.GRPC.Port
			} else {
				service, port = strings.TrimPrefix(p.HTTPGet.Path, "/"), p.HTTPGet.Port.IntVal
				if p.HTTPGet.Host != "" {
					t.Errorf("%s: Pod Security baseline forbids host", service)
				}
			}
			if _, err := client(t, address).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service}); err != nil || port != own.Ports[0].ContainerPort {
				t.Errorf("port %d: %v", port, err)
			}
		}
	}
	if asked != 3 {
		t.Errorf("%d probes", asked)
	}
}
