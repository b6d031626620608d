package docstest_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/pods/kube/policy"
)

const (
	kubernetesDir       = "deploy/kubernetes"
	kubernetesExamples  = "examples/kubernetes"
	kubernetesNamespace = "prober-system"
)

// kustomization is the part of kustomize's file that is used.
type kustomization struct {
	APIVersion, Kind, Namespace string
	Resources, Components       []string
	Patches                     []struct{ Path string }
	Labels                      []struct{ Pairs map[string]string }
	Images                      []struct{ Name, NewName, NewTag string }
	ConfigMapGenerator          []struct {
		Name, Behavior string
		Files          []string
	}
}

// kubernetesKinds are the types of the manifests.
var kubernetesKinds = map[string]reflect.Type{
	"v1 Namespace":                                                     reflect.TypeFor[v1.Namespace](),
	"v1 Pod":                                                           reflect.TypeFor[v1.Pod](),
	"v1 ServiceAccount":                                                reflect.TypeFor[v1.ServiceAccount](),
	"apps/v1 DaemonSet":                                                reflect.TypeFor[appsv1.DaemonSet](),
	"apps/v1 Deployment":                                               reflect.TypeFor[appsv1.Deployment](),
	"networking.k8s.io/v1 NetworkPolicy":                               reflect.TypeFor[networkingv1.NetworkPolicy](),
	"rbac.authorization.k8s.io/v1 Role":                                reflect.TypeFor[rbacv1.Role](),
	"rbac.authorization.k8s.io/v1 RoleBinding":                         reflect.TypeFor[rbacv1.RoleBinding](),
	"rbac.authorization.k8s.io/v1 ClusterRole":                         reflect.TypeFor[rbacv1.ClusterRole](),
	"rbac.authorization.k8s.io/v1 ClusterRoleBinding":                  reflect.TypeFor[rbacv1.ClusterRoleBinding](),
	"prober.dev/v1alpha1 ProbePolicy":                                  reflect.TypeFor[policy.ProbePolicy](),
	"apiextensions.k8s.io/v1 CustomResourceDefinition":                 reflect.TypeFor[map[string]any](),
	"monitoring.coreos.com/v1 PodMonitor":                              reflect.TypeFor[map[string]any](), // whose types are not linked
	"kustomize.config.k8s.io/v1beta1 Kustomization":                    reflect.TypeFor[kustomization](),
	"kustomize.config.k8s.io/v1alpha1 Component":                       reflect.TypeFor[kustomization](),
	"flowcontrol.apiserver.k8s.io/v1 FlowSchema":                       reflect.TypeFor[flowcontrolv1.FlowSchema](),
	"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy":        reflect.TypeFor[admissionv1.ValidatingAdmissionPolicy](),
	"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding": reflect.TypeFor[admissionv1.ValidatingAdmissionPolicyBinding](),
}

// kubernetesObjects returns the objects of a YAML text, decoded strictly.
func kubernetesObjects(t *testing.T, where, text string) (all []any) {
	t.Helper()
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var kind struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		if kind.Kind == "AgentConfig" {
			if _, err := config.Parse(where, []byte(doc)); err != nil {
				t.Error(err)
			}
			continue
		}
		is, ok := kubernetesKinds[kind.APIVersion+" "+kind.Kind]
		if !ok {
			t.Errorf("%s: %s %s is not expected here", where, kind.APIVersion, kind.Kind)
			continue
		}
		object := reflect.New(is).Interface()
		if err := yaml.UnmarshalStrict([]byte(doc), object); err != nil {
			t.Errorf("%s: %v", where, err)
		}
		if p, ok := object.(*policy.ProbePolicy); ok {
			for _, err := range p.Spec.Check() {
				t.Errorf("%s: %v", where, err)
			}
		}
		all = append(all, object)
	}
	return all
}

// kubernetesFile returns the objects of a file.
func kubernetesFile(t *testing.T, path ...string) []any {
	t.Helper()
	file := filepath.Join(path...)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return kubernetesObjects(t, file, string(text))
}

// only returns the objects of a type.
func only[T any](objects []any) (all []*T) {
	for _, o := range objects {
		if o, ok := o.(*T); ok {
			all = append(all, o)
		}
	}
	return all
}

// kubernetesComponents returns the names of all components.
func kubernetesComponents(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(kubernetesDir, "components"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// kubernetesResources returns the resources of the base and of components, with the patches of
// these.
func kubernetesResources(t *testing.T, components ...string) (all []any) {
	t.Helper()
	var patches []string
	for i, dir := range slices.Insert(slices.Clone(components), 0, "base") {
		if i > 0 {
			dir = filepath.Join("components", dir)
		}
		dir = filepath.Join(kubernetesDir, dir)
		k := only[kustomization](kubernetesFile(t, dir, "kustomization.yaml"))[0]
		for _, r := range k.Resources {
			all = append(all, kubernetesFile(t, dir, r)...)
		}
		for _, p := range k.Patches {
			patches = append(patches, filepath.Join(dir, p.Path))
		}
	}
	for _, file := range patches {
		p := reflect.TypeOf(kubernetesFile(t, file)[0])
		i := slices.IndexFunc(all, func(o any) bool { return reflect.TypeOf(o) == p })
		all[i] = patched(t, all[i], file)
	}
	return all
}

// patched returns an object with the strategic merge patch in a file.
func patched(t *testing.T, object any, file string) any {
	t.Helper()
	patch, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if patch, err = yaml.YAMLToJSON(patch); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = strategicpatch.StrategicMergePatch(text, patch, object); err != nil {
		t.Fatal(err)
	}
	result := reflect.New(reflect.TypeOf(object).Elem()).Interface()
	if err := json.Unmarshal(text, result); err != nil {
		t.Fatal(err)
	}
	return result
}

// kubernetesTemplates returns the pod templates of the resources, by the names of their controllers.
func kubernetesTemplates(resources []any) map[string]*v1.PodTemplateSpec {
	templates := make(map[string]*v1.PodTemplateSpec)
	for _, d := range only[appsv1.DaemonSet](resources) {
		templates[d.Name] = &d.Spec.Template
	}
	for _, d := range only[appsv1.Deployment](resources) {
		templates[d.Name] = &d.Spec.Template
	}
	return templates
}

func TestKubernetesFilesAreListed(t *testing.T) {
	atRoot(t)
	files := 0
	err := filepath.WalkDir(kubernetesDir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "kustomization.yaml" {
			return err
		}
		files++
		k := only[kustomization](kubernetesFile(t, filepath.Dir(file), "kustomization.yaml"))[0]
		listed := slices.Clone(k.Resources)
		for _, p := range k.Patches {
			listed = append(listed, p.Path)
		}
		for _, g := range k.ConfigMapGenerator {
			listed = append(listed, g.Files...)
		}
		if !slices.Contains(listed, d.Name()) {
			t.Errorf("%s is not in the kustomization.yaml beside it", file)
		}
		kubernetesFile(t, file)
		return nil
	})
	if err != nil || files < 15 {
		t.Errorf("%d files, %v", files, err)
	}
}

// kubernetesRoles are the rights of all roles: whoever adds one adds it here.
var kubernetesRoles = map[string][]string{
	"prober-node":                        {"pods: get list watch", "pods/status: patch", "events: create patch", "nodes: get"},
	"prober-node in the namespace":       {"coordination.k8s.io leases: get create update delete"},
	"prober-node-evict":                  {"pods/eviction: create"},
	"prober-node-exec":                   {"pods/exec: create"},
	"prober-node-lease":                  {"coordination.k8s.io leases: patch"}, // in the namespace
	"prober-node-namespace-labels":       {"namespaces: list watch"},
	"prober-agent-loss in the namespace": {"coordination.k8s.io leases: get list watch delete"},
	"prober-agent-loss":                  {"pods: list", "pods/status: patch", "nodes: get"},
	"prober-node-policies":               {"prober.dev nodeprobes: get list watch"},
	"prober-policies-edit":               {"prober.dev probepolicies: get list watch create update patch delete"},
	"prober-policies-view":               {"prober.dev probepolicies: get list watch"},
	"prober-controller in the namespace": {"coordination.k8s.io leases: get create update"},
	"prober-controller": {
		"pods: list watch", "prober.dev probepolicies: list watch", "prober.dev probepolicies/status: patch", "prober.dev nodeprobes: list watch create update delete",
	},
}

func TestKubernetesRolesAllowNothingElse(t *testing.T) {
	atRoot(t)
	resources := kubernetesResources(t, kubernetesComponents(t)...)
	rules := make(map[string][]string)
	add := func(name string, list []rbacv1.PolicyRule) {
		for _, r := range list {
			if len(r.APIGroups) != 1 || len(r.Resources) != 1 || len(r.ResourceNames)+len(r.NonResourceURLs) > 0 {
				t.Errorf("%s: write one rule for each resource: %+v", name, r)
				continue
			}
			resource := strings.TrimSpace(r.APIGroups[0] + " " + r.Resources[0])
			rules[name] = append(rules[name], resource+": "+strings.Join(r.Verbs, " "))
		}
	}
	for _, r := range only[rbacv1.ClusterRole](resources) {
		add(r.Name, r.Rules)
	}
	for _, r := range only[rbacv1.Role](resources) {
		if r.Namespace != kubernetesNamespace {
			t.Errorf("the Role %s is in namespace %q", r.Name, r.Namespace)
		}
		name := r.Name
		if rules[name] != nil {
			name += " in the namespace"
		}
		add(name, r.Rules)
	}
	if diff := cmp.Diff(kubernetesRoles, rules); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestKubernetesBindingsLeadSomewhere(t *testing.T) {
	atRoot(t)
	resources := kubernetesResources(t, kubernetesComponents(t)...)
	known := make(map[string]bool)
	for _, r := range only[rbacv1.ClusterRole](resources) {
		known["ClusterRole "+r.Name] = true
	}
	for _, r := range only[rbacv1.Role](resources) {
		known["Role "+r.Name] = true
	}
	for _, a := range only[v1.ServiceAccount](resources) {
		known["ServiceAccount "+a.Name] = true
	}
	check := func(name string, role rbacv1.RoleRef, subjects []rbacv1.Subject) {
		if !known[role.Kind+" "+role.Name] || len(subjects) != 1 || !known[subjects[0].Kind+" "+subjects[0].Name] || subjects[0].Namespace != kubernetesNamespace {
			t.Errorf("%s binds %v to %v", name, role, subjects)
		}
	}
	for _, b := range only[rbacv1.ClusterRoleBinding](resources) {
		check(b.Name, b.RoleRef, b.Subjects)
	}
	for _, b := range only[rbacv1.RoleBinding](resources) {
		check(b.Name, b.RoleRef, b.Subjects)
	}
	for name, p := range kubernetesTemplates(resources) {
		if !known["ServiceAccount "+p.Spec.ServiceAccountName] {
			t.Errorf("%s runs as %q", name, p.Spec.ServiceAccountName)
		}
	}
}

// TestKubernetesWritesAreFenced finds, for everything that a role lets its account write, an
// admission policy for that account. Objects of prober.dev are prober's own.
func TestKubernetesWritesAreFenced(t *testing.T) {
	atRoot(t)
	resources := kubernetesResources(t, kubernetesComponents(t)...)
	bound := make(map[string]bool)
	for _, b := range only[admissionv1.ValidatingAdmissionPolicyBinding](resources) {
		bound[b.Spec.PolicyName] = slices.Equal(b.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny})
	}
	fenced := make(map[string]bool)
	for _, p := range only[admissionv1.ValidatingAdmissionPolicy](resources) {
		if !bound[p.Name] || *p.Spec.FailurePolicy != admissionv1.Fail || len(p.Spec.MatchConditions) != 1 {
			t.Errorf("the policy %s denies nothing", p.Name)
		}
		for _, r := range p.Spec.MatchConstraints.ResourceRules {
			fenced[p.Spec.MatchConditions[0].Expression+" "+strings.Join(r.Resources, " ")] = true
		}
	}
	for name, rules := range kubernetesRoles {
		account := "prober-node"
		for _, other := range []string{"prober-agent-loss", "prober-controller"} {
			if strings.HasPrefix(name, other) {
				account = other
			}
		}
		for _, r := range rules {
			rule, verbs, _ := strings.Cut(r, ": ")
			fields := strings.Fields(rule)
			reads := !strings.Contains(verbs, "create") && !strings.Contains(verbs, "patch")
			user := "system:serviceaccount:" + kubernetesNamespace + ":" + account
			if !reads && fields[0] != "prober.dev" && !fenced["request.userInfo.username == '"+user+"' "+fields[len(fields)-1]] {
				t.Errorf("no policy for what %s lets %s do: %s", name, account, r)
			}
		}
	}
}

// kubernetesPrivileges are what each component adds to the pods of the agent.
var kubernetesPrivileges = map[string]privileges{
	"base": {}, "evict": {}, "exec-api": {}, "namespace-labels": {}, "agent-loss": {}, "monitoring": {}, "kubectl": {}, "policies": {},
	"host-network": {Level: "privileged", HostNetwork: true},
	"cri":          {Level: "privileged", HostPaths: []string{"/run/containerd"}, Groups: []int64{0}},
	"node-cache":   {Level: "privileged", HostPaths: []string{"/var/cache/prober"}},
	"pod-network":  {Level: "privileged", HostPaths: []string{"/run/netns"}, Capabilities: []v1.Capability{"SYS_ADMIN"}, Root: true},
}

// privileges are what Pod Security would not allow at the level restricted.
type privileges struct {
	Level        string // of the namespace; "" for restricted
	HostNetwork  bool
	HostPaths    []string
	Groups       []int64
	Capabilities []v1.Capability
	Root         bool
}

func TestKubernetesComponentsAddOnlyTheirPrivileges(t *testing.T) {
	atRoot(t)
	got := make(map[string]privileges)
	for _, name := range append(kubernetesComponents(t), "base") {
		var resources []any
		if name == "base" {
			resources = kubernetesResources(t)
		} else {
			resources = kubernetesResources(t, name)
		}
		var p privileges
		level := only[v1.Namespace](resources)[0].Labels
		if p.Level = level["pod-security.kubernetes.io/enforce"]; p.Level == "restricted" {
			p.Level = ""
		}
		for controller, template := range kubernetesTemplates(resources) {
			p.add(t, name+": "+controller, &template.Spec)
		}
		got[name] = p
	}
	if diff := cmp.Diff(kubernetesPrivileges, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// add adds the privileges of a pod. It fails the test if the pod lacks what all of them have.
func (p *privileges) add(t *testing.T, where string, s *v1.PodSpec) {
	t.Helper()
	p.HostNetwork = p.HostNetwork || s.HostNetwork
	for _, v := range s.Volumes {
		if v.HostPath != nil {
			p.HostPaths = append(p.HostPaths, v.HostPath.Path)
		}
	}
	pod, c := s.SecurityContext, s.Containers[0].SecurityContext
	p.Groups = append(p.Groups, pod.SupplementalGroups...)
	p.Capabilities = append(p.Capabilities, c.Capabilities.Add...)
	p.Root = p.Root || *pod.RunAsUser == 0
	if *pod.RunAsUser != 0 && (!*pod.RunAsNonRoot || *pod.RunAsUser != 65532) || s.HostPID || s.HostIPC || c.Privileged != nil ||
		*c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem || !slices.Equal(c.Capabilities.Drop, []v1.Capability{"ALL"}) ||
		pod.SeccompProfile.Type != v1.SeccompProfileTypeRuntimeDefault || c.SeccompProfile != nil || c.RunAsUser != nil || len(s.Containers) != 1 || len(s.InitContainers) > 0 {
		t.Errorf("%s: pod %+v, container %+v", where, pod, c)
	}
	if limits := s.Containers[0].Resources; limits.Limits.Memory().IsZero() || limits.Requests.Memory().IsZero() || limits.Requests.Cpu().IsZero() || !limits.Limits.Cpu().IsZero() {
		t.Errorf("%s: resources %+v", where, limits)
	}
}

// A DaemonSet without a selector makes pods on nodes of Windows, which never start.
//
// Reported as flannel 1459; kubernetes 94366.
func TestKubernetesDaemonSetsSelectLinux(t *testing.T) {
	t.Chdir("../..")
	sets := only[appsv1.DaemonSet](kubernetesResources(t, kubernetesComponents(t)...))
	if len(sets) == 0 {
		t.Fatal("no DaemonSet")
	}
	for _, d := range sets {
		if got := d.Spec.Template.Spec.NodeSelector["kubernetes.io/os"]; got != "linux" {
			t.Errorf("%s: the selector of kubernetes.io/os is %q", d.Name, got)
		}
	}
}

// Others can fill a TCP listener with connections, but not the socket.
func TestKubernetesAgentIsProbedByItsSocket(t *testing.T) {
	atRoot(t)
	for _, d := range only[appsv1.DaemonSet](kubernetesResources(t, kubernetesComponents(t)...)) {
		c := &d.Spec.Template.Spec.Containers[0]
		i := slices.IndexFunc(c.Args, func(arg string) bool { return strings.HasPrefix(arg, "--socket=") })
		if i < 0 {
			t.Fatalf("%s: no --socket in %q", d.Name, c.Args)
		}
		socket := strings.TrimPrefix(c.Args[i], "--socket=")
		for _, p := range []*v1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			if p == nil || p.Exec == nil || !slices.Contains(p.Exec.Command, "--unix-socket="+socket) {
				t.Errorf("%s: %+v does not ask %s", d.Name, p, socket)
				continue
			}
			checkExec(t, d.Name, p.Exec)
		}
	}
}

func TestKubernetesImagesAreOne(t *testing.T) {
	atRoot(t)
	pinned := regexp.MustCompile(`^localhost/prober:[0-9]+\.[0-9]+\.[0-9]+$`)
	images := make(map[string]bool)
	for _, template := range kubernetesTemplates(kubernetesResources(t, kubernetesComponents(t)...)) {
		images[template.Spec.Containers[0].Image] = true
	}
	for image := range images {
		if !pinned.MatchString(image) || len(images) != 1 {
			t.Errorf("the image %s does not have a version, or is not that of the others", image)
		}
	}
}
