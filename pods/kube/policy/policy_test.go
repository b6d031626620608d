package policy_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/pods/kube/policy"
)

const cache = `
selector: {matchLabels: {app: cache}}
liveness: restart
probes:
- name: ping
  container: redis
  kind: Readiness
  plugin: {name: redis, target: {port: redis}, config: {ping: true}}
  period: 500ms
- {name: alive, container: redis, kind: Liveness, tcpSocket: {port: 6379}}
`

func specOf(t *testing.T, text string) (s policy.Spec) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCheck(t *testing.T) {
	one := func(probe string) string { return "probes: [{name: a, container: c, kind: Readiness" + probe + "}]" }
	for _, c := range []struct{ name, spec, want string }{
		{"valid", cache, ""},
		{"combined", one(", all: {x: {tcpSocket: {port: web}}, y: {httpGet: {port: 80}}}"), ""},
		{"no probe", "probes: []", "spec.probes: Invalid value: must have from 1 to 16 probes"},
		{"selector", "selector: {matchExpressions: [{key: a, operator: Near}]}\n" + one(", tcpSocket: {port: 1}"), "spec.selector: "},
		{"no handler", one(""), "spec.probes[a]: "},
		{"two handlers", one(", tcpSocket: {port: 1}, httpGet: {port: 1}"), "spec.probes[a]"},
		{"unknown field", one(", tcpSocket: {port: 1}, periode: 1s"), "spec.probes[a].periode"},
		{"short period", one(", tcpSocket: {port: 1}, period: 1ms"), "spec.probes[a].period"},
		{"kind", "probes: [{name: a, container: c, kind: readiness, tcpSocket: {port: 1}}]", "spec.probes[0].kind: Unsupported value: \"readiness\""},
		{"no container", "probes: [{name: a, kind: Startup, tcpSocket: {port: 1}}]", "spec.probes[0].container: Required"},
		{"name", "probes: [{name: A_b, container: c, kind: Startup, tcpSocket: {port: 1}}]", "spec.probes[0].name: Invalid"},
		{"same name", "probes: [{name: a, container: c, kind: Startup, tcpSocket: {port: 1}}, {name: a, container: c, kind: Liveness, tcpSocket: {port: 1}}]", "spec.probes[1].name: Duplicate"},
		{"same container and kind", "probes: [{name: a, container: c, kind: Startup, tcpSocket: {port: 1}}, {name: b, container: c, kind: Startup, tcpSocket: {port: 1}}]", "spec.probes[1]: Forbidden: a is a startup probe of container c too"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := specOf(t, c.spec)
			errs := s.Check()
			if c.want == "" && len(errs) > 0 || c.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), c.want)) {
				t.Errorf("got %v, want %q", errs, c.want)
			}
		})
	}
}

// FuzzSpec checks that a policy of any text is refused or read, and that it is written as it was read.
func FuzzSpec(f *testing.F) {
	for _, text := range []string{cache, "probes: [7]", "probes: [{name: 1}]", "probes: [{kind: {}}]", "probes: [null]", `probes: [{name: a, container: c, kind: Startup, tcpSocket: {port: "\u0000"}}]`} {
		asJSON, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(asJSON)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s policy.Spec
		if json.Unmarshal(text, &s) != nil {
			return
		}
		errs := s.Check()
		again, err := json.Marshal(s)
		if err != nil {
			if len(errs) == 0 {
				t.Fatalf("valid, but not written: %v", err)
			}
			return
		}
		var next policy.Spec
		if err := json.Unmarshal(again, &next); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if third, err := json.Marshal(next); err != nil || string(third) != string(again) {
			t.Fatalf("written as %s, and then as %s, %v", again, third, err)
		}
		if len(next.Check()) != len(errs) {
			t.Fatalf("errors %v, after reading again %v", errs, next.Check())
		}
		set := policy.NewSet([]policy.NodePolicy{{Namespace: "shop", Name: "p", Spec: s}})
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{"app": "cache"}}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "redis"}, {Name: "c"}}}}
		written, _ := policy.Written(set.Of(pod))
		declared.ParseWith(pod, written)
	})
}

func nodePolicy(t *testing.T, namespace, name string, created int64, text string) policy.NodePolicy {
	return policy.NodePolicy{Namespace: namespace, Name: name, UID: types.UID(namespace + name), Generation: 1, Created: metav1.Time{Time: time.Unix(created, 0)}, Spec: specOf(t, text)}
}

func TestSet(t *testing.T) {
	other := strings.ReplaceAll(cache, "restart", "evict")
	set := policy.NewSet([]policy.NodePolicy{
		nodePolicy(t, "shop", "second", 20, other),
		nodePolicy(t, "shop", "first", 10, strings.ReplaceAll(cache, "liveness: restart", "")),
		nodePolicy(t, "shop", "db", 5, strings.ReplaceAll(cache, "app: cache", "app: db")),
		nodePolicy(t, "other", "cache", 1, cache),
		nodePolicy(t, "shop", "all", 30, strings.ReplaceAll(cache, "matchLabels: {app: cache}", "matchExpressions: []")),
	})
	for _, c := range []struct {
		namespace, app, want, liveness string
	}{
		{"shop", "cache", "first second all", "evict"}, {"shop", "db", "db all", "restart"}, {"shop", "web", "all", "restart"}, {"other", "cache", "cache", "restart"}, {"none", "cache", "", ""},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Labels: map[string]string{"app": c.app}}}
		var names []string
		matched := set.Of(pod)
		for i := range matched {
			names = append(names, matched[i].Name)
		}
		written, mode := policy.Written(matched)
		if got := strings.Join(names, " "); got != c.want || mode.Name != c.liveness || len(written) != 2*len(names) {
			t.Errorf("%s/%s: got %q with %q and %d probes, want %q with %q", c.namespace, c.app, got, mode.Name, len(written), c.want, c.liveness)
		}
	}
}

func TestNamespacesDiffer(t *testing.T) {
	a, b := nodePolicy(t, "a", "p", 1, cache), nodePolicy(t, "b", "p", 1, cache)
	newer := a
	newer.Generation++
	for _, c := range []struct {
		before, after []policy.NodePolicy
		want          []string
	}{
		{nil, nil, nil}, {[]policy.NodePolicy{a, b}, []policy.NodePolicy{b, a}, nil}, {[]policy.NodePolicy{a}, []policy.NodePolicy{newer}, []string{"a"}},
		{nil, []policy.NodePolicy{a}, []string{"a"}}, {[]policy.NodePolicy{a, b}, []policy.NodePolicy{b}, []string{"a"}},
	} {
		got := policy.NewSet(c.before).Namespaces(policy.NewSet(c.after))
		if slices.Sort(got); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("got %v, want %v", got, c.want)
		}
	}
}

// TestCopiesShareNothingThatChanges checks the copies that caches of client-go make.
func TestCopiesShareNothingThatChanges(t *testing.T) {
	p := policy.ProbePolicy{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: specOf(t, cache)}
	n := policy.NodeProbes{Spec: policy.NodeSpec{Policies: []policy.NodePolicy{nodePolicy(t, "a", "p", 1, cache)}}}
	before := func() string {
		text, err := json.Marshal([]any{p, n})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	want := before()
	policies := policy.ProbePolicyList{Items: []policy.ProbePolicy{p}}
	nodes := policy.NodeProbesList{Items: []policy.NodeProbes{n}}
	one := policies.DeepCopyObject().(*policy.ProbePolicyList).Items[0]
	two := nodes.DeepCopyObject().(*policy.NodeProbesList).Items[0]
	one.Labels["a"], one.Spec.Selector.MatchLabels["app"], one.Spec.Probes[0] = "c", "c", policy.Probe{}
	two.Spec.Policies[0].Selector.MatchLabels["app"], two.Spec.Policies[0].Probes[1], two.Spec.Policies[0].Name = "c", policy.Probe{}, "c"
	if got := before(); got != want {
		t.Errorf("a change of a copy changed the original\n got %s\nwant %s", got, want)
	}
}
