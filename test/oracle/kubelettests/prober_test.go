package kubelettests

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	health "google.golang.org/grpc/health/grpc_health_v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// titles are the names of the kinds in events.
var titles = map[string]string{liveness: "Liveness", readiness: "Readiness", startup: "Startup"}

func TestProbe(t *testing.T) {
	eachKind(t, "#73 no probe is a success", kinds, func(t *testing.T, r *rig, kind string) {
		r.settle()
		pod := podWith(kind)
		setProbe(&pod.Spec.Containers[0], kind, nil)
		s := isRunning(readiness)
		r.setStatus(uid, s)
		r.add(pod)
		r.UpdatePodStatus(t.Context(), pod, s)
		wantStatus(t, s.ContainerStatuses[0], true, true)
		r.wantUpdate(kind, first, "")
	})
	for _, c := range []struct {
		name, output string
		err          error
		want         string // Success, Failure, or the result of a new container
		event        string
	}{
		{"#75 a failure", "bad", exit(1), "Failure", "Warning Unhealthy KIND probe failed: bad"},
		{"#76 a success", "fine", nil, "Success", ""},
		{"#79 an error decides nothing", "bad", errBroken, "", "Warning Unhealthy KIND probe errored and resulted in unknown state: broken"},
		{"#85 the output of a command that fails is kept", "foo", exit(3), "Failure", "Warning Unhealthy KIND probe failed: foo"},
		{"#85 and an error is reported without it", "foo", errBroken, "", "Warning Unhealthy KIND probe errored and resulted in unknown state: broken"},
		{"#84 output is cut, which is no error", strings.Repeat("logs-123", 1408), exit(1), "Failure",
			"Warning Unhealthy KIND probe failed: " + strings.Repeat("logs-123", 1280)},
		{"#84 also when the command succeeds", strings.Repeat("logs-123", 1408), nil, "Success", ""},
	} {
		eachKind(t, c.name, kinds, func(t *testing.T, r *rig, kind string) {
			r.settle()
			r.answer(c.output, c.err)
			r.setStatus(uid, isRunning(kind))
			r.add(podWith(kind))
			want := c.want
			if want == "" {
				want = initial[kind]
			}
			r.wantCached(kind, first, want)
			r.wantEvents(eventOf(c.event, kind)...)
		})
	}
}

func eventOf(text, kind string) []string {
	if text == "" {
		return nil
	}
	return []string{strings.Replace(text, "KIND", titles[kind], 1)}
}

// TestProbeWithoutHandler checks a probe without a handler. Each attempt is an error for the kubelet, and
// AddPod returns an error for us. The container keeps the result of a new container.
func TestProbeWithoutHandler(t *testing.T) {
	eachKind(t, "#74 a probe without a handler", kinds, func(t *testing.T, r *rig, kind string) {
		r.settle()
		pod := podWith(kind, func(_ *v1.Pod, p *v1.Probe) { p.ProbeHandler = v1.ProbeHandler{} })
		s := isRunning(kind)
		r.setStatus(uid, s)
		r.add(pod)
		r.UpdatePodStatus(t.Context(), pod, s)
		wantStatus(t, s.ContainerStatuses[0], kind != startup, kind == liveness)
		got := r.observe()
		if update := got.updates[kind+" "+first]; update != "" && update != initial[kind] {
			t.Errorf("update %s", update)
		}
		if text := strings.Join(append(got.events, got.faults...), "\n"); !strings.Contains(text, "missing probe handler for pod_ns(uid):web") &&
			!strings.Contains(text, "spec.containers[0]."+kind+"Probe: Required value: must specify a handler type") {
			t.Errorf("no error: %s", text)
		}
	})
}

func TestProbeWarning(t *testing.T) {
	server := httptest.NewServer(http.RedirectHandler("http://elsewhere.test/", http.StatusFound))
	defer server.Close()
	eachKind(t, "#77 a warning is a success", kinds, func(t *testing.T, r *rig, kind string) {
		r.settle()
		r.setStatus(uid, isRunning(kind))
		r.add(podWith(kind, func(_ *v1.Pod, p *v1.Probe) {
			p.ProbeHandler = v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt(portOf(server.URL))}}
		}))
		r.wantCached(kind, first, "Success")
		if got := r.observe().events; len(got) != 1 || !strings.HasPrefix(got[0], "Warning ProbeWarning "+titles[kind]+" probe warning: Probe terminated redirects") {
			t.Errorf("events %q", got)
		}
	})
}

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		name    string
		command []string
		env     []v1.EnvVar
		want    string
	}{
		{"#81 a command is passed on", []string{"/bin/bash", "-c", "some script"}, nil, "/bin/bash -c some script"},
		{"#82 known variables are expanded", []string{"/bin/bash", "-c", "some $(A) $(B)"},
			[]v1.EnvVar{{Name: "A", Value: "script"}}, "/bin/bash -c some script $(B)"},
		{"#83 container and command", []string{"/foo", "bar"}, nil, "/foo bar"},
		{"#102 two variables, and one that is not there", []string{"$(A)-$(B)-$(MISSING)"},
			[]v1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}, "1-2-$(MISSING)"},
	} {
		eachKind(t, c.name, kinds, func(t *testing.T, r *rig, kind string) {
			r.settle()
			r.setStatus(uid, isRunning(kind))
			r.add(podWith(kind, func(pod *v1.Pod, p *v1.Probe) {
				p.Exec.Command, pod.Spec.Containers[0].Env = c.command, c.env
			}))
			r.wait(time.Second / 2)
			if got := r.observe(); len(got.commands) != 1 || got.commands[0] != c.want || got.ids[0] != first {
				t.Errorf("ran %q in %q, want %q", got.commands, got.ids, c.want)
			}
		})
	}
}

func TestHandlers(t *testing.T) {
	web := portOf(serve(t, func(http.ResponseWriter, *http.Request) {}))
	grpcPort := serveGRPC(t, grpcServer{status: health.HealthCheckResponse_SERVING})
	both(t, "#86 all four handlers and the runner", func(t *testing.T, r *rig) {
		r.settle()
		pod, s := podOf(uid), statusOf()
		for name, h := range map[string]v1.ProbeHandler{
			"exec": {Exec: &v1.ExecAction{Command: []string{"x"}}},
			"http": {HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt(web)}},
			"tcp":  {TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt(web)}},
			"grpc": {GRPC: &v1.GRPCAction{Port: int32(grpcPort)}},
		} {
			c := containerWith(name, readiness)
			c.ReadinessProbe.ProbeHandler = h
			pod.Spec.Containers = append(pod.Spec.Containers, c)
			web := running(readiness, "test://"+name)
			web.Name = name
			s.ContainerStatuses = append(s.ContainerStatuses, web)
		}
		r.setStatus(uid, s)
		r.add(pod)
		for _, c := range pod.Spec.Containers {
			r.wantCached(readiness, "test://"+c.Name, "Success")
		}
	})
}
