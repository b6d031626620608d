package declared_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/probe"
)

func written(container string, kind probe.Kind, text string) declared.Written {
	return declared.Written{
		Name: declared.Name{Container: container, Kind: kind},
		Path: field.NewPath("spec", "probes").Key(container), Text: json.RawMessage(text),
	}
}

func TestParseWith(t *testing.T) {
	ping := `{"plugin": {"name": "redis", "target": {"port": "db"}}, "period": "500ms"}`
	for _, c := range []struct {
		name, annotation string
		written          []declared.Written
		want             []string // the probes, with their handlers
		replaced         int
		errs             []string
	}{
		{"none", "", nil, []string{"app readiness http"}, 0, nil},
		{"in place of a container's", "", []declared.Written{written("app", probe.Readiness, ping)}, []string{"app readiness redis"}, 0, nil},
		{"beside a container's", "", []declared.Written{written("app", probe.Liveness, ping)}, []string{"app readiness http", "app liveness redis"}, 0, nil},
		{"the annotation goes first", `{app: {liveness: {tcpSocket: {port: 80}}}}`, []declared.Written{written("app", probe.Liveness, ping)}, []string{"app readiness http", "app liveness tcp"}, 1, nil},
		{"an invalid annotation goes first", `{app: {liveness: {tcpSocket: {port: 0}}}}`, []declared.Written{written("app", probe.Liveness, ping)}, []string{"app readiness http"}, 1, []string{"metadata.annotations[prober.dev/probes][app].liveness"}},
		{"an annotation that is no mapping", `[`, []declared.Written{written("app", probe.Liveness, ping)}, []string{"app readiness http"}, 1, []string{"metadata.annotations[prober.dev/probes]"}},
		{"the first counts", "", []declared.Written{written("app", probe.Startup, `{"tcpSocket": {"port": "db"}}`), written("app", probe.Startup, ping)}, []string{"app startup tcp", "app readiness http"}, 1, nil},
		{"the first counts with an error", "", []declared.Written{written("app", probe.Startup, `{}`), written("app", probe.Startup, ping)}, []string{"app readiness http"}, 1, []string{"spec.probes[app]"}},
		{"unknown container", "", []declared.Written{written("db", probe.Liveness, ping)}, []string{"app readiness http"}, 0, []string{"spec.probes[db]: Not found"}},
		{"init container", "", []declared.Written{written("prepare", probe.Liveness, ping)}, []string{"app readiness http"}, 0, []string{"spec.probes[prepare]: Forbidden"}},
		{"unknown field", "", []declared.Written{written("app", probe.Liveness, `{"tcpSocket": {"port": 80}, "periode": "1s"}`)}, []string{"app readiness http"}, 0, []string{"spec.probes[app].periode"}},
		{"no object", "", []declared.Written{written("app", probe.Liveness, `7`)}, []string{"app readiness http"}, 0, []string{"spec.probes[app]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := writtenIn(c.annotation)
			parsed, replaced := declared.ParseWith(pod, c.written)
			var got []string
			for _, p := range parsed.Probes() {
				got = append(got, fmt.Sprint(p.Container, " ", p.Kind, " ", p.Handler))
			}
			if !slices.Equal(got, c.want) || len(replaced) != c.replaced {
				t.Errorf("got %q and %d replaced, want %q and %d", got, len(replaced), c.want, c.replaced)
			}
			checkErrors(t, parsed.Errors(), c.errs)
		})
	}
}

func checkErrors(t *testing.T, errs []error, prefixes []string) {
	t.Helper()
	if len(errs) != len(prefixes) {
		t.Fatalf("got the errors %v, want %q", errs, prefixes)
	}
	for i, err := range errs {
		if !strings.HasPrefix(err.Error(), prefixes[i]) {
			t.Errorf("got the error %v, want one that begins with %s", err, prefixes[i])
		}
	}
}

func writtenIn(annotation string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "prepare"}},
		Containers: []v1.Container{{
			Name: "app", Ports: []v1.ContainerPort{{Name: "db", ContainerPort: 6379}},
			ReadinessProbe: &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/"}}},
		}, {Name: "side"}},
	}}
	pod.Spec.Containers[0].ReadinessProbe.HTTPGet.Port.IntVal = 80
	if annotation != "" {
		pod.Annotations = map[string]string{declared.Annotation: annotation}
	}
	return pod
}

// TestWrittenEqualsAnnotation checks that a probe means the same in the annotation and elsewhere: the probes and the
// number of errors are equal, wherever each probe is written.
func TestWrittenEqualsAnnotation(t *testing.T) {
	texts := []string{
		`{"tcpSocket": {"port": "db"}}`, `{"tcpSocket": {"port": "other"}}`, `{"httpGet": {"port": 80, "path": "/x"}, "period": "50ms", "jitter": "10%"}`,
		`{"exec": {"command": ["sh", "-c", "$(A)"]}, "timeoutSeconds": 3}`, `{"grpc": {"port": 9}, "plugin": {"name": "x"}}`, `{"plugin": {"name": "http", "config": {"port": 81}}}`,
		`{"all": {"a": {"tcpSocket": {"port": 1}}, "b": {"plugin": {"name": "dns", "config": {"k": "${file:/x}"}}}}, "failureThreshold": 1}`,
		`{"plugin": {"name": "redis"}, "period": "1ms"}`, `null`, `[]`, `{"paused": true, "tcpSocket": {"port": 2}, "terminationGracePeriodSeconds": 7}`,
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		containers := make(map[string]map[string]json.RawMessage)
		var elsewhere []declared.Written
		for _, container := range []string{"app", "side"} {
			containers[container] = make(map[string]json.RawMessage)
			for _, kind := range probe.Kinds {
				if random.IntN(2) == 0 {
					text := texts[random.IntN(len(texts))]
					containers[container][kind.String()] = json.RawMessage(text)
					elsewhere = append(elsewhere, written(container, kind, text))
				}
			}
		}
		text, err := json.Marshal(containers)
		if err != nil {
			t.Fatal(err)
		}
		want := declared.Parse(writtenIn(string(text)))
		got, replaced := declared.ParseWith(writtenIn(""), elsewhere)
		if !got.Same(want) || len(got.Errors()) != len(want.Errors()) || len(replaced) > 0 {
			t.Fatalf("%s: got %v with %v, want %v with %v", text, got.List().Names(), got.Errors(), want.List().Names(), want.Errors())
		}
		invalid := func(d *declared.Pod) (names []string) {
			for _, n := range d.List().Invalid {
				names = append(names, fmt.Sprint(n))
			}
			slices.Sort(names)
			return names
		}
		if !slices.Equal(invalid(got), invalid(want)) {
			t.Fatalf("%s: got invalid %v, want %v", text, invalid(got), invalid(want))
		}
	}
}
