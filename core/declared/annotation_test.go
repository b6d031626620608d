package declared_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/probe"
)

const at = `metadata.annotations[prober.dev/probes]`

// one returns the only probe of an annotation.
func one(t *testing.T, text string) declared.Probe {
	t.Helper()
	configs, errs := declared.ProbesOf(annotated(text))
	if len(configs) != 1 || len(errs) > 0 {
		t.Fatalf("%d probes, errors %v", len(configs), errs)
	}
	return configs[0]
}

func TestAnnotation(t *testing.T) {
	t.Run("plugin with all fields", func(t *testing.T) {
		got := one(t, `
web:
  readiness:
    plugin: {name: redis, target: {port: redis}, config: {maxLag: 5s, num: 12345678901234567890}}
    initialDelay: 1.5s
    period: 500ms
    timeout: 200ms
    successThreshold: 2
    failureThreshold: 4
    warningAs: failure
    errorPolicy: failure
    unhealthyPeriod: 100ms
    jitter: 12.5%
    initialState: success
    paused: true
`)
		want := probe.Spec{
			InitialDelay: 1500 * ms, Period: 500 * ms, Timeout: 200 * ms, SuccessThreshold: 2, FailureThreshold: 4,
			WarningIsFailure: true, ErrorPolicy: probe.CountAsFailure, UnhealthyPeriod: 100 * ms, Jitter: 0.125, Initial: probe.Success,
		}
		if diff := cmp.Diff(want, got.Spec); diff != "" {
			t.Errorf("spec: %s", diff)
		}
		if got.Container != "web" || got.Kind != probe.Readiness || got.Handler != "redis" || !got.Paused {
			t.Errorf("got %+v", got)
		}
		if got.Target != (probe.Target{Port: 6379}) {
			t.Errorf("target: %+v", got.Target)
		}
		if string(got.Config) != `{"maxLag":"5s","num":12345678901234567890}` {
			t.Errorf("config: %s", got.Config)
		}
		if got.Path.String() != at+"[web].readiness" {
			t.Errorf("path: %s", got.Path)
		}
	})
	t.Run("defaults are those of the API", func(t *testing.T) {
		got := one(t, "web: {liveness: {plugin: {name: redis}}}")
		want := probe.Spec{Period: 10 * time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 3}
		if diff := cmp.Diff(want, got.Spec); diff != "" || string(got.Config) != "{}" || got.Paused {
			t.Errorf("got %+v %s", got, diff)
		}
	})
}

func TestAnnotationSpellings(t *testing.T) {
	t.Run("spelling of v1.Probe", func(t *testing.T) {
		got := one(t, `web: {startup: {plugin: {name: x}, initialDelaySeconds: 1, periodSeconds: 2, timeoutSeconds: 3, terminationGracePeriodSeconds: 4}}`)
		want := probe.Spec{InitialDelay: time.Second, Period: 2 * time.Second, Timeout: 3 * time.Second, SuccessThreshold: 1, FailureThreshold: 3}
		if diff := cmp.Diff(want, got.Spec); diff != "" {
			t.Error(diff)
		}
		if g := got.TerminationGracePeriodSeconds; g == nil || *g != 4 {
			t.Errorf("grace period %v", g)
		}
	})
	for name, tc := range map[string]struct{ action, handler, config string }{
		"exec":      {"exec: {command: [a, b]}", "exec", `{"command":["a","b"]}`},
		"httpGet":   {"httpGet: {port: 80, host: h}", "http", `{"path":"/","port":80,"host":"h","scheme":"HTTP"}`},
		"tcpSocket": {"tcpSocket: {port: redis}", "tcp", `{"port":"redis"}`},
		"grpc":      {"grpc: {port: 5000}", "grpc", `{"port":5000,"service":""}`},
	} {
		t.Run("a built-in with a short period: "+name, func(t *testing.T) {
			got := one(t, "web: {liveness: {"+tc.action+", period: 10ms, timeout: 10ms}}")
			if got.Handler != tc.handler || string(got.Config) != tc.config || got.Spec.Period != 10*ms {
				t.Errorf("got %+v, config %s", got, got.Config)
			}
		})
	}
	for name, tc := range map[string]struct {
		target string
		want   probe.Target
	}{
		"host and port":  {"{host: example.com, port: 80}", probe.Target{Host: "example.com", Port: 80}},
		"port in quotes": {`{port: "80"}`, probe.Target{Port: 80}},
		"unix":           {"{unix: /run/x.sock}", probe.Target{Unix: "/run/x.sock"}},
		"none":           {"{}", probe.Target{}},
	} {
		t.Run("target: "+name, func(t *testing.T) {
			if got := one(t, "web: {liveness: {plugin: {name: x, target: "+tc.target+"}}}"); got.Target != tc.want {
				t.Errorf("got %+v, want %+v", got.Target, tc.want)
			}
		})
	}
}

func TestAnnotationBesideContainers(t *testing.T) {
	t.Run("annotation takes precedence over the container's probe of that kind", func(t *testing.T) {
		pod := annotated("web: {liveness: {plugin: {name: redis}}}")
		pod.Spec.Containers[0].LivenessProbe, pod.Spec.Containers[0].ReadinessProbe = execProbe(), execProbe()
		configs, errs := declared.ProbesOf(pod)
		got := make(map[probe.Kind]string)
		for _, c := range configs {
			got[c.Kind] = c.Handler
		}
		if diff := cmp.Diff(map[probe.Kind]string{probe.Liveness: "redis", probe.Readiness: "exec"}, got); diff != "" || len(errs) > 0 {
			t.Errorf("%s, %v", diff, errs)
		}
	})
	t.Run("sidecars may have probes", func(t *testing.T) {
		pod := annotated("side: {readiness: {plugin: {name: redis}}}")
		pod.Spec.InitContainers = []v1.Container{sidecar("side")}
		if configs, errs := declared.ProbesOf(pod); len(configs) != 1 || len(errs) > 0 {
			t.Errorf("%v, %v", configs, errs)
		}
	})
	t.Run("empty annotation has no probes", func(t *testing.T) {
		for _, text := range []string{"", "{}", "web: {}", "web:", "# a comment"} {
			if configs, errs := declared.ProbesOf(annotated(text)); len(configs) > 0 || len(errs) > 0 {
				t.Errorf("%q: %v, %v", text, configs, errs)
			}
		}
	})
}

func TestAnnotationErrors(t *testing.T) {
	web := at + "[web]"
	ready := web + ".readiness"
	in := func(fields string) string { return "web: {readiness: {plugin: {name: x}, " + fields + "}}" }
	for _, tc := range []struct {
		name, text, path, word string
	}{
		{"not YAML", "web: {", at, "yaml"},
		{"a list", "[1, 2]", at, "must be a mapping"},
		{"a container that is a number", "web: 5", at, "must be a mapping"},
		{"a key twice", "web: {readiness: {paused: true, paused: false}}", at, "already"},
		{"unknown container", "nope: {readiness: {plugin: {name: x}}}", at + "[nope]", "Not found"},
		{"plain init container", "init: {readiness: {plugin: {name: x}}}", at + "[init]", "restartPolicy Always"},
		{"unknown kind", "web: {readyness: {plugin: {name: x}}}", web, "readyness"},
		{"kind in upper case", "web: {Readiness: {plugin: {name: x}}}", web, "Readiness"},
		{"a probe that is a number", "web: {readiness: 5}", ready, "must be a mapping"},
		{"no handler", "web: {readiness: {period: 1s}}", ready, "must specify a handler type"},
		{"no handler, null", "web: {readiness: }", ready, "must specify a handler type"},
		{"two handlers", in("exec: {command: [a]}"), ready + ".plugin", "more than 1"},
		{"two built-ins", "web: {readiness: {exec: {command: [a]}, tcpSocket: {port: 1}}}", ready + ".tcpSocket", "more than 1"},
		{"unknown field", in("perod: 1s"), ready + ".perod", `unknown field (did you mean "period"?)`},
		{"a field in another case", in("Period: 1s"), ready + ".Period", `unknown field (did you mean "period"?)`},
		{"a field of another tool", in("interval: 1s"), ready + ".interval", `unknown field (did you mean "period"?)`},
		{"a built-in handler in another case", "web: {readiness: {httpget: {path: /}}}", ready + ".httpget", `unknown field (did you mean "httpGet"?)`},
		{"a field like no other", in("zzzzzzz: 1s"), ready + ".zzzzzzz", "unknown field"},
		{"unknown field of plugin", "web: {readiness: {plugin: {name: x, nam: y}}}", ready + ".plugin.nam", `unknown field (did you mean "name"?)`},
		{"unknown field of target", "web: {readiness: {plugin: {name: x, target: {prt: 1}}}}", ready + ".plugin.target.prt", `unknown field (did you mean "port"?)`},
		{"unknown field of exec", "web: {readiness: {exec: {comand: [a]}}}", ready + ".exec.comand", `unknown field (did you mean "command"?)`},
		{"unknown field of a header", "web: {readiness: {httpGet: {port: 1, httpHeaders: [{name: a}, {nme: b}]}}}", ready + ".httpGet.httpHeaders[1].nme", "unknown field"},
		{"no name", "web: {readiness: {plugin: {}}}", ready + ".plugin.name", "Required"},
		{"config that is a list", "web: {readiness: {plugin: {name: x, config: [1]}}}", ready + ".plugin.config", "must be an object"},
		{"config that is a string", "web: {readiness: {plugin: {name: x, config: hello}}}", ready + ".plugin.config", "must be an object"},
		{"unknown port", "web: {readiness: {plugin: {name: x, target: {port: nope}}}}", ready + ".plugin.target.port", "from 1 to 65535"},
		{"port 0", "web: {readiness: {plugin: {name: x, target: {port: 0}}}}", ready + ".plugin.target.port", "from 1 to 65535"},
		{"port 65536", "web: {readiness: {plugin: {name: x, target: {port: 65536}}}}", ready + ".plugin.target.port", "from 1 to 65535"},
		{"port of another type", "web: {readiness: {plugin: {name: x, target: {port: [1]}}}}", ready + ".plugin.target.port", "must be an integer"},
		{"unix beside a port", "web: {readiness: {plugin: {name: x, target: {unix: /a, port: 1}}}}", ready + ".plugin.target.unix", "together with host or port"},
		{"both spellings of the period", in("period: 1s, periodSeconds: 1"), ready + ".period", "periodSeconds"},
		{"both spellings of the timeout", in("timeout: 1s, timeoutSeconds: 1"), ready + ".timeout", "timeoutSeconds"},
		{"both spellings of the delay", in("initialDelay: 1s, initialDelaySeconds: 1"), ready + ".initialDelay", "initialDelaySeconds"},
		{"period below 10ms", in("period: 9.9ms"), ready + ".period", "at least 10ms"},
		{"period 0", in("period: 0s"), ready + ".period", "at least 10ms"},
		{"timeout below 10ms", in("timeout: 9ms"), ready + ".timeout", "at least 10ms"},
		{"negative delay", in("initialDelay: -1ms"), ready + ".initialDelay", "at least 0s"},
		{"negative seconds", in("periodSeconds: -1"), ready + ".periodSeconds", "at least 10ms"},
		{"a period without a unit", in("period: 500"), ready + ".period", "must be a duration such as 50ms, 1s or 1m30s"},
		{"a period that is no duration", in("period: soon"), ready + ".period", "invalid duration"},
		{"seconds that are a string", in("periodSeconds: '1'"), ready + ".periodSeconds", "must be an integer"},
		{"a fraction of seconds", in("periodSeconds: 0.5"), ready + ".periodSeconds", "must be an integer"},
		{"negative success threshold", in("successThreshold: -1"), ready + ".successThreshold", "at least 1"},
		{"negative failure threshold", in("failureThreshold: -1"), ready + ".failureThreshold", "at least 1"},
		{"warningAs", in("warningAs: error"), ready + ".warningAs", `"failure", "success"`},
		{"errorPolicy", in("errorPolicy: ignore"), ready + ".errorPolicy", `"discard", "failure"`},
		{"unhealthyPeriod below 10ms", in("unhealthyPeriod: 9ms"), ready + ".unhealthyPeriod", "at least 10ms"},
		{"unhealthyPeriod 0", in("unhealthyPeriod: 0s"), ready + ".unhealthyPeriod", "at least 10ms"},
		{"unhealthyPeriod without a unit", in("unhealthyPeriod: 5"), ready + ".unhealthyPeriod", "must be a duration such as 50ms, 1s or 1m30s"},
		{"jitter without a percent sign", in(`jitter: "0.1"`), ready + ".jitter", "from 0% to 100%"},
		{"jitter above 100%", in("jitter: 101%"), ready + ".jitter", "from 0% to 100%"},
		{"negative jitter", in("jitter: -1%"), ready + ".jitter", "from 0% to 100%"},
		{"jitter that is no number", in("jitter: NaN%"), ready + ".jitter", "from 0% to 100%"},
		{"initialState", in("initialState: warning"), ready + ".initialState", `"failure", "success", "unknown"`},
		{"initialState of a liveness probe", "web: {liveness: {plugin: {name: x}, initialState: success}}", web + ".liveness.initialState", "readiness probes only"},
		{"paused", in("paused: 1"), ready + ".paused", "must be true or false"},
		{"grace period of a readiness probe", in("terminationGracePeriodSeconds: 1"), ready + ".terminationGracePeriodSeconds", "readiness"},
		{"grace period 0", "web: {liveness: {plugin: {name: x}, terminationGracePeriodSeconds: 0}}", web + ".liveness.terminationGracePeriodSeconds", "greater than 0"},
		{"the API's own rules", "web: {readiness: {httpGet: {port: 0}}}", ready + ".httpGet.port", "65535"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := annotated(tc.text)
			pod.Spec.InitContainers = []v1.Container{{Name: "init"}}
			configs, errs := declared.ProbesOf(pod)
			if len(configs) > 0 || len(errs) != 1 {
				t.Fatalf("%d probes, errors %v", len(configs), errs)
			}
			e, ok := errs[0].(*field.Error)
			if !ok || e.Field != tc.path || !strings.Contains(e.Error(), tc.word) {
				t.Errorf("got %v\nwant path %s and %q", errs[0], tc.path, tc.word)
			}
		})
	}
	t.Run("every error of one probe is returned", func(t *testing.T) {
		_, errs := declared.ProbesOf(annotated(in("period: 1ms, timeout: 1ms, warningAs: x")))
		if len(errs) != 3 {
			t.Errorf("got %v", errs)
		}
	})
	t.Run("every unknown field is returned", func(t *testing.T) {
		_, errs := declared.ProbesOf(annotated(in("a: 1, b: 2")))
		if len(errs) != 2 {
			t.Errorf("got %v", errs)
		}
	})
	t.Run("an error of one probe leaves the others", func(t *testing.T) {
		pod := annotated(`
web:
  readiness: {plugin: {name: x}, period: 1ms}
  liveness: {plugin: {name: two}}
nope:
  liveness: {plugin: {name: z}}
`)
		pod.Spec.Containers[0].StartupProbe = execProbe()
		configs, errs := declared.ProbesOf(pod)
		var got []string
		for _, c := range configs {
			got = append(got, c.Kind.String()+" "+c.Handler)
		}
		if !slices.Equal(got, []string{"startup exec", "liveness two"}) || len(errs) != 2 {
			t.Errorf("got %v, errors %v", got, errs)
		}
	})
	t.Run("the container's own probe does not replace one with an error", func(t *testing.T) {
		pod := annotated("web: {readiness: {plugin: {name: x}, period: 1ms}}")
		pod.Spec.Containers[0].ReadinessProbe = execProbe()
		if configs, errs := declared.ProbesOf(pod); len(configs) > 0 || len(errs) != 1 {
			t.Errorf("got %v, errors %v", configs, errs)
		}
	})
}

// FuzzAnnotation checks that any annotation results in valid probes, or in errors with a path.
func FuzzAnnotation(f *testing.F) {
	for _, text := range []string{
		"web: {readiness: {plugin: {name: redis, target: {port: redis}, config: {a: [1, {b: c}]}}, period: 500ms}}",
		"web: {liveness: {exec: {command: [a]}, periodSeconds: 1, timeoutSeconds: 2}}",
		"web: {startup: {httpGet: {port: 80, httpHeaders: [{name: A, value: b}]}, paused: true}}",
		"web: {startup: {grpc: {port: 80, service: x}, warningAs: failure, errorPolicy: failure}}",
		"nope: {x: 1}\nweb: [", "web: &a {liveness: *a}", "", "0", "web: {readiness: {plugin: null, exec: null}}",
		"web: {readiness: {tcpSocket: {port: 1e3}, initialDelay: 2562047h47m16s, period: 1ns}}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pod := annotated(text)
		configs, errs := declared.ProbesOf(pod)
		for _, c := range configs {
			s := c.Spec
			if s.Period < 10*ms || s.Timeout < 10*ms || s.InitialDelay < 0 || s.SuccessThreshold < 1 || s.FailureThreshold < 1 {
				t.Errorf("spec %+v", s)
			}
			if c.Container != "web" || c.Handler == "" || len(c.Config) == 0 || c.Config[0] != '{' {
				t.Errorf("probe %+v, config %q", c, c.Config)
			}
		}
		for _, err := range errs {
			e, ok := err.(*field.Error)
			if !ok || !strings.HasPrefix(e.Field, at) {
				t.Errorf("an error without a path: %v", err)
			}
		}
		again, _ := declared.ProbesOf(pod)
		if len(again) != len(configs) {
			t.Errorf("%d probes, then %d", len(configs), len(again))
		}
	})
}

func TestAnnotationInJSON(t *testing.T) {
	const text = `{"web": {"readiness": {"plugin": {"name": "redis", "target": {"port": 6379}, "config": {"a": [{"b": 1}, {"b": 2}], "c": "\u00e9\ud83d\ude00"}}, "period": "500ms"}}}`
	got := one(t, text)
	if string(got.Config) != `{"a":[{"b":1},{"b":2}],"c":"\u00e9\ud83d\ude00"}` || got.Spec.Period != 500*ms || got.Target.Port != 6379 {
		t.Errorf("got %+v, config %s", got, got.Config)
	}
	for _, twice := range []string{
		`{"web": {"readiness": {"plugin": {"name": "a"}}}, "web": {}}`,
		`{"web": {"readiness": {"plugin": {"name": "a"}}, "readiness": {}}}`,
		`{"web": {"readiness": {"plugin": {"name": "a", "config": {"b": 1, "b": 2}}}}}`,
		`{"web": {"readiness": {"plugin": {"name": "a", "config": {"b": [1, {"c": {}, "d": [], "c": 2}]}}}}}`,
	} {
		if configs, errs := declared.ProbesOf(annotated(twice)); len(errs) != 1 || len(configs) > 0 || !strings.Contains(errs[0].Error(), "already set") {
			t.Errorf("%s: %v, %v", twice, configs, errs)
		}
	}
}

// A few thousand bytes of YAML can stand for hundreds of millions with their aliases expanded.
func TestAnnotationIsBounded(t *testing.T) {
	const size = 250 << 10
	aliases := "b: [" + strings.Repeat("*a,", size/6) + "]\n"
	var chain strings.Builder
	chain.WriteString("a0: &a0 x\n")
	for i := 1; i < 5000; i++ {
		chain.WriteString(fmt.Sprintf("a%d: &a%d [*a%d]\n", i, i, i-1))
	}
	const bomb = "the aliases expand to more than 1048576 bytes"
	for name, c := range map[string]struct{ text, want string }{
		"binary scalar":     {"a: &a !!binary " + strings.Repeat("QUFB", size/8) + "\n" + aliases, bomb},
		"long number":       {"a: &a 1" + strings.Repeat("1", size/2) + "\n" + aliases, bomb},
		"long fraction":     {"a: &a 0." + strings.Repeat("1", size/2) + "\n" + aliases, bomb},
		"mapping":           {"a: &a {x: y}\n" + aliases, bomb},
		"empty text":        {"a: &a ''\n" + aliases, bomb},
		"merge keys":        {"a: &a {x: y}\nb: {" + strings.Repeat("<<: *a, ", size/8) + "}", bomb},
		"aliases of lists":  {"a: &a [" + strings.Repeat("1,", 3000) + "]\nb: &b [" + strings.Repeat("*a,", 1000) + "]\nc: [" + strings.Repeat("*b,", 1000) + "]", bomb},
		"chain of anchors":  {chain.String(), bomb},
		"anchor in itself":  {"a: &a [*a]", `anchor "a" contains itself`},
		"list":              {"[" + strings.Repeat("1,", size/2) + "]", "must be a mapping"},
		"mappings":          {"b: [" + strings.Repeat("{x: y},", size/7) + "]", "must be a mapping"},
		"comments":          {"a:\n" + strings.Repeat(" - 1 #x\n", size/8), "must be a mapping"},
		"levels":            {strings.Repeat("[", size), "exceeded max depth"},
		"one name":          {strings.Repeat("? a\n", size/4), "already set in map"},
		"empty documents":   {strings.Repeat("---\n", size/4) + "a: {}", "must be one document"},
		"second document":   {"web: {}\n---\nweb: {readiness: {tcpSocket: {port: 1}}}\n", "must be one document"},
		"rest of a mapping": {`{"web": {}}, "web": {"readiness": {}}`, "did not find expected <document start>"},
		"one brace more":    {"{web: {}} }", "did not find expected <document start>"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		errs := declared.Parse(annotated(c.text)).Errors()
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; len(errs) == 0 || !strings.Contains(errs[0].Error(), c.want) || took > 200<<20 {
			t.Errorf("%s: %d MiB, %.200v, want %q", name, took>>20, errs, c.want)
		}
	}
	for _, text := range []string{"web: {readiness: {tcpSocket: {port: 1}}}\n...\n", "---\nweb: {readiness: {tcpSocket: {port: 1}}}\n---\n"} {
		one(t, text)
	}
}

func TestAnnotationWithAliases(t *testing.T) {
	few := one(t, "web: {readiness: {tcpSocket: {port: 80}, period: &p 2s, timeout: *p}}")
	if few.Spec.Timeout != 2*time.Second {
		t.Errorf("timeout %v", few.Spec.Timeout)
	}
}

// A reference takes four bytes, and a variable may be as large as the pod.
func TestCommandsAreBounded(t *testing.T) {
	const value, each = 100 << 10, 15
	command := strings.Repeat("$(A)", each)
	declares := func(n int) *v1.Pod {
		var text strings.Builder
		pod := podOf("u")
		for i := range n {
			c := v1.Container{Name: fmt.Sprintf("c%d", i), Env: []v1.EnvVar{{Name: "A", Value: strings.Repeat("x", value)}}}
			if i%2 == 0 {
				fmt.Fprintf(&text, "%s: {readiness: {exec: {command: [%s]}}}\n", c.Name, command)
			} else {
				c.ReadinessProbe = execProbe(command)
			}
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
		pod.Annotations = map[string]string{declared.Annotation: text.String()}
		return pod
	}
	d := declared.Parse(declares(3)) // 4.5 MiB
	const why = ": Invalid value: all commands of the probes of the pod take more than 2097152 bytes with their variables"
	if got := d.Errors(); len(d.Probes()) != 1 || len(got) != 2 || got[0].Error() != at+"[c2].readiness.exec.command"+why ||
		got[1].Error() != "spec.containers[1].readinessProbe.exec.command"+why {
		t.Errorf("%d probes, errors %v", len(d.Probes()), got)
	}
	short := declares(3)
	short.Spec.Containers = append(short.Spec.Containers, container("short", probe.Liveness))
	if got := declared.Parse(short).Probes(); len(got) != 2 {
		t.Errorf("%d probes, want the first and the short one", len(got))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	many := declared.Parse(declares(200)) // 300 MiB
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; len(many.Probes()) != 1 || took > 100<<20 {
		t.Errorf("%d probes after %d MiB", len(many.Probes()), took>>20)
	}
}

// An annotation of 256 KiB has room for tens of thousands of errors, all of which would be compared and
// kept.
func TestAnnotationWithManyErrors(t *testing.T) {
	many := func(format string) string {
		texts := make([]string, 5000)
		for i := range texts {
			texts[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(texts, ",")
	}
	for name, text := range map[string]string{
		"containers": "{" + many(`"x%d":{}`) + "}",
		"kinds":      `{"web":{` + many(`"x%d":{}`) + "}}",
		"headers":    `{"web":{"readiness":{"httpGet":{"port":80,"httpHeaders":[` + many(`{"name":"%d:"}`) + "]}}}}",
	} {
		d := declared.Parse(annotated(text))
		errs := d.Errors()
		if want := at + ": Invalid value: has 4900 more errors"; len(errs) != 101 || errs[100].Error() != want {
			t.Errorf("%s: %d errors, the last one %v", name, len(errs), errs[len(errs)-1])
		}
	}
	for _, err := range declared.Parse(annotated("{" + many("a") + "}")).Errors() { // one error of the parser with 5000 lines
		if n := len(err.Error()); n > 5000 {
			t.Errorf("an error has %d bytes", n)
		}
	}
}
