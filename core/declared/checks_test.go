package declared_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/core/declared"
)

func combining(readiness string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{declared.Annotation: "web: {readiness: {" + readiness + "}}"}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "web", Env: []v1.EnvVar{{Name: "V", Value: "value"}}}}},
	}
}

func TestCombinedProbe(t *testing.T) {
	d := declared.Parse(combining("atLeast: {min: 3, of: {b: {exec: {command: [cat, $(V)]}, weight: 2}, a: {plugin: {name: redis, target: {host: db}, config: {x: '${env:T}'}}}}}, period: 2s"))
	list := d.List()
	if len(d.Errors()) != 0 || len(list.Probes) != 1 {
		t.Fatal(d.Errors(), list)
	}
	c := &list.Probes[0]
	if c.Handler != declared.Checks || c.Combined.Needed != 3 || fmt.Sprint(c.Combined.Weights) != "[1 2]" {
		t.Errorf("%+v, %+v", c, c.Combined)
	}
	checks := d.Probes()
	if len(checks) != 2 {
		t.Fatalf("checks %+v", checks)
	}
	for i, want := range []string{
		"a redis db {\"x\":\"${env:T}\"} [{env T}] metadata.annotations[prober.dev/probes][web].readiness.atLeast.of[a]",
		"b exec  {\"command\":[\"cat\",\"value\"]} [] metadata.annotations[prober.dev/probes][web].readiness.atLeast.of[b]",
	} {
		p := &checks[i]
		if got := fmt.Sprint(p.Check, " ", p.Handler, " ", p.Target.Host, " ", string(p.Config), " ", p.SecretReferences(), " ", p.Path); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if p.Spec != c.Spec || p.Name() != c.Name() || p.SpecPath().String() != c.Path.String() {
			t.Errorf("check %s: %+v", p.Check, p)
		}
	}
	refused := d.Refuse(func(checks []declared.Probe) error { return fmt.Errorf("refused %d checks", len(checks)) })
	if len(refused.Probes()) != 0 || len(refused.List().Forbidden) != 1 || fmt.Sprint(refused.Errors()) != "[refused 2 checks]" {
		t.Errorf("%+v, %v", refused.List(), refused.Errors())
	}
}

func TestCombinedProbesDifferInAnyPart(t *testing.T) {
	same := "all: {a: {plugin: {name: x, config: {n: 1}, target: {host: h}}}, b: {tcpSocket: {port: 1}}}"
	if !declared.Parse(combining(same)).Same(declared.Parse(combining("all: {b: {tcpSocket: {port: 1}}, a: {plugin: {target: {host: h}, name: x, config: {n: 1}}}}"))) {
		t.Error("the order of fields makes a difference")
	}
	for _, change := range [][2]string{{"all", "any"}, {"{a:", "{c:"}, {"name: x", "name: y"}, {"n: 1", "n: 2"}, {"host: h", "host: i"}, {"port: 1", "port: 2"}, {", b: {tcpSocket: {port: 1}}", ""}} {
		if declared.Parse(combining(same)).Same(declared.Parse(combining(strings.Replace(same, change[0], change[1], 1)))) {
			t.Errorf("%v makes no difference", change)
		}
	}
}

func TestInvalidCombinedProbe(t *testing.T) {
	const at = "metadata.annotations[prober.dev/probes][web].readiness"
	many := make([]string, 17)
	for i := range many {
		many[i] = fmt.Sprintf("c%d: {tcpSocket: {port: 1}}", i)
	}
	for readiness, want := range map[string]string{
		"all: {}":                          at + ".all: Required value",
		"all: null":                        at + ": Required value: must specify a handler type",
		"all: [a]":                         at + ".all: Invalid value: must be a mapping",
		"atLeast: {min: 1}":                at + ".atLeast.of: Required value",
		"all: {a: {}}":                     at + ".all[a]: Required value: must specify a handler type",
		"all: {a: null}":                   at + ".all[a]: Required value: must specify a handler type",
		"all: {a: [1]}":                    at + ".all[a]: Invalid value: must be a mapping",
		"all: {A: {tcpSocket: {port: 1}}}": at + ".all[A]: Invalid value: \"A\"",
		"all: {a: {tcpSocket: {port: 1}}}, any: {a: {tcpSocket: {port: 1}}}": at + ".any: Forbidden: may not be set together with all",
		"all: {a: {tcpSocket: {port: 1}}}, tcpSocket: {port: 1}":             at + ".all: Forbidden: may not specify more than 1 handler type",
		"all: {a: {tcpSocket: {port: 1}}}, plugin: {name: x}":                at + ".all: Forbidden: may not specify more than 1 handler type",
		"all: {a: {tcpSocket: {port: 1}, grpc: {port: 1}}}":                  at + ".all[a].grpc: Forbidden: may not specify more than 1 handler type",
		"all: {a: {all: {b: {tcpSocket: {port: 1}}}}}":                       at + ".all[a].all: Invalid value: unknown field",
		"all: {a: {tcpSocket: {port: 1}, period: 1s}}":                       at + ".all[a].period: Invalid value: unknown field",
		"all: {a: {tcpSocket: {port: 1}, weight: 2}}":                        at + ".all[a].weight: Forbidden: only the checks of atLeast have weights",
		"atLeast: {min: 1, of: {a: {tcpSocket: {port: 1}, weight: 0}}}":      at + ".atLeast.of[a].weight: Invalid value: 0: must be from 1 to 1000",
		"atLeast: {min: 3, of: {a: {tcpSocket: {port: 1}, weight: 2}}}":      at + ".atLeast.min: Invalid value: 3: must be from 1 to the sum of the weights, 2",
		"atLeast: {of: {a: {tcpSocket: {port: 1}}}}":                         at + ".atLeast.min: Invalid value: 0",
		"atLeast: {min: x, of: {a: {tcpSocket: {port: 1}}}}":                 at + ".atLeast.min: Invalid value: must be an integer",
		"all: {a: {tcpSocket: {port: 0}}}":                                   at + ".all[a].tcpSocket.port: Invalid value",
		"all: {" + strings.Join(many, ", ") + "}":                            at + ".all: Too many: 17: must have at most 16 items",
	} {
		errs := declared.Parse(combining(readiness)).Errors()
		if len(errs) == 0 || !strings.HasPrefix(errs[0].Error(), want) {
			t.Errorf("%s: got %v, want %q", readiness, errs, want)
		}
		if d := declared.Parse(combining(readiness)); len(d.Probes()) != 0 {
			t.Errorf("%s: probes %+v", readiness, d.Probes())
		}
	}
}
