package kube_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/pods/kube"
	"github.com/daeace23/prober/pods/kube/liveness"
	"github.com/daeace23/prober/pods/kube/policy"
	"github.com/daeace23/prober/probe"
)

// nodeProbes is a fake API server with the policies of one node.
type nodeProbes struct {
	mu       sync.Mutex
	version  int
	policies map[string]policy.NodePolicy // by namespace and name; without one, the object does not exist
	watcher  *watch.RaceFreeFakeWatcher
	down     error
	slow     time.Duration // before each list
}

func (n *nodeProbes) object() *policy.NodeProbes {
	o := &policy.NodeProbes{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", ResourceVersion: strconv.Itoa(n.version)}}
	for _, name := range slices.Sorted(maps.Keys(n.policies)) {
		o.Spec.Policies = append(o.Spec.Policies, n.policies[name])
	}
	return o
}

func (n *nodeProbes) List(metav1.ListOptions) (runtime.Object, error) {
	n.mu.Lock()
	slow := n.slow
	n.mu.Unlock()
	time.Sleep(slow)
	n.mu.Lock()
	defer n.mu.Unlock()
	list := &policy.NodeProbesList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(n.version)}}
	if len(n.policies) > 0 {
		list.Items = append(list.Items, *n.object())
	}
	return list, n.down
}

func (n *nodeProbes) Watch(o metav1.ListOptions) (watch.Interface, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if o.SendInitialEvents != nil { // as an API server for custom resources may do: then the informer lists
		return nil, apierrors.NewInvalid(policy.GroupVersion.WithKind("NodeProbes").GroupKind(), "", nil)
	}
	if n.down != nil {
		return nil, n.down
	}
	n.watcher = watch.NewRaceFreeFake()
	return n.watcher, nil
}

// set creates, changes or, with an empty text, removes a policy.
func (n *nodeProbes) set(t *testing.T, namespace, name, text string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.version++
	key, existed := namespace+"/"+name, len(n.policies) > 0
	before, old := n.policies[key], n.object()
	if text == "" {
		delete(n.policies, key)
	} else {
		p := policy.NodePolicy{Namespace: namespace, Name: name, UID: before.UID, Generation: before.Generation + 1, Created: before.Created}
		if p.UID == "" {
			p.UID, p.Created = types.UID(fmt.Sprint("policy-", n.version)), metav1.Time{Time: time.Unix(int64(n.version), 0)}
		}
		if err := yaml.Unmarshal([]byte(text), &p.Spec); err != nil {
			t.Fatal(err)
		}
		n.policies[key] = p
	}
	switch exists := len(n.policies) > 0; {
	case n.watcher == nil:
	case exists && existed:
		n.watcher.Modify(n.object())
	case exists:
		n.watcher.Add(n.object())
	case existed:
		n.watcher.Delete(old)
	}
}

// policyOf returns a policy for the pods with the label app.
func policyOf(app, kind, rest string) string {
	return fmt.Sprintf("selector: {matchLabels: {app: %s}}\nprobes: [{name: ping, container: web, kind: %s, %s}]", app, kind, rest)
}

// withPolicies runs test with a source that follows policies.
func withPolicies(t *testing.T, test func(w *world, n *nodeProbes), edit ...func(*world)) {
	t.Helper()
	n := &nodeProbes{version: 1, policies: make(map[string]policy.NodePolicy)}
	bubble(t, func(w *world) { test(w, n) }, append(edit, func(w *world) { w.cfg.NodeProbes = n })...)
}

// unannotated returns a pod with the label app, the gate and no annotation.
func unannotated(name, app string) *v1.Pod {
	pod := podNamed(name, "")
	delete(pod.Annotations, declared.Annotation)
	pod.Labels = map[string]string{"app": app}
	return pod
}

func TestPolicyDeclaresProbes(t *testing.T) {
	withPolicies(t, func(w *world, n *nodeProbes) {
		slow, quick := w.script("/slow", success), w.script("/quick", failure)
		n.set(t, "shop", "cache", policyOf("cache", "Readiness", "httpGet: {path: /slow, port: http}, period: 2s"))
		n.set(t, "other", "cache", policyOf("cache", "Liveness", "tcpSocket: {port: 1}"))
		w.cluster.set(unannotated("web", "cache"))
		w.cluster.set(unannotated("bystander", "db"))
		w.start()
		w.wait(5 * time.Second)
		w.wantConditions("web", "readiness.web=success")
		w.wantDecided("bystander", "prober.dev/ready=Unknown NotProbed")
		w.takeEvents()
		if got := len(slow.Calls()); got < 2 || got > 4 {
			t.Errorf("%d attempts in 5 s with a period of 2 s", got)
		}
		n.set(t, "shop", "cache", policyOf("cache", "Readiness", "httpGet: {path: /quick, port: http}, period: 1s, failureThreshold: 1"))
		w.wait(2 * time.Second)
		w.wantConditions("web", "readiness.web=failure!")
		w.takeEvents()
		later := unannotated("later", "cache") // of a policy that the node has
		w.cluster.set(later)
		w.wait(2 * time.Second)
		w.wantConditions("later", "readiness.web=failure!")
		w.takeEvents()
		n.set(t, "shop", "cache", "")
		w.wait(2 * time.Second)
		w.wantDecided("web", "prober.dev/ready=Unknown NotProbed")
		w.wantEvents("Warning NotProbed the pod has the readiness gate prober.dev/ready, and no probe in its annotation prober.dev/probes, nor by a ProbePolicy", "Warning NotProbed")
		calls := len(quick.Calls())
		w.wait(10 * time.Second)
		if len(quick.Calls()) != calls {
			t.Error("a probe goes on after its policy")
		}
	})
}

func TestAnnotationGoesBeforePolicies(t *testing.T) {
	withPolicies(t, func(w *world, n *nodeProbes) {
		w.script("/r", failure)
		w.script("/policy", success)
		n.set(t, "shop", "first", policyOf("cache", "Readiness", "httpGet: {path: /policy, port: http}, period: 1s"))
		n.set(t, "shop", "second", policyOf("cache", "Readiness", "tcpSocket: {port: 7}, period: 1s"))
		pod := unannotated("web", "cache")
		pod.Annotations[declared.Annotation] = readiness
		w.cluster.set(pod)
		w.start()
		w.wait(3 * time.Second)
		w.wantConditions("web", "readiness.web=failure!")
		delete(pod.Annotations, declared.Annotation)
		w.cluster.set(pod)
		w.wait(3 * time.Second)
		w.wantConditions("web", "readiness.web=success")
		if all := w.manager.Probes(); len(all) != 1 || all[0].Handler != "http" {
			t.Errorf("got %+v, want the probe of the older policy", all)
		}
	})
}

func TestPolicyErrorsNameThePolicy(t *testing.T) {
	withPolicies(t, func(w *world, n *nodeProbes) {
		n.set(t, "shop", "cache", policyOf("cache", "Readiness", "plugin: {name: redis, target: {port: redis}}")+"\nliveness: evict")
		n.set(t, "shop", "quick", policyOf("cache", "Startup", "tcpSocket: {port: 1}, period: 20ms"))
		n.set(t, "shop", "absent", strings.ReplaceAll(policyOf("cache", "Startup", "tcpSocket: {port: 1}"), "container: web", "container: db"))
		w.cluster.set(unannotated("web", "cache"))
		w.start()
		w.wait(time.Second)
		event := strings.Join(w.takeEvents(), "\n")
		for _, want := range []string{
			`ProbePolicy cache: spec.probes[ping].plugin.target.port: Invalid value: "redis"`, `ProbePolicy cache: spec.liveness: Forbidden: kubernetes.liveness.modes of the agent does not allow "evict"`,
			`ProbePolicy quick: spec.probes[ping].period: Invalid value: "20ms": kubernetes.minPeriod`, `ProbePolicy absent: spec.probes[ping]: Not found: "db"`,
		} {
			if !strings.Contains(event, want) {
				t.Errorf("the events lack %s:\n%s", want, event)
			}
		}
	})
}

// A probe goes on unchanged while an edit of its policy is invalid, and is changed by the next valid one.
func TestInvalidEditKeepsProbe(t *testing.T) {
	withPolicies(t, func(w *world, n *nodeProbes) {
		before, after := w.script("/before", success), w.script("/after", failure)
		text := policyOf("cache", "Readiness", "httpGet: {path: /before, port: http}, period: 1s, failureThreshold: 1")
		n.set(t, "shop", "cache", text)
		w.cluster.set(unannotated("web", "cache"))
		w.start()
		w.wait(3 * time.Second)
		n.set(t, "shop", "cache", strings.ReplaceAll(text, "period: 1s", "period: 1ms"))
		w.wait(3 * time.Second)
		w.wantEvents("Warning ProbeInvalid ProbePolicy cache: spec.probes[ping].period")
		calls := len(before.Calls())
		w.wait(10 * time.Second)
		w.wantConditions("web", "readiness.web=success")
		if len(before.Calls()) < calls+9 {
			t.Errorf("%d attempts in 10 s after an invalid edit", len(before.Calls())-calls)
		}
		n.set(t, "shop", "cache", strings.ReplaceAll(text, "/before", "/after"))
		w.wait(3 * time.Second)
		w.wantConditions("web", "readiness.web=failure!")
		if len(after.Calls()) == 0 {
			t.Error("the next valid edit does not count")
		}
	})
}

// Failures of a probe with a mode that the agent allows are acted on.
func TestPolicyHasLivenessMode(t *testing.T) {
	withPolicies(t, func(w *world, n *nodeProbes) {
		w.script("/live", failure)
		text := policyOf("cache", "Liveness", "httpGet: {path: /live, port: http}, period: 1s, failureThreshold: 1")
		n.set(t, "shop", "cache", text+"\nliveness: evict")
		w.cluster.set(unannotated("web", "cache"))
		own := unannotated("own", "cache")
		own.Annotations[kube.LivenessAnnotation] = "observe"
		w.cluster.set(own)
		w.start()
		w.wait(5 * time.Second)
		for _, c := range []struct {
			pod  string
			want liveness.Mode
		}{{"web", liveness.Evict}, {"own", liveness.Observe}} {
			if mode, _ := w.actor.Asked(types.UID("uid-"+c.pod), "web", probe.Liveness); mode != c.want {
				t.Errorf("%s has the mode %s, want %s", c.pod, mode, c.want)
			}
		}
	}, func(w *world) { w.cfg.Policy.Liveness.Modes = []string{"observe", "evict"} })
}

// A pod is not reported as unprobed before its policies are known.
func TestPoliciesAreAwaited(t *testing.T) {
	withPolicies(t, func(w *world, n *nodeProbes) {
		n.slow = 10 * time.Second
		n.set(t, "shop", "cache", policyOf("cache", "Readiness", "tcpSocket: {port: 1}, period: 1s"))
		w.cluster.set(unannotated("web", "cache"))
		w.start()
		w.wait(5 * time.Second)
		w.wantEvents()
		if locked(w, &w.sets) > 0 {
			t.Error("conditions were decided before the policies were known")
		}
		w.wait(10 * time.Second)
		w.wantConditions("web", "readiness.web=success")
	})
	forbidden := apierrors.NewForbidden(policy.GroupVersion.WithResource(policy.NodeProbesResource).GroupResource(), "worker-1", nil)
	unknown := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusNotFound, Message: "the server could not find the requested resource"}}
	for _, refusal := range []error{forbidden, unknown} {
		withPolicies(t, func(w *world, n *nodeProbes) {
			n.down = refusal
			n.set(t, "shop", "cache", policyOf("cache", "Readiness", "tcpSocket: {port: 1}, period: 1s"))
			w.cluster.set(unannotated("web", "cache"))
			w.cluster.set(podNamed("annotated", readiness))
			w.start()
			w.wait(5 * time.Second)
			w.wantConditions("annotated", "readiness.web=success")
			w.wantDecided("web", "prober.dev/ready=Unknown NotProbed")
			if troubles := w.source.ForAgent().Troubles(); len(troubles) != 1 || troubles[0].Name != "policies" {
				t.Errorf("got %+v", troubles)
			}
			n.mu.Lock()
			n.down = nil
			n.mu.Unlock()
			w.wait(5 * time.Minute)
			w.wantConditions("web", "readiness.web=success")
			if troubles := w.source.ForAgent().Troubles(); len(troubles) > 0 {
				t.Errorf("got %+v", troubles)
			}
		})
	}
}

// TestPodsHaveTheProbesOfTheirPolicies changes pods and policies at random, and compares the probes that run with a
// simple model.
func TestPodsHaveTheProbesOfTheirPolicies(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			withPolicies(t, func(w *world, n *nodeProbes) {
				random := rand.New(rand.NewPCG(seed, 0))
				one := func(all ...string) string { return all[random.IntN(len(all))] }
				live := make(map[string]*v1.Pod)
				w.start()
				for step := range 60 {
					switch name := one("a", "b", "c", "d"); random.IntN(5) {
					case 0, 1:
						text := ""
						if random.IntN(3) > 0 {
							text = policyOf(one("x", "y"), one("Liveness", "Readiness"), one("tcpSocket: {port: 1}", "httpGet: {port: 2}", "grpc: {port: 3}"))
						}
						n.set(t, one("shop", "shop", "other"), "policy-"+name, text)
					case 2, 3:
						pod := unannotated(name, one("x", "y", "z"))
						if before := live[name]; before != nil {
							pod.UID, pod.Status = before.UID, before.Status
						} else {
							pod.UID = types.UID(fmt.Sprint("uid-", name, step))
						}
						if random.IntN(3) == 0 {
							pod.Annotations[declared.Annotation] = `{web: {readiness: {exec: {command: [x]}}}}`
						}
						live[name] = pod
						w.cluster.set(pod)
					case 4:
						if live[name] != nil {
							delete(live, name)
							w.cluster.remove(name)
						}
					}
					if random.IntN(2) == 0 {
						continue // the next change comes at once
					}
					w.wait(time.Minute)
					if got, want := running(w), expected(n, live); !slices.Equal(got, want) {
						t.Fatalf("step %d: got %q, want %q", step, got, want)
					}
				}
				w.wait(10 * time.Minute)
			}, func(w *world) { w.cfg.Exec = nil })
		})
	}
}

// running returns the probes in the manager, as "POD KIND HANDLER".
func running(w *world) (all []string) {
	for _, p := range w.manager.Probes() {
		all = append(all, fmt.Sprint(p.Pod, " ", p.Kind, " ", p.Handler))
	}
	slices.Sort(all)
	return all
}

// expected returns what running should return. The agent has no access to commands, so a probe of the annotation is
// refused, and no policy takes its place.
func expected(n *nodeProbes, live map[string]*v1.Pod) (all []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	policies := slices.Collect(maps.Values(n.policies))
	slices.SortFunc(policies, func(a, b policy.NodePolicy) int { return a.Created.Compare(b.Created.Time) })
	for name, pod := range live {
		handlers := make(map[string]string)
		if _, annotated := pod.Annotations[declared.Annotation]; annotated {
			handlers["readiness"] = ""
		}
		for _, p := range policies {
			kind := strings.ToLower(p.Probes[0].Kind)
			if _, taken := handlers[kind]; taken || p.Namespace != "shop" || p.Selector.MatchLabels["app"] != pod.Labels["app"] {
				continue
			}
			for _, handler := range []struct{ field, name string }{{"tcpSocket", "tcp"}, {"httpGet", "http"}, {"grpc", "grpc"}} {
				if strings.Contains(string(p.Probes[0].Text), handler.field) {
					handlers[kind] = handler.name
				}
			}
		}
		for kind, handler := range handlers {
			if handler != "" {
				all = append(all, name+" "+kind+" "+handler)
			}
		}
	}
	slices.Sort(all)
	return all
}
