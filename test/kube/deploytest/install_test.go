//go:build linux

// Package deploytest installs deploy/kubernetes on an API server of Kubernetes, and tests that its admission
// policies (fence.yaml) and RBAC stop an attacker who has the token of an agent. Read fence_test.go first.
package deploytest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/daeace23/prober/test/kube/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

const system = "prober-system"

// kubectl runs kubectl as an administrator, and returns its output.
func kubectl(t testing.TB, args ...string) (stdout, stderr []byte) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("PROBER_KUBE_TOOLS"), "kubectl"), append(args, "--kubeconfig="+bed.Kubeconfig("admin"))...)
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &errs, append(os.Environ(), "HOME="+t.TempDir())
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, errs.Bytes())
	}
	return out.Bytes(), errs.Bytes()
}

// kustomization writes a kustomization of the base and some components, and returns its folder.
func kustomization(t testing.TB, components ...string) string {
	t.Helper()
	dir := t.TempDir()
	deploy, err := filepath.Abs("../../../deploy/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	if deploy, err = filepath.Rel(dir, deploy); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString("resources: [" + deploy + "/base]\ncomponents:\n")
	for _, c := range components {
		text.WriteString("- " + deploy + "/components/" + c + "\n")
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func components(t testing.TB) (names []string) {
	t.Helper()
	entries, err := os.ReadDir("../../../deploy/kubernetes/components")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// rendered has the parts of a rendered kustomization that the tests use.
type rendered struct {
	level string // level of Pod Security
	pods  map[string]*corev1.Pod
}

func render(t testing.TB, dir string) rendered {
	t.Helper()
	text, _ := kubectl(t, "kustomize", dir)
	r := rendered{pods: make(map[string]*corev1.Pod)}
	add := func(name string, template *corev1.PodTemplateSpec) {
		r.pods[name] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: template.Labels}, Spec: template.Spec}
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var object struct {
			Kind     string
			Metadata metav1.ObjectMeta
			Spec     struct{ Template corev1.PodTemplateSpec }
		}
		switch err := decoder.Decode(&object); {
		case errors.Is(err, io.EOF):
			return r
		case err != nil && object.Kind != "":
			t.Fatal(err)
		}
		switch object.Kind {
		case "Namespace":
			r.level = object.Metadata.Labels["pod-security.kubernetes.io/enforce"]
		case "DaemonSet", "Deployment":
			add(object.Metadata.Name, &object.Spec.Template)
		}
	}
}

// warnings collects the warnings of the API server.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader implements [rest.WarningHandler].
func (w *warnings) HandleWarningHeader(code int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, fmt.Sprint(code, " ", text))
}

// levels are the levels of Pod Security, the strictest first.
var levels = []string{"restricted", "baseline", "privileged"}

// TestPodsPassPodSecurity checks that the level of each kustomization is the strictest that allows its pods.
func TestPodsPassPodSecurity(t *testing.T) {
	c := bed.Up(t, bed.API)
	namespaces := make(map[string]string)
	for _, level := range levels {
		namespaces[level] = c.Namespace(t)
		kubectl(t, "label", "namespace", namespaces[level],
			"pod-security.kubernetes.io/enforce="+level, "pod-security.kubernetes.io/warn="+level)
	}
	var collected warnings
	config := rest.CopyConfig(c.Config)
	config.WarningHandler = &collected
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	create := func(level string, pod *corev1.Pod) error {
		pod = pod.DeepCopy()
		pod.Spec.ServiceAccountName = "default"
		_, err := client.CoreV1().Pods(namespaces[level]).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
		return err
	}
	bed.Await(t, "Pod Security is enforced", func() bool { return apierrors.IsForbidden(create("restricted", bed.Pod("x", nil))) })
	collected.texts = nil

	sets := [][]string{nil, {"monitoring", "evict", "exec-api", "agent-loss"}, components(t)}
	for _, name := range components(t) {
		sets = append(sets, []string{name})
	}
	for _, set := range sets {
		t.Run(strings.Join(append([]string{"base"}, set...), " "), func(t *testing.T) {
			r := render(t, kustomization(t, set...))
			stricter := 0
			for name, pod := range r.pods {
				if err := create(r.level, pod); err != nil {
					t.Errorf("%s in a namespace with the level %s: %v", name, r.level, err)
				}
				if i := slices.Index(levels, r.level); i > 0 && create(levels[i-1], pod) == nil {
					stricter++
				}
			}
			if len(r.pods) == 0 || stricter == len(r.pods) {
				t.Errorf("the %d pods do not need the level %s", len(r.pods), r.level)
			}
			if len(collected.texts) > 0 {
				t.Errorf("warnings: %q", collected.texts)
			}
			collected.texts = nil
		})
	}
}

func TestAppliesWithoutWarnings(t *testing.T) {
	bed.Up(t, bed.API)
	dir := kustomization(t, "evict", "exec-api", "agent-loss", "monitoring", "policies", "kubectl")
	for range 2 { // the second kubectl apply updates the objects
		if _, stderr := kubectl(t, "apply", "-k", dir); len(stderr) > 0 {
			t.Errorf("kubectl apply -k: %s", stderr)
		}
	}
}

// clientFor returns a client for a config.
func clientFor(t testing.TB, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
