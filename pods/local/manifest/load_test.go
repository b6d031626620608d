package manifest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/pods/local/manifest"
)

func writeFile(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func podNames(pods []*declared.Pod) (names []string) {
	for _, p := range pods {
		names = append(names, p.Pod().Namespace+"/"+p.Pod().Name)
	}
	return names
}

const minimal = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec: {containers: [{name: c}]}\n"

func named(name string) string { return strings.Replace(minimal, "NAME", name, 1) }

func TestLoadReadsFilesFoldersAndStdin(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "b.yaml", named("b1")+"---\n# nothing\n---\n"+named("b2"))
	writeFile(t, dir, "a.yml", "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: ''}\nitems:\n- "+strings.ReplaceAll(strings.TrimSpace(named("a1")), "\n", "\n  ")+"\n")
	writeFile(t, dir, "c.json", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c1", "namespace": "other"}, "spec": {"containers": [{"name": "c"}]}}`)
	writeFile(t, dir, "d.txt", "no manifest")
	s := &manifest.Source{Paths: []string{dir, filepath.Join(dir, "b.yaml"), "-"}, Stdin: strings.NewReader(named("in"))}
	for range 2 { // stdin is read once
		loaded, err := s.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"default/a1", "default/b1", "default/b2", "other/c1", "default/in"}
		if diff := cmp.Diff(want, podNames(loaded.Pods)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestLoadCommandNeedsLinux(t *testing.T) {
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: external\n  - name: c\n    command: [sleep, '1']\n"
	for _, system := range []string{"", "linux"} {
		if _, err := (&manifest.Source{Paths: []string{"-"}, Stdin: strings.NewReader(text), System: system}).Load(t.Context()); err != nil {
			t.Errorf("system %q: %v", system, err)
		}
	}
	for _, system := range []string{"darwin", "windows", "freebsd"} {
		_, err := (&manifest.Source{Paths: []string{"-"}, Stdin: strings.NewReader(text), System: system}).Load(t.Context())
		if want := "-:8: spec.containers[1].command: local pods need Linux"; !errors.Is(err, manifest.ErrNeedsLinux) || err.Error() != want {
			t.Errorf("system %q: %v, want %s", system, err, want)
		}
	}
}

func TestLoadSetsDefaults(t *testing.T) {
	p := load(t, `
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: c
    ports: [{containerPort: 80}]
    livenessProbe: {httpGet: {port: 80}}
`)[0]
	c := p.Spec.Containers[0]
	if p.Spec.RestartPolicy != v1.RestartPolicyAlways || *p.Spec.TerminationGracePeriodSeconds != 30 || p.Namespace != "default" ||
		c.Ports[0].Protocol != v1.ProtocolTCP || c.LivenessProbe.PeriodSeconds != 10 || c.LivenessProbe.HTTPGet.Path != "/" {
		t.Errorf("got %+v", p)
	}
	if again := load(t, named("p"))[0]; again.UID != p.UID || len(p.UID) != 36 {
		t.Errorf("UIDs %q and %q of one name", p.UID, again.UID)
	}
	if other := load(t, named("q"))[0]; other.UID == p.UID {
		t.Error("one UID for two names")
	}
}

func TestLoadProblems(t *testing.T) {
	const head = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: c\n"
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"negative number", head + "    livenessProbe:\n      tcpSocket: {port: 80}\n      periodSeconds: -1\n",
			[]string{"pod.yaml:10: spec.containers[0].livenessProbe.periodSeconds: must be at least 1"}},
		{"no handler", head + "    readinessProbe:\n      periodSeconds: 1\n",
			[]string{"pod.yaml:8: spec.containers[0].readinessProbe: is required: must specify a handler type"}},
		{"unknown field", head + "    livenesProbe: {}\n    command:\n    - a\n    colour: red\n",
			[]string{"pod.yaml:8: spec.containers[0].livenesProbe: unknown field (did you mean \"livenessProbe\"?)", "pod.yaml:11: spec.containers[0].colour: unknown field"}},
		{"field given twice", head + "    command: [a]\n    command: [b]\n",
			[]string{"pod.yaml:9: spec.containers[0].command: the field is set twice"}},
		{"wrong kinds", head + "    command: a\n    args: [1]\n    env: {}\n    stdin: 1\n    ports: [{containerPort: x}, {containerPort: 99999999999}]\n    livenessProbe: []\n",
			[]string{
				"pod.yaml:8: spec.containers[0].command: must be a list, not a string",
				"pod.yaml:9: spec.containers[0].args[0]: must be a string, not a number",
				"pod.yaml:10: spec.containers[0].env: must be a list, not a mapping",
				"pod.yaml:11: spec.containers[0].stdin: must be true or false, not a number",
				"pod.yaml:12: spec.containers[0].ports[0].containerPort: must be an integer, not a string",
				"pod.yaml:12: spec.containers[0].ports[1].containerPort: 99999999999 is out of range",
				"pod.yaml:13: spec.containers[0].livenessProbe: must be a mapping, not a list",
			}},
		{"unsupported fields", head + "    volumeMounts: [{name: v, mountPath: /v}]\n    resources: {limits: {cpu: 1}}\n    securityContext: {runAsUser: 1}\n    envFrom: [{prefix: x}]\n    env:\n    - name: A\n      valueFrom: {fieldRef: {fieldPath: x}}\n  volumes: [{name: v}]\n",
			[]string{
				"pod.yaml:15: spec.volumes: is not supported for a local process",
				"pod.yaml:11: spec.containers[0].envFrom: is not supported for a local process",
				"pod.yaml:9: spec.containers[0].resources: is not supported for a local process",
				"pod.yaml:8: spec.containers[0].volumeMounts: is not supported for a local process",
				"pod.yaml:10: spec.containers[0].securityContext: is not supported for a local process",
				"pod.yaml:14: spec.containers[0].env[0].valueFrom: is not supported for a local process",
			}},
		{"two pods of one name", named("p") + "---\n" + named("p"),
			[]string{"pod.yaml:8: metadata.name: pod default/p is already at pod.yaml:1"}},
		{"inside of the annotation", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations:\n    prober.dev/probes: |\n      c:\n        readiness:\n          exec: {command: [a]}\n          period: 1ms\nspec: {containers: [{name: c}]}\n",
			[]string{"pod.yaml:10: metadata.annotations[prober.dev/probes][c].readiness.period: must be at least 10ms"}},
		{"other kinds", "apiVersion: apps/v1\nkind: Deployment\n",
			[]string{`pod.yaml:2: kind: must be Pod or List, not "Deployment"`, `pod.yaml:1: apiVersion: must be v1, not "apps/v1"`}},
		{"a list of something else", "apiVersion: v1\nkind: List\nextra: 1\nitems:\n- {apiVersion: v1, kind: Service}\n",
			[]string{"pod.yaml:3: extra: unknown field; known: apiVersion, items, kind, metadata", `pod.yaml:5: items[0].kind: must be Pod, not "Service"`}},
		{"a field of a pod in a list", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: p}\n  spec:\n    restartPolicy: Perhaps\n    containers: [{name: c}]\n",
			[]string{`pod.yaml:8: items[0].spec.restartPolicy: "Perhaps" is not one of the supported values: "Always", "Never", "OnFailure"`}},
		{"no YAML", "a: [\n", []string{"pod.yaml:1: did not find expected node content"}},
		{"a list of nothing", "- a\n", []string{"pod.yaml:1: must be a Pod or a List of pods, not a list"}},
		{"names", "apiVersion: v1\nkind: Pod\nmetadata: {}\nspec:\n  containers:\n  - name: C_\n  - name: d\n    args: [x]\n  - name: d\n",
			[]string{
				"pod.yaml:3: metadata.name: is required",
				"pod.yaml:6: spec.containers[0].name: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
				"pod.yaml:8: spec.containers[1].args: needs a command: without one the container is an external target",
				`pod.yaml:9: spec.containers[2].name: "d" is set twice`,
			}},
		{"address", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations:\n    prober.dev/address: 10.0.0.1:80\nspec: {containers: [{name: c}]}\n",
			[]string{"pod.yaml:6: metadata.annotations[prober.dev/address]: must be an IP address or a host name, without a port"}},
		{"an init container that never ends", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  initContainers:\n  - name: i\n  containers: [{name: c}]\n",
			[]string{"pod.yaml:6: spec.initContainers[0].command: is required: an external target never ends and cannot be an init container"}},
		{"rules and hooks", head + "    command: [a]\n    restartPolicyRules: [{action: Restart}]\n    lifecycle:\n      preStop: {}\n      postStart: {exec: {}, sleep: {seconds: -1}}\n",
			[]string{
				"pod.yaml:7: spec.containers[0].restartPolicy: is required: restartPolicyRules needs it",
				"pod.yaml:12: spec.containers[0].lifecycle.postStart: may not specify more than 1 handler type",
				"pod.yaml:12: spec.containers[0].lifecycle.postStart.exec.command: is required",
				"pod.yaml:12: spec.containers[0].lifecycle.postStart.sleep.seconds: must be at least 0",
				"pod.yaml:11: spec.containers[0].lifecycle.preStop: is required: must specify a handler type",
			}},
		{"aliases of aliases", "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\napiVersion: v1\nkind: Pod\n",
			[]string{"pod.yaml:1: a: unknown field; known: apiVersion, kind, metadata, spec, status", "pod.yaml:2: b: unknown field; known: apiVersion, kind, metadata, spec, status"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			writeFile(t, ".", "pod.yaml", c.text)
			loaded, err := (&manifest.Source{Paths: []string{"pod.yaml"}}).Load(t.Context())
			if err == nil {
				t.Fatal("no error")
			}
			if len(loaded.Pods) > 0 {
				t.Error("pods beside an error")
			}
			got := strings.Split(err.Error(), "\n")
			for i := range got {
				// The order of supported values is apimachinery's.
				got[i] = strings.Replace(got[i], `"Always", "OnFailure", "Never"`, `"Always", "Never", "OnFailure"`, 1)
			}
			for _, want := range c.want {
				if !strings.Contains(strings.Join(got, "\n")+"\n", want+"\n") {
					t.Errorf("no %q", want)
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("got\n%s\nwant\n%s", err, strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestLoadAllowUnsupportedWarns(t *testing.T) {
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  volumes: [{name: v}]\n  containers: [{name: c}]\n"
	loaded, err := (&manifest.Source{Paths: []string{"-"}, Stdin: strings.NewReader(text), AllowUnsupported: true}).Load(t.Context())
	if err != nil || len(loaded.Pods) != 1 {
		t.Fatal(loaded, err)
	}
	if got, want := errors.Join(loaded.Warnings...).Error(), "-:5: spec.volumes: is not supported for a local process"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLoadCheckErrorHasLineOfField(t *testing.T) {
	dir := t.TempDir()
	file := writeFile(t, dir, "a.yaml", named("a"))
	s := &manifest.Source{Paths: []string{dir}, Check: func(pod *declared.Pod) []error {
		return []error{errors.Join(errors.New("spec.containers[0].name: refused"), errors.New("out of order"))}
	}}
	want := file + ":1: out of order\n" + file + ":4: spec.containers[0].name: refused"
	if _, err := s.Load(t.Context()); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLoadNameOfPodInOtherFileIsError(t *testing.T) {
	dir := t.TempDir()
	first, second := writeFile(t, dir, "a.yaml", named("a")), writeFile(t, dir, "b.yaml", named("a"))
	_, err := (&manifest.Source{Paths: []string{dir}}).Load(t.Context())
	if want := second + ":3: metadata.name: pod default/a is already at " + first + ":1"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLoadMissingFile(t *testing.T) {
	_, err := (&manifest.Source{Paths: []string{"/no/such/file"}}).Load(t.Context())
	if err == nil || err.Error() != "/no/such/file: no such file or directory" {
		t.Errorf("got %v", err)
	}
}

func TestStampChangesWithFiles(t *testing.T) {
	dir := t.TempDir()
	s := &manifest.Source{Paths: []string{dir}}
	seen := map[string]bool{s.Stamp(): true}
	for i, do := range []func(){
		func() { writeFile(t, dir, "a.yaml", "x") },
		func() { writeFile(t, dir, "a.yaml", "xy") },
		func() { writeFile(t, dir, "b.yaml", "") },
		func() { os.Chmod(filepath.Join(dir, "b.yaml"), 0o400) }, // changes the mode
		func() { os.Remove(filepath.Join(dir, "a.yaml")) },
	} {
		do()
		if stamp := s.Stamp(); seen[stamp] {
			t.Errorf("change %d was not seen", i)
		} else {
			seen[stamp] = true
		}
		if first, second := s.Stamp(), s.Stamp(); first != second {
			t.Errorf("two stamps of the same: %s and %s", first, second)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(named("p"))
	f.Add(named("p") + "---\n" + named("q"))
	f.Add("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, command: [x], livenessProbe: {exec: {command: [y]}}}]}}\n")
	f.Add("a: &a [*a]\n<<: *a\n? [x]\n: y\n")
	f.Add("apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations:\n    prober.dev/probes: |\n      c:\n        readiness:\n          exec: {command: [a]}\n          period: 1ms\nspec: {containers: [{name: c}]}\n")
	f.Add("apiVersion: v1\nkind: Pod\nmetadata: {creationTimestamp: 2020-01-01, name: 1}\nspec: {containers: [{name: c, resources: {limits: {cpu: 1e400}}, ports: [{containerPort: 0x10}]}]}")
	f.Fuzz(func(t *testing.T, text string) {
		s := &manifest.Source{Paths: []string{"-"}, Stdin: strings.NewReader(text)}
		loaded, err := s.Load(t.Context())
		if err != nil {
			if len(loaded.Pods) > 0 || err.Error() == "" {
				t.Errorf("pods beside an error, or one that says nothing: %v", err)
			}
			return
		}
		for _, d := range loaded.Pods {
			p := d.Pod()
			if p.Name == "" || p.UID == "" || len(p.Spec.Containers) == 0 {
				t.Errorf("not complete: %+v", p)
			}
		}
	})
}

func load(t *testing.T, text string) []*v1.Pod {
	t.Helper()
	loaded, err := (&manifest.Source{Paths: []string{"-"}, Stdin: strings.NewReader(text)}).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return podsOf(loaded.Pods)
}

func podsOf(all []*declared.Pod) (pods []*v1.Pod) {
	for _, d := range all {
		pods = append(pods, d.Pod())
	}
	return pods
}
