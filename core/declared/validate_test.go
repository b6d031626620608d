package declared_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/daeace23/prober/core/declared"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var root = field.NewPath("probe")

// wrongs returns errors as "path: type", sorted.
func wrongs(errs field.ErrorList) []string {
	list := []string{}
	for _, e := range errs {
		list = append(list, e.Field+": "+string(e.Type))
	}
	slices.Sort(list)
	return list
}

func wantWrongs(t *testing.T, errs field.ErrorList, want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(append([]string{}, want...), wrongs(errs)); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestSetProbeDefaults(t *testing.T) {
	t.Run("#147 empty probe", func(t *testing.T) {
		p := new(v1.Probe)
		declared.SetProbeDefaults(p)
		want := &v1.Probe{TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3}
		if diff := cmp.Diff(want, p); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("fields that are set do not change", func(t *testing.T) {
		p := &v1.Probe{InitialDelaySeconds: 5, TimeoutSeconds: 6, PeriodSeconds: 7, SuccessThreshold: 8, FailureThreshold: 9}
		want := p.DeepCopy()
		declared.SetProbeDefaults(p)
		if diff := cmp.Diff(want, p); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("handlers", func(t *testing.T) {
		p := &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{}, GRPC: &v1.GRPCAction{}}}
		declared.SetProbeDefaults(p)
		if p.HTTPGet.Path != "/" || p.HTTPGet.Scheme != v1.URISchemeHTTP || p.GRPC.Service == nil || *p.GRPC.Service != "" {
			t.Errorf("got %+v, %+v", p.HTTPGet, p.GRPC)
		}
	})
}

// number sets one of a probe's five integers.
type number struct {
	name string
	set  func(*v1.Probe, int32)
}

var numbers = []number{
	{"initialDelaySeconds", func(p *v1.Probe, n int32) { p.InitialDelaySeconds = n }},
	{"timeoutSeconds", func(p *v1.Probe, n int32) { p.TimeoutSeconds = n }},
	{"periodSeconds", func(p *v1.Probe, n int32) { p.PeriodSeconds = n }},
	{"successThreshold", func(p *v1.Probe, n int32) { p.SuccessThreshold = n }},
	{"failureThreshold", func(p *v1.Probe, n int32) { p.FailureThreshold = n }},
}

func TestValidateProbe(t *testing.T) {
	t.Run("#148 nil", func(t *testing.T) { wantWrongs(t, declared.ValidateProbe(nil, root)) })
	t.Run("#149 #150 no handler", func(t *testing.T) {
		wantWrongs(t, declared.ValidateProbe(&v1.Probe{}, root), "probe: FieldValueRequired")
	})
	for _, n := range numbers {
		t.Run("#148 10 for "+n.name, func(t *testing.T) {
			p := execProbe()
			n.set(p, 10)
			wantWrongs(t, declared.ValidateProbe(p, root))
		})
		t.Run("#149 #150 -10 for "+n.name, func(t *testing.T) {
			p := execProbe()
			n.set(p, -10)
			wantWrongs(t, declared.ValidateProbe(p, root), "probe."+n.name+": FieldValueInvalid")
		})
	}
	for _, grace := range []int64{-1, 0} {
		t.Run(fmt.Sprintf("#150 grace period %d", grace), func(t *testing.T) {
			p := execProbe()
			p.TerminationGracePeriodSeconds = &grace
			wantWrongs(t, declared.ValidateProbe(p, root), "probe.terminationGracePeriodSeconds: FieldValueInvalid")
		})
	}
	t.Run("#150 grace period 1, and none", func(t *testing.T) {
		p := execProbe()
		wantWrongs(t, declared.ValidateProbe(p, root))
		p.TerminationGracePeriodSeconds = new(int64(1))
		wantWrongs(t, declared.ValidateProbe(p, root))
	})
	t.Run("probe is not modified", func(t *testing.T) {
		p := &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
		before := p.DeepCopy()
		declared.ValidateProbe(p, root)
		if diff := cmp.Diff(before, p); diff != "" {
			t.Error(diff)
		}
	})
}

func httpGet(port intstr.IntOrString, headers ...v1.HTTPHeader) v1.ProbeHandler {
	return v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/", Port: port, Scheme: "HTTP", HTTPHeaders: headers}}
}

func TestValidateHandler(t *testing.T) {
	hosted := httpGet(intstr.FromInt32(65535))
	hosted.HTTPGet.Host = "host"
	exec := v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"echo"}}}
	both := httpGet(intstr.FromInt32(80))
	both.Exec = exec.Exec
	scheme := httpGet(intstr.FromInt32(80))
	scheme.HTTPGet.Scheme = "http"
	for _, tc := range []struct {
		name    string
		handler v1.ProbeHandler
		want    []string
	}{
		{"#151 exec", exec, nil},
		{"#151 port 1", httpGet(intstr.FromInt32(1)), nil},
		{"#151 port 65535 and a host", hosted, nil},
		{"#151 named port", httpGet(intstr.FromString("port")), nil},
		{"#151 Host header", httpGet(intstr.FromInt32(80), v1.HTTPHeader{Name: "Host", Value: "foo"}), nil},
		{"#151 repeated header", httpGet(intstr.FromInt32(80), v1.HTTPHeader{Name: "X-A", Value: "1"}, v1.HTTPHeader{Name: "X-A", Value: "2"}), nil},
		{"#152 none", v1.ProbeHandler{}, []string{"probe: FieldValueRequired"}},
		{"#152 empty command", v1.ProbeHandler{Exec: &v1.ExecAction{}}, []string{"probe.exec.command: FieldValueRequired"}},
		{"#152 port 0", v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{}}, []string{"probe.httpGet.port: FieldValueInvalid"}},
		{"#152 port 65536", httpGet(intstr.FromInt32(65536)), []string{"probe.httpGet.port: FieldValueInvalid"}},
		{"#152 empty named port", httpGet(intstr.FromString("")), []string{"probe.httpGet.port: FieldValueInvalid"}},
		{"#152 header with a colon", httpGet(intstr.FromInt32(80), v1.HTTPHeader{Name: "Host:", Value: "foo"}), []string{"probe.httpGet.httpHeaders[0].name: FieldValueInvalid"}},
		{"#152 header with underscores", httpGet(intstr.FromInt32(80), v1.HTTPHeader{Name: "X_Forwarded_For", Value: "foo"}), []string{"probe.httpGet.httpHeaders[0].name: FieldValueInvalid"}},
		{"two handlers", both, []string{"probe.httpGet: FieldValueForbidden"}},
		{"scheme in lower case", scheme, []string{"probe.httpGet.scheme: FieldValueNotSupported"}},
		{"tcp", v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(6379)}}, nil},
		{"grpc", v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 5000}}, nil},
		{"grpc without a port", v1.ProbeHandler{GRPC: &v1.GRPCAction{}}, []string{"probe.grpc.port: FieldValueInvalid"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := execProbe()
			p.ProbeHandler = tc.handler
			got := wrongs(declared.ValidateProbe(p, root))
			if diff := cmp.Diff(slices.Compact(append([]string{}, tc.want...)), slices.Compact(got)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidatePod(t *testing.T) {
	with := func(edit func(*v1.Container)) *v1.Pod {
		pod := podOf("u", v1.Container{Name: "web"})
		edit(&pod.Spec.Containers[0])
		return pod
	}
	t.Run("#153 grace period of a readiness probe is an error", func(t *testing.T) {
		pod := with(func(c *v1.Container) {
			c.ReadinessProbe = execProbe()
			c.ReadinessProbe.TerminationGracePeriodSeconds = new(int64(10))
		})
		wantWrongs(t, declared.ValidatePod(pod), "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: FieldValueInvalid")
	})
	t.Run("#154 tcp probe without a port, probe without a handler", func(t *testing.T) {
		pod := with(func(c *v1.Container) {
			c.LivenessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{}}}
			c.StartupProbe = &v1.Probe{}
		})
		wantWrongs(t, declared.ValidatePod(pod),
			"spec.containers[0].livenessProbe.tcpSocket.port: FieldValueInvalid", "spec.containers[0].startupProbe: FieldValueRequired")
	})
	t.Run("#155 success threshold of liveness and startup must be 1", func(t *testing.T) {
		pod := with(func(c *v1.Container) {
			c.LivenessProbe, c.StartupProbe, c.ReadinessProbe = execProbe(), execProbe(), execProbe()
			c.LivenessProbe.SuccessThreshold, c.StartupProbe.SuccessThreshold, c.ReadinessProbe.SuccessThreshold = 2, 2, 2
		})
		wantWrongs(t, declared.ValidatePod(pod),
			"spec.containers[0].livenessProbe.successThreshold: FieldValueInvalid", "spec.containers[0].startupProbe.successThreshold: FieldValueInvalid")
	})
	t.Run("#156 all fields below zero", func(t *testing.T) {
		negative := func() *v1.Probe {
			p := execProbe()
			for _, n := range numbers {
				n.set(p, -1)
			}
			p.TerminationGracePeriodSeconds = new(int64(-1))
			return p
		}
		for _, kind := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
			pod := with(func(c *v1.Container) {
				map[string]func(){
					"livenessProbe":  func() { c.LivenessProbe = negative() },
					"readinessProbe": func() { c.ReadinessProbe = negative() },
					"startupProbe":   func() { c.StartupProbe = negative() },
				}[kind]()
			})
			path := "spec.containers[0]." + kind + "."
			want := []string{path + "terminationGracePeriodSeconds: FieldValueInvalid"}
			for _, n := range numbers {
				want = append(want, path+n.name+": FieldValueInvalid")
			}
			twice := "successThreshold"
			if kind == "readinessProbe" {
				twice = "terminationGracePeriodSeconds"
			}
			wantWrongs(t, declared.ValidatePod(pod), append(want, path+twice+": FieldValueInvalid")...)
		}
	})
	t.Run("#157 init containers", func(t *testing.T) {
		pod := podOf("u", v1.Container{Name: "web"})
		bad := sidecar("s2", 0, 1, 2)
		bad.LivenessProbe.SuccessThreshold, bad.StartupProbe.SuccessThreshold = 2, 2
		bad.ReadinessProbe.TerminationGracePeriodSeconds = new(int64(10))
		pod.Spec.InitContainers = []v1.Container{container("plain", 0, 1, 2), sidecar("s1", 0, 1, 2), bad}
		wantWrongs(t, declared.ValidatePod(pod),
			"spec.initContainers[0].livenessProbe: FieldValueForbidden",
			"spec.initContainers[0].readinessProbe: FieldValueForbidden",
			"spec.initContainers[0].startupProbe: FieldValueForbidden",
			"spec.initContainers[2].livenessProbe.successThreshold: FieldValueInvalid",
			"spec.initContainers[2].readinessProbe.terminationGracePeriodSeconds: FieldValueInvalid",
			"spec.initContainers[2].startupProbe.successThreshold: FieldValueInvalid")
	})
	t.Run("#158 ephemeral containers", func(t *testing.T) {
		pod := podOf("u", v1.Container{Name: "web"})
		pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
			Name: "e", LivenessProbe: execProbe(), ReadinessProbe: execProbe(), StartupProbe: execProbe(),
		}}}
		wantWrongs(t, declared.ValidatePod(pod),
			"spec.ephemeralContainers[0].livenessProbe: FieldValueForbidden",
			"spec.ephemeralContainers[0].readinessProbe: FieldValueForbidden",
			"spec.ephemeralContainers[0].startupProbe: FieldValueForbidden")
	})
	t.Run("errors of the annotation", func(t *testing.T) {
		errs := declared.ValidatePod(annotated("web: {readiness: {}}"))
		if len(errs) != 1 || !strings.Contains(errs[0].Field, "prober.dev/probes") {
			t.Errorf("got %v", errs)
		}
	})
}

func TestExpandCommand(t *testing.T) {
	env := []v1.EnvVar{{Name: "A", Value: "script"}, {Name: "B.c-1", Value: "$(A)"}, {Name: "REF", ValueFrom: &v1.EnvVarSource{}}}
	for _, tc := range []struct {
		name          string
		command, want []string
	}{
		{"#102 nil", nil, nil},
		{"#102 nothing", []string{}, []string{}},
		{"#102 two substitutions", []string{"$(A)", "x$(A)y$(A)"}, []string{"script", "xscriptyscript"}},
		{"#102 missing", []string{"$(MISSING)"}, []string{"$(MISSING)"}},
		{"#81 nothing to expand", []string{"/bin/bash", "-c", "some script"}, []string{"/bin/bash", "-c", "some script"}},
		{"#82 known and unknown", []string{"$(A) $(B)"}, []string{"script $(B)"}},
		{"escaped", []string{"$$(A)", "$$$(A)", "$$$$(A)"}, []string{"$(A)", "$script", "$$(A)"}},
		{"not a reference", []string{"$A ${A} $ $", "$(A", "$(", "100$"}, []string{"$A ${A} $ $", "$(A", "$(", "100$"}},
		{"expanded once", []string{"$(B.c-1)"}, []string{"$(A)"}},
		{"a value from elsewhere is empty", []string{"<$(REF)>"}, []string{"<>"}},
		{"no name", []string{"$()"}, []string{"$()"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, declared.ExpandCommand(tc.command, env)); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, kind := range []string{"liveness", "readiness", "startup"} {
		for name, tc := range map[string]struct{ command, want string }{
			"#81 passed through": {"some script", `{"command":["/bin/bash","-c","some script"]}`},
			"#82 expanded":       {"$(A) $(B)", `{"command":["/bin/bash","-c","script $(B)"]}`},
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				c := v1.Container{Name: "web", Env: env}
				p := execProbe("/bin/bash", "-c", tc.command)
				map[string]func(){
					"liveness": func() { c.LivenessProbe = p }, "readiness": func() { c.ReadinessProbe = p }, "startup": func() { c.StartupProbe = p },
				}[kind]()
				configs, errs := declared.ProbesOf(podOf("u", c))
				if len(configs) != 1 || len(errs) > 0 || configs[0].Handler != "exec" || string(configs[0].Config) != tc.want {
					t.Errorf("got %+v, %v", configs, errs)
				}
			})
		}
	}
}
