package targets_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/pods/targets"
)

// probed formats the address of a pod, and its probe: handler, config and spec.
func probed(t *testing.T, d *declared.Pod) string {
	t.Helper()
	if d == nil {
		return "no pod"
	}
	pod, configs, errs := d.Pod(), d.Probes(), d.Errors()
	if len(configs) != 1 || len(errs) > 0 || len(pod.Spec.Containers[0].Command) > 0 {
		return fmt.Sprint("probes ", configs, errs)
	}
	c := &configs[0]
	text := fmt.Sprintf("%s %s %s %s", pod.Annotations["prober.dev/address"], c.Kind, c.Handler, c.Config)
	if c.Target.Port != 0 {
		text += fmt.Sprintf(" port %d", c.Target.Port)
	}
	return text
}

func TestAddressFillsUnsetFieldsOfProbe(t *testing.T) {
	for _, c := range []struct{ probe, address, want string }{
		{"httpGet: {path: /ready}", "10.0.0.7:8080", `10.0.0.7 readiness http {"path":"/ready","port":8080,"scheme":"HTTP"}`},
		{"httpGet: {path: /ready, port: 80}", "10.0.0.7:8080", `10.0.0.7 readiness http {"path":"/ready","port":80,"scheme":"HTTP"}`},
		{"httpGet: {}", "db.example.com", `db.example.com readiness http {"path":"/","port":80,"scheme":"HTTP"}`},
		{"httpGet: {scheme: HTTPS}", "DB.example.com.", `db.example.com readiness http {"path":"/","port":443,"scheme":"HTTPS"}`},
		{"httpGet: {path: /a}", "https://shop.example/b?c=d", `shop.example readiness http {"path":"/b?c=d","port":443,"scheme":"HTTPS"}`},
		{"httpGet: {path: /a, port: 1}", "http://shop.example:81/", `shop.example readiness http {"path":"/a","port":81,"scheme":"HTTP"}`},
		{"httpGet: {path: /a}, period: 100ms", "http://shop.example:81/", `shop.example readiness http {"path":"/a","port":81,"scheme":"HTTP"}`},
		{"tcpSocket: {}", "[2001:db8::1]:53", `2001:db8::1 readiness tcp {"port":53}`},
		{"tcpSocket: {port: 22}", "2001:DB8::1", `2001:db8::1 readiness tcp {"port":22}`},
		{"tcpSocket: {}, errorPolicy: failure", "h:22", `h readiness tcp {"port":22}`},
		{"grpc: {service: a}", "h:50051", `h readiness grpc {"port":50051,"service":"a"}`},
		{"plugin: {name: redis}", "h:6379", `h readiness redis {} port 6379`},
		{"plugin: {name: redis, target: {port: 1}}", "h:6379", `h readiness redis {} port 1`},
		{"plugin: {name: redis, config: {a: 1}}", "h", `h readiness redis {"a":1}`},
		{"plugin: {name: redis, target: {unix: /run/x}}", "h:6379", `h readiness redis {}`},
		{"plugin: {name: web, config: {url: /a, b: 1}}", "https://h/c?d", `h readiness web {"b":1,"url":"https:///c?d"} port 443`},
		{"plugin: {name: web, config: {url: 'https://x/a'}}", "http://h:81/", `h readiness web {"url":"http:///a"} port 81`},
		{"plugin: {name: web, target: {port: 1}, config: {url: 'https://'}}", "http://h", `h readiness web {"url":"http:///"} port 80`},
		{"plugin: {name: web, config: {url: 'https:///a'}}", "h:81", `h readiness web {"url":"https:///a"} port 81`},
		{"exec: {command: [check, $(TARGET_HOST), $(TARGET_PORT), $(TARGET_ADDRESS)]}", "h:1", `h readiness exec {"command":["check","h","1","h:1"]}`},
	} {
		r := newRig(t, fmt.Sprintf("targets: [{name: g, probe: {%s}, static: [%q]}]\n", c.probe, c.address))
		for _, pod := range r.generate() {
			if got := probed(t, pod); got != c.want {
				t.Errorf("%s of %s:\ngot  %s\nwant %s", c.probe, c.address, got, c.want)
			}
		}
		if got := r.source.Targets().Items; len(got) != 1 || got[0].State != "probed" {
			t.Errorf("%s of %s: %+v", c.probe, c.address, got)
		}
	}
}

// Others than the operator may write a list, so an address with a reference to a secret must not receive the secret.
func TestAddressWithSecretReferenceIsDropped(t *testing.T) {
	for _, probe := range []string{"httpGet: {}", "httpGet: {httpHeaders: [{name: A, value: '${env:TOKEN}'}]}", "plugin: {name: web, config: {url: 'https:///'}}"} {
		for _, reference := range []string{"${env:TOKEN}", "a${file:/etc/passwd}b"} {
			r := newRig(t, "targets: [{name: g, probe: {"+probe+"}, file: [t.json]}]\n")
			r.write("t.json", `[{"targets": ["https://h/?x=`+reference+`", "https://h/?x=$y"]}]`)
			if all := r.generate(); len(all) != 1 || !strings.Contains(fmt.Sprint(r.list()), "the address must not refer to a secret") {
				t.Errorf("%s of %s: %q", probe, reference, r.list())
			}
		}
	}
}

// The pod of a target has no annotation and no container probes that could be parsed differently from its probe.
func TestPodsOfTargetsCarryNoProbe(t *testing.T) {
	for _, action := range []string{"httpGet: {}", "tcpSocket: {}", "grpc: {}", "exec: {command: [a]}", "plugin: {name: redis}", "plugin: {name: http}"} {
		r := newRig(t, "targets: [{name: g, probe: {"+action+", period: 100ms, warningAs: failure}, static: ['h:1']}]\n")
		d := r.generate()["g-h-1"]
		pod := d.Pod()
		c := &pod.Spec.Containers[0]
		if _, text := pod.Annotations[declared.Annotation]; text || c.ReadinessProbe != nil || c.LivenessProbe != nil || c.StartupProbe != nil {
			t.Errorf("%s: the pod is %+v", action, pod)
		}
		if all := d.Probes(); len(all) != 1 || all[0].Container != c.Name || len(d.Errors()) > 0 {
			t.Errorf("%s: %+v, %v", action, all, d.Errors())
		}
	}
}

func TestProbeSpecEqualsAnnotation(t *testing.T) {
	const fields = "httpGet: {port: 80}, initialDelay: 3s, period: %s, timeout: 2s, failureThreshold: 5, successThreshold: 2"
	r := newRig(t, fmt.Sprintf("targets:\n- {name: whole, probe: {%s}, static: [h]}\n- {name: part, probe: {%s}, static: [h]}\n",
		fmt.Sprintf(fields, "30s"), fmt.Sprintf(fields, "30500ms")))
	var specs []string
	pods := r.generate()
	for _, name := range []string{"whole-h", "part-h"} {
		specs = append(specs, fmt.Sprint(pods[name].Probes()[0].Spec))
	}
	if specs[1] != strings.ReplaceAll(specs[0], "30s", "30.5s") {
		t.Errorf("got %v", specs)
	}
}

// Secret references in a probe stay unresolved in its config. The manager resolves them.
func TestSecretsOfProbesAreReferences(t *testing.T) {
	r := newRig(t, "targets: [{name: g, static: [h], probe: {httpGet: {httpHeaders: [{name: Authorization, value: '${file:/run/token}'}]}}}]\n")
	d := r.generate()["g-h"]
	configs := d.Probes()
	if len(d.Errors()) > 0 || len(configs) != 1 {
		t.Fatal(configs, d.Errors())
	}
	if diff := cmp.Diff([]declared.SecretReference{{Source: "file", Name: "/run/token"}}, configs[0].SecretReferences()); diff != "" {
		t.Error(diff)
	}
}

func TestTargetsHaveKindsOfPods(t *testing.T) {
	for _, kind := range []string{"readiness", "liveness", "startup"} {
		for _, period := range []string{"1s", "100ms"} {
			r := newRig(t, fmt.Sprintf("targets: [{name: g, kind: %s, probe: {tcpSocket: {}, period: %s}, static: ['h:1']}]\n", kind, period))
			want := "h " + kind + ` tcp {"port":1}`
			if got := probed(t, r.generate()["g-h-1"]); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}
}

func TestBadTargetDropsNoOther(t *testing.T) {
	r := newRig(t, `targets:
- {name: g, probe: {tcpSocket: {}}, file: [g.json]}
- {name: u, probe: {httpGet: {}}, file: [u.json]}
- {name: w, probe: {plugin: {name: web, target: {unix: /run/x}, config: {url: /}}}, file: [w.json]}
`)
	r.write("g.json", `[{"targets": ["h:1", "h", "a b:1", "h:0", "h:x", "http://h:1", "h:1", "fe80::1%eth0"]}]`)
	r.write("u.json", `[{"targets": ["ftp://h", "http://u:p@h", "http://[::1"]}]`)
	r.write("w.json", `[{"targets": ["http://h"]}]`)
	pods := r.generate()
	want := []string{
		"g h:1: probed g-h-1",
		"g h: dropped g-h neither the address nor the probe has a port",
		`g a b:1: dropped g-a-b-1 "a b" is neither an IP address nor a host name`,
		`g h:0: dropped g-h-0 the port "0" must be a number from 1 to 65535`,
		`g h:x: dropped g-h-x the port "x" must be a number from 1 to 65535`,
		"g http://h:1: dropped g-h-1 a URL needs an HTTP probe, or a plugin with url in its config",
		`g h:1: dropped g-h-1 the name "h:1" is already that of a target at file g.json:1`,
		`g fe80::1%eth0: dropped g-fe80-1-eth0 "fe80::1%eth0": an IPv6 address must not have a zone`,
		`u ftp://h: dropped u-h the scheme of a URL must be http or https, not "ftp"`,
		"u http://redacted@h: dropped u-redacted-h a URL must not have a user or a password",
		"u http://[::1: dropped u-1 the address is not a valid URL",
		"w http://h: dropped w-h a URL needs an HTTP probe, or a plugin with url in its config",
	}
	if diff := cmp.Diff(want, r.list()); diff != "" || len(pods) != 1 {
		t.Errorf("%d pods, %s", len(pods), diff)
	}
}

func TestPodNamesAreUniqueDNSLabels(t *testing.T) {
	long := strings.Repeat("long.", 20) + "example"
	r := newRig(t, fmt.Sprintf(`targets:
- {name: a, probe: {httpGet: {}}, static: [b-c, b.c, %s, %s.org]}
- {name: a-b, probe: {httpGet: {}}, static: [c]}
- {name: other, namespace: apart, probe: {httpGet: {}}, static: [c]}
- {name: m, probe: {httpGet: {}}, static: [taken]}
`, long, long))
	r.others = []*declared.Pod{declared.Parse(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "targets", Name: "m-taken"}})}
	pods := r.generate()
	uids := make(map[string]bool)
	for name, pod := range pods {
		if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
			t.Errorf("%q: %v", name, errs)
		}
		uids[string(pod.Pod().UID)] = true
	}
	if len(pods) != 7 || len(uids) != 7 || pods["a-b-c"] == nil || pods["m-taken"] != nil {
		t.Errorf("%d pods, %d UIDs: %v", len(pods), len(uids), r.list())
	}
	if pods["other-c"].Pod().Namespace != "apart" {
		t.Errorf("namespace %q", pods["other-c"].Pod().Namespace)
	}
	again := r.generate()
	for name := range pods {
		if pods[name] != again[name] {
			t.Errorf("%s is another pod after nothing has changed", name)
		}
	}
}

func TestRelabelling(t *testing.T) {
	r := newRig(t, `targets:
- name: g
  probe: {httpGet: {}}
  labels: {team: shop, env: prod}
  file: [sd.yml]
  relabel:
  - {name: "{{.labels.instance | default .host}}"}
  - {labels: {zone: '{{if match "10[.].*" .host}}inner{{else}}outer{{end}}', env: ""}}
  - {drop: '{{eq .labels.stage "dev"}}'}
  - {address: '{{.host}}:{{.labels.__port}}'}
  - {drop: '{{.labels.bad}}'}
`)
	r.write("sd.yml", `
- {targets: ["10.0.0.1:1"], labels: {instance: db-1, __port: 5432, team: base}}
- {targets: ["192.0.2.1"], labels: {__port: 80, odd: "a b", "no/slash/": x}}
- {targets: ["192.0.2.2"], labels: {stage: dev}}
- {targets: ["192.0.2.3"], labels: {__port: 80, bad: perhaps}}
- {targets: ["192.0.2.4"]}
`)
	pods := r.generate()
	want := []string{
		"g db-1: probed g-db-1",
		"g 192.0.2.1: probed g-192-0-2-1",
		`g 192.0.2.2: dropped g-192-0-2-2 dropped by relabel[2]: {{eq .labels.stage "dev"}}`,
		`g 192.0.2.3: dropped g-192-0-2-3 relabel[4]: the result of drop must be true or false, not "perhaps"`,
		`g 192.0.2.4: dropped g-192-0-2-4 "192.0.2.4:" is not an address: must be HOST, HOST:PORT or a URL`,
	}
	if diff := cmp.Diff(want, r.list()); diff != "" {
		t.Error(diff)
	}
	first := pods["g-db-1"]
	if diff := cmp.Diff(map[string]string{"team": "base", "zone": "inner", "instance": "db-1", "prober.dev/target-group": "g"}, first.Pod().Labels); diff != "" {
		t.Error(diff)
	}
	if got := first.Pod().Annotations["prober.dev/target-address"]; got != "10.0.0.1:5432" {
		t.Errorf("address %q", got)
	}
	second := pods["g-192-0-2-1"]
	if diff := cmp.Diff(map[string]string{"team": "shop", "zone": "outer", "prober.dev/target-group": "g"}, second.Pod().Labels); diff != "" {
		t.Error(diff)
	}
	if got := second.Pod().Annotations["prober.dev/target-labels"]; got != `{"no/slash/":"x","odd":"a b"}` {
		t.Errorf("odd labels %s", got)
	}
	all := map[string]string{"team": "shop", "zone": "outer", "no/slash/": "x", "odd": "a b", "prober.dev/target-group": "g"}
	if diff := cmp.Diff(all, second.WithStatus(v1.PodStatus{}).Labels()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"team": "shop", "zone": "outer", "no/slash/": "x", "odd": "a b"}, r.source.Targets().Items[1].Labels); diff != "" {
		t.Error(diff)
	}
}

// Two entries with the same address and different names are two targets. Unchanged targets keep their pods.
//
// Reported as cloudprober 644; traefik 13223; consul 6914.
func TestUnchangedTargetsKeepTheirPods(t *testing.T) {
	r := newRig(t, `targets:
- name: g
  probe: {httpGet: {}}
  file: [sd.json]
  relabel: [{name: "{{.labels.n}}"}]
- name: placed
  probe: {httpGet: {}}
  file: [sd.json]
  relabel: [{name: "{{.labels.n}}"}, {labels: {at: "{{.source}}"}}]
`)
	entry := func(name string) string { return `{"targets": ["h:1"], "labels": {"n": "` + name + `"}}` }
	r.write("sd.json", "["+entry("a")+",\n"+entry("b")+",\n"+entry("c")+"]")
	first := r.generate()
	for name, pod := range r.generate() {
		if pod != first[name] {
			t.Errorf("%s has another pod, and nothing has changed", name)
		}
	}
	r.write("sd.json", "["+entry("x")+",\n"+entry("b")+",\n\n"+entry("c")+",\n"+entry("a")+"]")
	second := r.generate()
	if want := []string{"g-a", "g-b", "g-c", "g-x", "placed-a", "placed-b", "placed-c", "placed-x"}; !slices.Equal(names(second), want) {
		t.Fatalf("got %v", r.list())
	}
	for _, name := range []string{"g-a", "g-b", "g-c", "placed-b"} {
		if second[name] != first[name] {
			t.Errorf("%s has another pod, and only others have changed", name)
		}
	}
	for name, line := range map[string]string{"a": "5", "b": "2", "c": "4", "x": "1"} {
		pod := second["placed-"+name]
		if _, got, _ := strings.Cut(pod.Pod().Annotations["prober.dev/target-labels"], "sd.json:"); !strings.HasPrefix(got, line) {
			t.Errorf("%s: labels %v %v, want line %s", name, pod.Pod().Labels, pod.Pod().Annotations, line)
		}
	}
}

// Listed text is only data. It is never executed as a template, and never parsed as part of another field.
func TestListedTextIsOnlyData(t *testing.T) {
	r := newRig(t, `targets:
- name: g
  probe: {httpGet: {}}
  file: [sd.json]
  relabel:
  - {name: "{{.labels.n}}"}
  - {labels: {copy: "{{.labels.n}}"}}
`)
	evil := `{{range 1000000000}}\u001b[31m\n---\nmetadata: {{.Env}}`
	r.write("sd.json", `[{"targets": ["h:1"], "labels": {"n": "`+evil+`"}}, {"targets": ["`+evil+`"]}, {"targets": ["h"], "labels": {"n": "`+strings.Repeat("x", 10000)+`"}}]`)
	for name, pod := range r.generate() {
		if len(validation.IsDNS1123Label(name)) > 0 || len(pod.Pod().Labels) != 1 || len(pod.Pod().Annotations) != 3 {
			t.Errorf("%q %v %v", name, pod.Pod().Labels, pod.Pod().Annotations)
		}
	}
	items := r.source.Targets().Items
	if len(items) != 3 || items[0].State != "probed" || items[1].State != "dropped" || items[2].Reason != "relabel[0]: the result has more than 4096 bytes" {
		t.Errorf("%+v", items)
	}
}

// A list cannot make a template use much memory. A long address is dropped before the relabel steps, and
// template functions refuse long results.
func TestTemplateResultsAreLimited(t *testing.T) {
	const long = "relabel[0]: the result has more than 4096 bytes"
	for _, c := range []struct{ template, address, want string }{
		{`{{if replace "." .labels.sep .address}}{{end}}`, strings.Repeat(".", 64<<10), "the address has more than 2048 bytes"},
		{`{{if replace "." .labels.sep .address}}{{end}}`, strings.Repeat("a.", 1000), long},
		{`{{if replace "" .labels.sep .address}}{{end}}`, "a", long},
		{`{{if print .address .address .address}}{{end}}`, strings.Repeat("a", 2000), long},
		{`{{if println .labels}}{{end}}`, "a", long},
		{`{{if html .address}}{{end}}`, strings.Repeat("&", 1000), long},
		{`{{if js .address}}{{end}}`, strings.Repeat("<", 1000), long},
		{`{{if urlquery .address}}{{end}}`, strings.Repeat("&", 2000), long},
	} {
		t.Run(c.template, func(t *testing.T) {
			r := newRig(t, "targets:\n- {name: g, probe: {httpGet: {}}, file: [sd.json], relabel: [{drop: '"+c.template+"'}]}\n")
			r.write("sd.json", fmt.Sprintf(`[{"targets": [%q], "labels": {"sep": %q}}]`, c.address, strings.Repeat("x", 8<<10)))
			r.generate()
			if items := r.source.Targets().Items; len(items) != 1 || items[0].Reason != c.want {
				t.Errorf("got %.200q, want %q", r.list(), c.want)
			}
		})
	}
	r := newRig(t, "targets: [{name: g, probe: {httpGet: {}}, static: [a.b], relabel: [{name: '{{replace \".\" \"-\" .host | print .group \"/\" | html}}'}]}]\n")
	if r.generate(); r.list()[0] != "g g/a-b: probed g-g-a-b" {
		t.Errorf("got %q", r.list())
	}
}

func TestGenerateReportsFileAndLine(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown field of a probe", "modules:\n- name: m\n  probe:\n    httpGet: {}\n    perod: 1s\ntargets:\n- {name: g, module: m, static: [h]}\n- {name: f, module: m, static: [h]}\n",
			"prober.yaml:7: modules[0].probe.perod: unknown field (did you mean \"period\"?)"},
		{"no handler", "targets:\n- name: g\n  static: [h]\n  probe: {period: 1s}\n", "prober.yaml:6: targets[0].probe: is required: must specify a handler type"},
		{"two handlers", "targets:\n- name: g\n  static: [h]\n  probe: {tcpSocket: {}, grpc: {port: 1}}\n", "prober.yaml:6: targets[0].probe.grpc: may not specify more than 1 handler type"},
		{"named port", "targets:\n- name: g\n  static: [h]\n  probe:\n    tcpSocket:\n      port: web\n", "prober.yaml:8: targets[0].probe.tcpSocket.port: must be a number: a target has no named ports"},
		{"short period", "targets:\n- name: g\n  static: [h]\n  probe:\n    tcpSocket: {}\n    period: 1ms\n", "prober.yaml:8: targets[0].probe.period: must be at least 10ms"},
		{"template", "targets:\n- name: g\n  static: [h]\n  probe: {httpGet: {}}\n  relabel:\n  - {name: \"{{.labels\"}\n", "prober.yaml:8: targets[0].relabel[0].name: unclosed action"},
		{"loop", "targets:\n- name: g\n  static: [h]\n  probe: {httpGet: {}}\n  relabel:\n  - {name: \"{{range 9}}{{end}}\"}\n", "prober.yaml:8: targets[0].relabel[0].name: {{range 9}}{{end}} is not allowed in a template"},
		{"printf", "targets:\n- name: g\n  static: [h]\n  probe: {httpGet: {}}\n  relabel:\n  - {name: \"{{.host | printf `%099999999d`}}\"}\n", "prober.yaml:8: targets[0].relabel[0].name: printf is not allowed in a template; print joins texts"},
		{"field of the target", "targets:\n- name: g\n  static: [h]\n  probe: {httpGet: {}}\n  relabel:\n  - {drop: \"{{eq .adress `x`}}\"}\n",
			`prober.yaml:8: targets[0].relabel[0].drop: unknown field .adress; known: address, group, host, labels, name, port, source (did you mean "address"?)`},
		{"unknown module", "targets:\n- {name: g, module: n, static: [h]}\n", `prober.yaml:4: targets[0].module: unknown module "n"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := newRig(t, c.text).refused(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestCheckRefusesProbeOfGroupOnce(t *testing.T) {
	r := newRig(t, "modules:\n- name: m\n  probe:\n    plugin: {name: redis, config: {a: 1}}\ntargets:\n- {name: g, module: m, static: ['h:1', 'h:2']}\n")
	checked := 0
	r.check = func(*declared.Pod) []error {
		checked++
		return []error{errors.New(`targets[g].probe: handler "redis": unknown`)}
	}
	if got, want := r.refused(), `prober.yaml:6: modules[0].probe: handler "redis": unknown`; got != want || checked != 1 {
		t.Errorf("%d checks, got %q, want %q", checked, got, want)
	}
	r.check = func(*declared.Pod) []error { return nil }
	if len(r.generate()) != 2 {
		t.Errorf("got %v", r.list())
	}
}

// A wrong static target is an error of prober.yaml.
func TestGenerateRefusesWrongStaticTarget(t *testing.T) {
	const probe = "targets:\n- {name: g, probe: {tcpSocket: {}}, static: [%s]}\n"
	r := newRig(t, fmt.Sprintf(probe, "'h:1'"))
	first := r.generate()["g-h-1"]
	for _, c := range []struct{ static, want string }{
		{"'h:1', 'a b:1'", `prober.yaml:4: target "a b:1" of group g: "a b" is neither an IP address nor a host name`},
		{"'h:1', 'h:1'", `prober.yaml:4: target "h:1" of group g: the name "h:1" is already that of a target at static prober.yaml:4`},
		{"h", `prober.yaml:4: target "h" of group g: neither the address nor the probe has a port`},
	} {
		r.write("prober.yaml", head+fmt.Sprintf(probe, c.static))
		if got := r.refused(); got != c.want {
			t.Errorf("got %s\nwant %s", got, c.want)
		}
		if got := r.list(); len(got) != 1 || got[0] != "g h:1: probed g-h-1" {
			t.Errorf("after a refusal: %q", got)
		}
	}
	r.write("prober.yaml", head+fmt.Sprintf(probe, "'h:1', 'h:2'"))
	if pods := r.generate(); pods["g-h-1"] != first || len(pods) != 2 {
		t.Errorf("got %q", r.list())
	}
}

// A refused group is forgotten when prober.yaml changes, even if the new contents have an error elsewhere.
func TestGenerateForgetsRefusedGroup(t *testing.T) {
	const text = "targets: [{name: g, probe: {plugin: {name: %s}}, static: [h]}]\n"
	r := newRig(t, fmt.Sprintf(text, "good"))
	r.check = func(d *declared.Pod) []error {
		if d.Probes()[0].Handler == "bad" {
			return []error{errors.New("bad")}
		}
		return nil
	}
	first := r.generate()["g-h"]
	r.write("prober.yaml", head+fmt.Sprintf(text, "bad"))
	if got := r.refused(); got != "prober.yaml:3: targets[0].probe: bad" {
		t.Error(got)
	}
	r.write("prober.yaml", head+"targets: [")
	if r.generate()["g-h"] != first {
		t.Error("another pod of the same target")
	}
}

func TestTargetsRemovedFromConfigEnd(t *testing.T) {
	for _, rest := range []string{"targets: []\n", "", "plugins: []\n"} {
		r := newRig(t, "targets: [{name: g, probe: {httpGet: {}}, static: [h]}]\n")
		if r.generate()["g-h"] == nil {
			t.Fatal("no target")
		}
		r.write("prober.yaml", head+rest)
		if got := r.generate(); len(got) > 0 {
			t.Errorf("%q: %d targets are probed", rest, len(got))
		}
	}
}

func TestTimeoutLongerThanPeriodIsWarning(t *testing.T) {
	for times, want := range map[string]string{
		"period: 1s, timeout: 2s":                      "the timeout of 2s is longer than the period of 1s",
		"period: 5s, timeout: 2s, unhealthyPeriod: 1s": "the timeout of 2s is longer than the unhealthyPeriod of 1s",
	} {
		var log bytes.Buffer
		r := newRig(t, "targets:\n- name: g\n  static: [h]\n  probe: {httpGet: {}, "+times+"}\n")
		r.source = targets.New(targets.Config{ConfigFile: r.path("prober.yaml"), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		r.generate()
		if want := "prober.yaml:6: targets[0].probe.timeout: " + want; !strings.Contains(log.String(), want) {
			t.Errorf("%s: got %s", times, log.String())
		}
	}
}

func TestTimeoutOfWitness(t *testing.T) {
	for timeout, want := range map[string]string{
		"2s": "", "2100ms": "prober.yaml:5: targets[0].probe: the timeout of 2.1s must be at most 2s, since uplink names the group g: other probes wait for it",
	} {
		r := newRig(t, "targets:\n- name: g\n  probe: {tcpSocket: {port: 1}, timeout: "+timeout+"}\n  static: [h]\nuplink: [g]\n")
		_, err := r.source.Generate(t.Context(), true, nil, r.check)
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.HasSuffix(got, want) && want != "" {
			t.Errorf("timeout %s: got %s, want %s", timeout, got, want)
		}
	}
}

func TestBadConfigKeepsLastGoodTargets(t *testing.T) {
	const good = "targets: [{name: g, probe: {httpGet: {}}, static: [h]}]\n"
	r := newRig(t, good)
	first := r.generate()["g-h"]
	r.write("prober.yaml", head+"targets: [{name: g}]\n")
	if r.generate()["g-h"] != first { // the first call only returns the error, which the agent reports for the plugins
		t.Error("a prober.yaml that cannot be read has ended a target")
	}
	r.write("prober.yaml", head+"targets: [{name: g, probe: {}, static: [h]}]\n")
	for range 2 {
		if got := r.refused(); got != "prober.yaml:3: targets[0].probe: is required: must specify a handler type" {
			t.Error(got)
		}
	}
	r.write("prober.yaml", head+"targets: [")
	for i := range 2 { // the second call does not read the file
		if _, err := r.source.Generate(t.Context(), false, nil, r.check); err != nil {
			t.Errorf("call %d returns the error of older contents: %v", i, err)
		}
	}
	r.write("prober.yaml", head+good)
	if r.generate()["g-h"] != first {
		t.Error("another pod of the same target")
	}
}
