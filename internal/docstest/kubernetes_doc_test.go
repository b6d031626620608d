package docstest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/shipped"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/pods/kube/conditions"
	"github.com/daeace23/prober/probe"
)

const kubernetesSection = "docs/kubernetes"

// kubernetesExampleFiles returns the manifests of examples/kubernetes.
func kubernetesExampleFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(kubernetesExamples + "/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%q, %v", files, err)
	}
	return files
}

func TestKubernetesExamplesHaveValidProbes(t *testing.T) {
	atRoot(t)
	for _, file := range kubernetesExampleFiles(t) {
		objects := kubernetesFile(t, file)
		for _, d := range only[appsv1.Deployment](objects) {
			checkKubernetesPod(t, file, &d.Spec.Template)
		}
		for _, p := range only[v1.Pod](objects) {
			checkKubernetesPod(t, file, &v1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec})
		}
	}
}

// checkKubernetesPod checks the annotations, the probes and the images of a pod.
func checkKubernetesPod(t *testing.T, where string, template *v1.PodTemplateSpec) {
	t.Helper()
	pod := &v1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	probes, errs := declared.ProbesOf(pod)
	if len(errs) > 0 {
		t.Errorf("%s: %v", where, errs)
	}
	ours, gated := false, slices.Contains(pod.Spec.ReadinessGates, v1.PodReadinessGate{ConditionType: conditions.Ready}) ||
		slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool { return slices.Contains(c.Args, "sidecar") }) // the kubelet asks that
	for i := range probes {
		p := &probes[i]
		if !strings.Contains(p.Path.String(), declared.Annotation) {
			continue // of the kubelet
		}
		ours = true
		checkKubernetesProbe(t, where, p)
		if p.Kind == probe.Readiness && !gated {
			t.Errorf("%s: %s without the readiness gate", where, p.Path)
		}
	}
	if !ours {
		t.Errorf("%s has no probes of prober", where)
	}
	for name := range pod.Annotations {
		if !slices.Contains(kubernetesAnnotations, name) {
			t.Errorf("%s: the annotation %s is not known", where, name)
		}
	}
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		if !regexp.MustCompile(`:[0-9][0-9.]*$`).MatchString(c.Image) {
			t.Errorf("%s: the image %s has no version", where, c.Image)
		}
	}
}

// checkKubernetesProbe checks the config of a probe that is carried out by a built-in handler, or by a
// plugin that is part of prober.
func checkKubernetesProbe(t *testing.T, where string, p *manager.ProbeConfig) {
	t.Helper()
	found, err := shipped.Plugins()
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(found, func(f plugin.Found) bool { return f.Manifest.Name == p.Handler }); i >= 0 {
		if _, err := found[i].Manifest.Config.Apply(p.Config); err != nil {
			t.Errorf("%s: %s: %v", where, p.Path, err)
		}
		return
	}
	var registry handlers.Registry
	if err := builtin.Register(&registry, builtin.Config{Runner: &builtin.HostRunner{}}); err != nil {
		t.Fatal(err)
	}
	if _, err := registry.Prepare(p.Handler, p.Config, p.Target); err != nil {
		t.Errorf("%s: %s: %v", where, p.Path, err)
	}
}

// TestKubernetesExampleInstalls follows the paths of the kustomization that the page installs.
func TestKubernetesExampleInstalls(t *testing.T) {
	atRoot(t)
	dir := filepath.Join(kubernetesExamples, "install")
	k := only[kustomization](kubernetesFile(t, dir, "kustomization.yaml"))[0]
	base := only[kustomization](kubernetesFile(t, kubernetesDir, "base", "kustomization.yaml"))[0]
	for _, path := range append(k.Resources, k.Components...) {
		kubernetesFile(t, dir, path, "kustomization.yaml")
	}
	if len(k.Images) != 1 || k.Namespace != kubernetesNamespace || len(k.ConfigMapGenerator) != 1 || k.ConfigMapGenerator[0].Name != base.ConfigMapGenerator[0].Name {
		t.Errorf("%+v", k)
	}
	for name, template := range kubernetesTemplates(kubernetesResources(t, "agent-loss")) {
		if image := template.Spec.Containers[0].Image; !strings.HasPrefix(image, k.Images[0].Name+":") {
			t.Errorf("the image of %s, %s, is not replaced by that of %s", name, image, dir)
		}
	}
	kubernetesFile(t, dir, "prober.yaml")
}

func TestKubernetesPagesHaveValidManifests(t *testing.T) {
	atRoot(t)
	var examples []string
	for _, file := range kubernetesExampleFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		examples = append(examples, string(text))
	}
	checked := 0
	for _, page := range pagesIn(t, kubernetesSection) {
		for _, text := range blocks(t, page, "yaml") {
			checked++
			objects := kubernetesObjects(t, page, text)
			if len(only[appsv1.Deployment](objects))+len(only[v1.Pod](objects)) > 0 && !slices.Contains(examples, text) {
				t.Errorf("%s has a Deployment or Pod that is not a file of %s:\n%s", page, kubernetesExamples, text)
			}
		}
	}
	if checked < 8 {
		t.Errorf("the pages have %d manifests, expected at least 8", checked)
	}
}

// TestProberYAMLPageHasKubernetesDefaults parses a prober.yaml with the defaults in the table of the section kubernetes.
func TestProberYAMLPageHasKubernetesDefaults(t *testing.T) {
	atRoot(t)
	const file = "docs/prober-yaml.md"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	section := make(map[string]any)
	rows := regexp.MustCompile("(?m)^\\| `kubernetes\\.([A-Za-z.]+)` \\| `(.+?)` \\|").FindAllStringSubmatch(string(page), -1)
	for _, row := range rows {
		keys := strings.Split(row[1], ".")
		parent := section
		for _, key := range keys[:len(keys)-1] {
			if parent[key] == nil {
				parent[key] = make(map[string]any)
			}
			parent = parent[key].(map[string]any)
		}
		var value any
		if err := yaml.Unmarshal([]byte(row[2]), &value); err != nil {
			t.Fatal(err)
		}
		parent[keys[len(keys)-1]] = value
	}
	text, err := yaml.Marshal(map[string]any{"apiVersion": "prober.dev/v1", "kind": "AgentConfig", "kubernetes": section})
	if err != nil {
		t.Fatal(err)
	}
	got, err := config.Parse(file, text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.DefaultKubernetes(), got.Kubernetes); diff != "" {
		t.Errorf("%s does not have the defaults (-default +page)\n%s", file, diff)
	}
	// Without these the defaults would be compared with themselves.
	for _, path := range []string{
		"liveness.modes", "liveness.onFailure", "budgets.workload.burst", "budgets.workload.every", "budgets.node.burst", "budgets.node.every",
		"budgets.backoff", "breaker.share", "breaker.least", "breaker.window", "breaker.lag", "breaker.pressure.cpu", "breaker.pressure.memory",
		"breaker.pressure.io", "podNetwork", "apiExec", "minPeriod", "maxRate", "conditions.qps", "dryRun",
	} {
		if !slices.ContainsFunc(rows, func(row []string) bool { return row[1] == path }) {
			t.Errorf("%s has no default of kubernetes.%s", file, path)
		}
	}
}

// kubernetesAnnotations are those of pods on Kubernetes.
var kubernetesAnnotations = []string{
	"prober.dev/probes", "prober.dev/liveness", "prober.dev/on-agent-loss", "prober.dev/conditions", "prober.dev/network",
}

// TestKubernetesPagesAreComplete finds a row for everything that users see.
func TestKubernetesPagesAreComplete(t *testing.T) {
	atRoot(t)
	for page, rows := range map[string][]string{
		"docs/annotation.md":               kubernetesAnnotations[1:],
		kubernetesSection + "/liveness.md": config.LivenessModes,
		kubernetesSection + "/install.md":  kubernetesComponents(t),
		kubernetesSection + "/conditions.md": {
			conditions.ProbeSucceeded, conditions.ProbeWarning, conditions.ProbeFailed, conditions.ProbeUnknown, conditions.Paused, conditions.AgentLost,
			string(conditions.Ready), string(conditions.Live),
		},
	} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if !regexp.MustCompile(`(?m)^\| ` + "`" + regexp.QuoteMeta(row) + "`").Match(text) {
				t.Errorf("%s has no row for %s", page, row)
			}
		}
		if page == "docs/annotation.md" && !strings.Contains(string(text), "\n# The annotation "+kubernetesAnnotations[0]+"\n") {
			t.Errorf("%s is not about %s", page, kubernetesAnnotations[0])
		}
	}
	text, err := os.ReadFile(kubernetesSection + "/install.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range kubernetesPrivileges {
		level := p.Level
		if level == "" {
			level = "restricted"
		}
		if row := regexp.MustCompile("(?m)^\\| `" + name + "` .*\\| (\\w+) \\|$").FindSubmatch(text); name != "base" && (row == nil || string(row[1]) != level) {
			t.Errorf("install.md does not say that the component %s needs the level %s", name, level)
		}
	}
}

// TestEventsPageNamesOnlyEvents checks that the source has each reason in the tables of docs/events.md. Those of
// actions that were not done have the action before what became of it.
func TestEventsPageNamesOnlyEvents(t *testing.T) {
	atRoot(t)
	const file = "docs/events.md"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	both, rest, _ := strings.Cut(string(page), "\n`prober run` alone:\n")
	local, node, found := strings.Cut(rest, "\n`prober node` alone:\n")
	if !found {
		t.Fatalf("%s does not have a table for each command", file)
	}
	kube := []string{"pods/kube/*.go", "pods/kube/liveness/*.go", "pods/kube/conditions/*.go"}
	checkEventReasons(t, file, node, 12, kube)
	checkEventReasons(t, file, both, 7, append(kube, "core/worker/*.go"))
	checkEventReasons(t, file, local, 13, []string{"pods/local/*.go", "agent/*.go"})
}

// checkEventReasons checks that the tables of text have at least so many reasons, and that the files have each.
func checkEventReasons(t *testing.T, file, text string, least int, patterns []string) {
	t.Helper()
	var source strings.Builder
	for _, pattern := range patterns {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && !strings.HasSuffix(file, "_test.go") {
				source.Write(text)
			}
		}
	}
	action := regexp.MustCompile("^Probe(Restart|Evict)")
	reasons := 0
	for _, row := range regexp.MustCompile("(?m)^\\| `.*").FindAllString(text, -1) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		for name := range strings.SplitSeq(cell, ", ") {
			reasons++
			name = strings.Trim(name, "`")
			if quoted := `"` + name + `"`; !strings.Contains(source.String(), quoted) && !strings.Contains(source.String(), `"`+action.ReplaceAllString(name, "")+`"`) {
				t.Errorf("%s: no event has the reason %s", file, name)
			}
		}
	}
	if reasons < least {
		t.Errorf("%s: %d reasons in %d bytes, expected at least %d", file, reasons, len(text), least)
	}
}
