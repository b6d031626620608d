package controller_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/pods/kube/controller"
	"github.com/daeace23/prober/pods/kube/policy"
)

// model is what the test has done, from which the naive computation follows.
type model struct {
	moods map[string]int // of pods, by namespace/name
}

// check compares the server with a naive computation.
func (m *model) check(t *testing.T, s *server) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	want := make(map[string][]policy.NodePolicy)
	for _, p := range s.policies.objects {
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.Selector)
		if err != nil {
			t.Fatal(err)
		}
		accepted := len(p.Spec.Check()) == 0
		var counts policy.Pods
		nodes := make(map[string]bool)
		for key, pod := range s.pods.objects {
			if pod.Namespace != p.Namespace || pod.Status.Phase == v1.PodFailed || pod.Status.Phase == v1.PodSucceeded || !selector.Matches(labels.Set(pod.Labels)) {
				continue
			}
			add(&counts, moods[m.moods[key]].counts)
			nodes[pod.Spec.NodeName] = true
		}
		delete(nodes, "")
		for node := range nodes {
			want[node] = append(want[node], policy.NodePolicy{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Generation: p.Generation, Created: p.CreationTimestamp, Spec: p.Spec})
		}
		if diff := cmp.Diff(counts, p.Status.Pods); diff != "" || p.Status.ObservedGeneration != p.Generation {
			t.Errorf("status of %s/%s, generation %d: %s", p.Namespace, p.Name, p.Status.ObservedGeneration, diff)
		}
		conditions := []bool{accepted, true, counts.Matched > 0 && counts.Healthy == counts.Matched}
		for i, name := range []string{policy.Accepted, policy.Programmed, policy.Healthy} {
			if meta.IsStatusConditionTrue(p.Status.Conditions, name) != conditions[i] {
				t.Errorf("%s/%s: %s is not %t: %+v", p.Namespace, p.Name, name, conditions[i], p.Status.Conditions)
			}
		}
	}
	for node, policies := range want {
		got := s.nodes.objects[keyOf("", node)]
		if got == nil {
			t.Errorf("node %s has no NodeProbes", node)
			continue
		}
		if a, b := encoded(t, sorted(policies)), encoded(t, got.Spec.Policies); a != b {
			t.Errorf("node %s:\ngot  %s\nwant %s", node, b, a)
		}
	}
	for _, n := range s.nodes.objects {
		if want[n.Name] == nil {
			t.Errorf("node %s has a NodeProbes", n.Name)
		}
	}
}

func add(to *policy.Pods, more policy.Pods) {
	to.Matched += more.Matched
	to.Gated += more.Gated
	to.Reporting += more.Reporting
	to.Healthy += more.Healthy
	to.Failing += more.Failing
	to.Unknown += more.Unknown
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRandomLife changes pods and policies at random, while requests fail, watches end and controllers are replaced.
// At rest, the objects equal a naive computation.
func TestRandomLife(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomLife(t, seed) })
		})
	}
}

func randomLife(t *testing.T, seed uint64) {
	s := newServer(seed)
	m := &model{make(map[string]int)}
	random := func(n int) int { // under the lock
		return s.random.IntN(n)
	}
	stops := make(map[int]func())
	for i := range 2 {
		_, stops[i] = s.start(fmt.Sprint("first-", i), nil)
	}
	for step := range 120 {
		restart := -1
		s.set(func() {
			if step%30 == 10 {
				s.faults = 0.3
			} else if step%30 == 25 {
				s.faults = 0
			}
			switch random(12) {
			case 0:
				restart = random(2)
			case 1:
				s.pods.endAll()
				s.policies.endAll()
				s.nodes.endAll()
			case 2:
				s.pods.events, s.policies.events, s.nodes.events = nil, nil, nil
				s.pods.first, s.policies.first, s.nodes.first = s.version, s.version, s.version
				s.pods.endAll()
			case 3, 4, 5:
				m.changePolicy(s, random)
			default:
				m.changePod(s, random)
			}
		})
		if restart >= 0 {
			stops[restart]()
			_, stops[restart] = s.start(fmt.Sprint("at-", step), nil)
		}
		if step%4 == 0 {
			time.Sleep(time.Duration(step%7) * 300 * time.Millisecond)
		}
		if step == 60 {
			s.set(func() { s.faults = 0 })
			time.Sleep(3 * time.Minute)
			m.check(t, s)
		}
	}
	s.set(func() { s.faults = 0 })
	time.Sleep(3 * time.Minute)
	m.check(t, s)
	s.taken()
	_, late := s.start("late", nil)
	time.Sleep(3 * time.Minute)
	if writes := s.taken(); len(writes) > 0 {
		t.Errorf("at rest: %v", writes)
	}
	for _, stop := range stops {
		stop()
	}
	late()
}

func (m *model) changePolicy(s *server, random func(int) int) {
	namespace, name := fmt.Sprint("ns", random(2)), fmt.Sprint("policy", random(5))
	old := s.policies.objects[keyOf(namespace, name)]
	switch {
	case old == nil || random(6) == 0:
		if old != nil { // deleted and created again, perhaps in one step of a list
			s.policies.remove(namespace, name)
		}
		s.policies.put(newPolicy(namespace, name, fmt.Sprint("app", random(3)), func(p *policy.ProbePolicy) {
			p.UID = types.UID(fmt.Sprint(s.version))
			p.CreationTimestamp = metav1.NewTime(time.Unix(int64(random(3)), 0))
			if random(3) == 0 {
				p.Spec.Selector = metav1.LabelSelector{}
			}
		}))
	case random(3) == 0:
		s.policies.remove(namespace, name)
	default:
		next := old.DeepCopyObject().(*policy.ProbePolicy)
		next.Generation++
		next.Spec.Probes[0].Container = "app"
		if random(3) == 0 {
			next.Spec.Probes[0].Container = "" // invalid
		}
		next.Spec.Probes[0].Text = json.RawMessage(fmt.Sprintf(`{"tcpSocket":{"port":%d}}`, 1+random(9)))
		s.policies.put(next)
	}
}

func (m *model) changePod(s *server, random func(int) int) {
	namespace, name := fmt.Sprint("ns", random(2)), fmt.Sprint("pod", random(12))
	key := keyOf(namespace, name)
	old := s.pods.objects[key]
	app, node := fmt.Sprint("app", random(3)), fmt.Sprint("node", random(4))
	if old != nil {
		node = old.Spec.NodeName
		switch random(8) {
		case 0: // deleted and created again
			s.pods.remove(namespace, name)
			node = fmt.Sprint("node", random(4))
		case 1:
			s.pods.remove(namespace, name)
			return
		case 2:
			next := old.DeepCopy()
			next.Status.Phase = []v1.PodPhase{v1.PodFailed, v1.PodSucceeded}[random(2)]
			s.pods.put(next)
			return
		case 3, 4: // its labels stay
			app = old.Labels["app"]
		}
	}
	if old == nil && random(4) == 0 {
		node = "" // not scheduled
	} else if node == "" {
		node = fmt.Sprint("node", random(4))
	}
	m.moods[key] = random(len(moods))
	s.pods.put(newPod(namespace, name, node, app, moods[m.moods[key]]))
}

// alone runs a controller, which holds the lease, beside a server.
func alone(t *testing.T, prepare func(s *server), test func(s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1)
		s.set(func() { prepare(s) })
		_, stop := s.start("one", nil)
		time.Sleep(time.Minute)
		test(s)
		stop()
	})
}

func condOf(s *server, name, conditionType string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := meta.FindStatusCondition(s.policies.objects[keyOf("shop", name)].Status.Conditions, conditionType)
	if c == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message))
}

// TestWrites counts the writes of each step of the life of a policy.
func TestWrites(t *testing.T) {
	healthy, failing := moods[3], moods[4]
	edit := func(s *server, change func(*policy.ProbePolicy)) {
		next := s.policies.objects["shop/web"].DeepCopyObject().(*policy.ProbePolicy)
		next.Generation++
		change(next)
		s.policies.put(next)
	}
	steps := []struct {
		name string
		do   func(s *server)
		want []string
	}{
		{"policy created", func(s *server) { s.policies.put(newPolicy("shop", "web", "web", nil)) }, []string{"create one", "status web"}},
		{"pod on the same node", func(s *server) { s.pods.put(newPod("shop", "b", "one", "web", healthy)) }, []string{"status web"}},
		{"pod on another node", func(s *server) { s.pods.put(newPod("shop", "c", "two", "web", healthy)) }, []string{"create two", "status web"}},
		{"pod of another namespace", func(s *server) { s.pods.put(newPod("bank", "c", "three", "web", healthy)) }, nil},
		{"pod not scheduled", func(s *server) { s.pods.put(newPod("shop", "d", "", "web", moods[0])) }, []string{"status web"}},
		{"pod fails", func(s *server) { s.pods.put(newPod("shop", "c", "two", "web", failing)) }, []string{"status web"}},
		{"other condition", func(s *server) {
			s.pods.put(newPod("shop", "c", "two", "web", mood{true, []v1.PodCondition{kubelet, readyFalse}, policy.Pods{}}))
		}, nil},
		{"other labels", func(s *server) {
			p := s.pods.objects["shop/c"].DeepCopy()
			p.Labels["version"] = "2"
			s.pods.put(p)
		}, nil},
		{"policy edited", func(s *server) { edit(s, func(p *policy.ProbePolicy) { p.Spec.Liveness = "restart" }) }, []string{"status web", "status web", "update one", "update two"}},
		{"metadata of policy edited", func(s *server) {
			next := s.policies.objects["shop/web"].DeepCopyObject().(*policy.ProbePolicy)
			next.Labels = map[string]string{"a": "b"}
			s.policies.put(next)
		}, nil},
		{"pod moves out of the selector", func(s *server) { s.pods.put(newPod("shop", "c", "two", "api", healthy)) }, []string{"delete two", "status web"}},
		{"pod moves back", func(s *server) { s.pods.put(newPod("shop", "c", "two", "web", healthy)) }, []string{"create two", "status web"}},
		{"pod ends", func(s *server) {
			p := s.pods.objects["shop/c"].DeepCopy()
			p.Status.Phase = v1.PodSucceeded
			s.pods.put(p)
		}, []string{"delete two", "status web"}},
		{"NodeProbes deleted by somebody", func(s *server) { s.nodes.remove("", "one") }, []string{"create one"}},
		{"NodeProbes of a node without pods", func(s *server) {
			s.nodes.put(&policy.NodeProbes{ObjectMeta: metav1.ObjectMeta{Name: "gone", UID: "u"}})
		}, []string{"delete gone"}},
		{"policy invalid", func(s *server) { edit(s, func(p *policy.ProbePolicy) { p.Spec.Probes[0].Container = "" }) }, []string{"status web", "status web", "update one"}},
		{"policy valid", func(s *server) { edit(s, func(p *policy.ProbePolicy) { p.Spec.Probes[0].Container = "app" }) }, []string{"status web", "update one"}},
		{"policy with pods deleted", func(s *server) { s.policies.remove("shop", "web") }, []string{"delete one"}},
		{"policy created again", func(s *server) { s.policies.put(newPolicy("shop", "web", "web", nil)) }, []string{"create one", "status web", "status web"}},
		{"a pod of a node deleted", func(s *server) { s.pods.remove("shop", "a") }, []string{"status web"}},
		{"the last pod of a node deleted", func(s *server) { s.pods.remove("shop", "b") }, []string{"delete one", "status web"}},
		{"policy deleted", func(s *server) { s.policies.remove("shop", "web") }, nil},
	}
	alone(t, func(s *server) { s.pods.put(newPod("shop", "a", "one", "web", healthy)) }, func(s *server) {
		for _, step := range steps {
			s.set(func() { step.do(s) })
			time.Sleep(time.Minute)
			attempts := s.tried()
			if diff := cmp.Diff(step.want, s.taken()); diff != "" || attempts != len(step.want) {
				t.Errorf("%s: %d attempts: %s", step.name, attempts, diff)
			}
		}
	})
}

func TestConditions(t *testing.T) {
	big := func(p *policy.ProbePolicy) {
		p.Spec.Probes[0].Text = json.RawMessage(fmt.Sprintf(`{"exec":{"command":["%s"]}}`, strings.Repeat("x", 300<<10)))
	}
	created := func(at int64) func(*policy.ProbePolicy) {
		return func(p *policy.ProbePolicy) { p.CreationTimestamp = metav1.NewTime(time.Unix(at, 0)) }
	}
	for _, c := range []struct {
		name          string
		pods          []mood
		policies      []*policy.ProbePolicy
		conditionType string
		want          string // of the policy web
	}{
		{"accepted", nil, []*policy.ProbePolicy{newPolicy("shop", "web", "web", nil)}, policy.Accepted, "True Valid"},
		{"invalid", nil, []*policy.ProbePolicy{newPolicy("shop", "web", "web", func(p *policy.ProbePolicy) { p.Spec.Probes[0].Kind = "Ready" })}, policy.Accepted,
			`False Invalid spec.probes[0].kind: Unsupported value: "Ready": supported values: "Liveness", "Readiness", "Startup"`},
		{"invalid is programmed", nil, []*policy.ProbePolicy{newPolicy("shop", "web", "web", func(p *policy.ProbePolicy) { p.Spec.Probes = nil })}, policy.Programmed, "True Programmed"},
		{"older policy for the same probe", moods[3:4], []*policy.ProbePolicy{newPolicy("shop", "web", "web", nil), newPolicy("shop", "older", "web", created(5))}, policy.Accepted,
			"True Conflicted for some pods, probes of older policies count instead: app readiness of older"},
		{"newer policy for the same probe", moods[3:4], []*policy.ProbePolicy{newPolicy("shop", "web", "web", nil), newPolicy("shop", "newer", "web", created(5000))}, policy.Accepted, "True Valid"},
		{"older policy of other pods", moods[3:4], []*policy.ProbePolicy{newPolicy("shop", "web", "web", nil), newPolicy("shop", "older", "api", created(5))}, policy.Accepted, "True Valid"},
		{"older policy is invalid", moods[3:4], []*policy.ProbePolicy{newPolicy("shop", "web", "web", nil), newPolicy("shop", "older", "web", func(p *policy.ProbePolicy) {
			created(5)(p)
			p.Spec.Liveness, p.Spec.Probes[0].Text = "", json.RawMessage(`{"none":1}`)
		})}, policy.Accepted, "True Conflicted for some pods, probes of older policies count instead: app readiness of older"},
		{"no room", moods[3:4], []*policy.ProbePolicy{newPolicy("shop", "web", "web", big), newPolicy("shop", "older", "web", func(p *policy.ProbePolicy) { big(p); created(5)(p) })}, policy.Programmed,
			"False NodeFull 1 nodes have no room for it: the namespaces of a node share 512 KiB of policies: node0"},
		{"room", moods[3:4], []*policy.ProbePolicy{newPolicy("shop", "web", "web", big), newPolicy("shop", "newer", "web", func(p *policy.ProbePolicy) { big(p); created(5000)(p) })}, policy.Programmed, "True Programmed"},
		{"no gate", moods[12:14], []*policy.ProbePolicy{newPolicy("shop", "web", "web", nil)}, policy.Programmed,
			"True Programmed 2 of 2 pods do not have the readiness gate prober.dev/ready: its probes do not decide whether they are ready"},
		{"no gate is needed", moods[12:14], []*policy.ProbePolicy{newPolicy("shop", "web", "web", func(p *policy.ProbePolicy) { p.Spec.Probes[0].Kind = "Liveness" })}, policy.Programmed, "True Programmed"},
		{"healthy", []mood{moods[3], moods[12]}, []*policy.ProbePolicy{newPolicy("shop", "web", "web", nil)}, policy.Healthy, "True Healthy"},
		{"failing", []mood{moods[3], moods[4], moods[0]}, []*policy.ProbePolicy{newPolicy("shop", "web", "web", nil)}, policy.Healthy, "False ProbeFailed a probe of 1 of 3 pods fails"},
		{"unknown", []mood{moods[3], moods[0]}, []*policy.ProbePolicy{newPolicy("shop", "web", "web", nil)}, policy.Healthy, "Unknown Unknown 1 of 2 pods are unknown"},
		{"no pods", nil, []*policy.ProbePolicy{newPolicy("shop", "web", "web", nil)}, policy.Healthy, "Unknown NoPods it selects no pod"},
	} {
		t.Run(c.name, func(t *testing.T) {
			alone(t, func(s *server) {
				for i, m := range c.pods {
					s.pods.put(newPod("shop", fmt.Sprint("pod", i), fmt.Sprint("node", i), "web", m))
				}
				for _, p := range c.policies {
					s.policies.put(p)
				}
			}, func(s *server) {
				if got := condOf(s, "web", c.conditionType); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
			})
		})
	}
}

// TestStatusIsWrittenEveryTwoSeconds changes a pod ten times a second.
func TestStatusIsWrittenEveryTwoSeconds(t *testing.T) {
	alone(t, func(s *server) { s.policies.put(newPolicy("shop", "web", "web", nil)) }, func(s *server) {
		s.taken()
		for i := range 200 {
			s.set(func() { s.pods.put(newPod("shop", "a", "one", "web", moods[3+i%2])) })
			time.Sleep(100 * time.Millisecond)
		}
		if got := s.taken(); len(got) < 9 || len(got) > 12 || got[0] != "create one" {
			t.Errorf("%d writes in 20 s: %v", len(got), got)
		}
	})
}

// TestConflictIsTold adds and removes an older policy, without a change of a pod.
func TestConflictIsTold(t *testing.T) {
	alone(t, func(s *server) {
		s.policies.put(newPolicy("shop", "web", "web", nil))
		s.pods.put(newPod("shop", "a", "one", "web", moods[3]))
	}, func(s *server) {
		older := newPolicy("shop", "older", "web", func(p *policy.ProbePolicy) { p.CreationTimestamp = metav1.NewTime(time.Unix(5, 0)) })
		for _, step := range []struct {
			do   func()
			want string
		}{
			{func() { s.policies.put(older) }, "True Conflicted"},
			{func() {
				older.Generation, older.Spec.Probes = 2, []policy.Probe{{Name: "web", Container: "app", Kind: "Liveness", Text: older.Spec.Probes[0].Text}}
				s.policies.put(older)
			}, "True Valid"},
			{func() { older.Generation, older.Spec.Probes[0].Kind = 3, "Readiness"; s.policies.put(older) }, "True Conflicted"},
			{func() { s.policies.remove("shop", "older") }, "True Valid"},
		} {
			s.set(step.do)
			time.Sleep(10 * time.Second)
			if got := condOf(s, "web", policy.Accepted); !strings.HasPrefix(got, step.want) {
				t.Errorf("got %s, want %s", got, step.want)
			}
		}
	})
}

// TestRateOfWrites programs 200 nodes, at most 20 of them a second, while the status of the policies changes too.
// Nodes that wait longer are the first.
func TestRateOfWrites(t *testing.T) {
	alone(t, func(s *server) { s.policies.put(newPolicy("shop", "web", "web", nil)) }, func(s *server) {
		s.taken()
		begun := time.Now()
		for _, first := range []int{0, 100} {
			s.set(func() {
				for i := range 100 {
					s.pods.put(newPod("shop", fmt.Sprint(first+i), fmt.Sprintf("node%d", first+i), "web", moods[3]))
				}
			})
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		var creates []int
		writes := s.written()
		for i, w := range writes {
			if i > 0 && w.at.Sub(begun) < time.Duration(i)*time.Second/controller.DefaultQPS {
				t.Fatalf("write %d after %v", i, w.at.Sub(begun))
			}
			var node int
			if n, _ := fmt.Sscanf(w.what, "create node%d", &node); n == 1 {
				creates = append(creates, node)
			}
		}
		if last := writes[len(writes)-1].at.Sub(begun); len(creates) != 200 || last > 16*time.Second {
			t.Errorf("%d nodes in %v", len(creates), last)
		}
		for i, node := range creates {
			if (i < 100) != (node < 100) {
				t.Errorf("write %d is for node %d", i, node)
			}
		}
	})
}

// TestNothingIsWrittenWhileUncertain lets the requests for one resource fail: the nodes keep their policies.
func TestNothingIsWrittenWhileUncertain(t *testing.T) {
	for _, c := range []struct {
		name string
		away func(s *server, away bool)
	}{
		{"pods", func(s *server, away bool) { s.pods.away = away; s.pods.endAll() }},
		{"policies", func(s *server, away bool) { s.policies.away = away; s.policies.endAll() }},
		{"nodes", func(s *server, away bool) { s.nodes.away = away; s.nodes.endAll() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			alone(t, func(s *server) {
				s.pods.put(newPod("shop", "a", "one", "web", moods[3]))
				s.policies.put(newPolicy("shop", "web", "web", nil))
			}, func(s *server) {
				s.taken()
				s.set(func() { c.away(s, true) })
				time.Sleep(3 * time.Second)
				s.set(func() { // the other watches show it
					s.pods.put(newPod("shop", "b", "two", "web", moods[3]))
					s.policies.put(newPolicy("shop", "api", "web", nil))
				})
				time.Sleep(time.Minute)
				if got := s.taken(); len(got) > 0 {
					t.Errorf("writes %v", got)
				}
				s.set(func() { c.away(s, false) })
				time.Sleep(time.Minute)
				if got := s.taken(); !slices.Contains(got, "create two") || !slices.Contains(got, "update one") {
					t.Errorf("writes %v", got)
				}
			})
		})
	}
}

// TestNothingIsWrittenBeforeAllAreListed starts a controller when one list takes a minute.
func TestNothingIsWrittenBeforeAllAreListed(t *testing.T) {
	for _, c := range []struct {
		name string
		slow func(s *server)
	}{
		{"pods", func(s *server) { s.pods.slow = time.Minute }},
		{"policies", func(s *server) { s.policies.slow = time.Minute }},
		{"nodes", func(s *server) { s.nodes.slow = time.Minute }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(1)
				s.set(func() {
					s.pods.put(newPod("shop", "a", "one", "web", moods[3]))
					s.policies.put(newPolicy("shop", "web", "web", nil))
				})
				_, stop := s.start("first", nil)
				time.Sleep(time.Minute)
				stop()
				s.set(func() { c.slow(s) })
				s.taken()
				_, stop = s.start("second", nil)
				time.Sleep(5 * time.Minute)
				if got := s.taken(); len(got) > 0 {
					t.Errorf("writes %v", got)
				}
				stop()
			})
		})
	}
}

// TestWatchIsLate holds back the events of what the controller has written: it is not written again, and what follows
// is written as soon as they arrive.
func TestWatchIsLate(t *testing.T) {
	alone(t, func(s *server) {
		s.policies.put(newPolicy("shop", "web", "web", nil))
		s.nodes.late, s.policies.late = true, true
	}, func(s *server) {
		s.set(func() { s.nodes.release(); s.policies.release() })
		time.Sleep(time.Minute)
		s.taken()
		s.set(func() { s.nodes.late = true; s.pods.put(newPod("shop", "a", "one", "web", moods[3])) })
		time.Sleep(5 * time.Second)
		s.set(func() { s.policies.put(newPolicy("shop", "api", "web", nil)) }) // follows the late event
		time.Sleep(3 * time.Second)
		attempts := s.tried()
		if diff := cmp.Diff([]string{"create one", "status api", "status web", "status web"}, s.taken()); diff != "" || attempts != 4 {
			t.Errorf("%d attempts: %s", attempts, diff)
		}
		s.set(s.nodes.release)
		time.Sleep(time.Second)
		if got := s.taken(); !slices.Contains(got, "update one") {
			t.Errorf("writes %v", got)
		}
	})
}

// TestSlowWrites has writes that take three seconds: an object has one at a time.
func TestSlowWrites(t *testing.T) {
	alone(t, func(s *server) { s.takes = 3 * time.Second }, func(s *server) {
		s.set(func() {
			s.policies.put(newPolicy("shop", "web", "web", nil))
			s.pods.put(newPod("shop", "a", "one", "web", moods[3]))
		})
		time.Sleep(time.Minute)
		attempts := s.tried()
		if got := s.taken(); len(got) != attempts || attempts > 4 {
			t.Errorf("%d attempts, writes %v", attempts, got)
		}
		s.set(func() {
			s.takes = time.Hour // so the lease is too short for them
			s.pods.put(newPod("shop", "b", "two", "web", moods[3]))
		})
		time.Sleep(time.Minute)
		if n := s.tried(); n < 6 {
			t.Errorf("%d attempts", n)
		}
		s.set(func() { s.takes = 0 })
	})
}

// TestReplicas cuts off the replica that writes from the lease alone. Another one continues, and they never write at the same time.
func TestReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1)
		s.set(func() { s.policies.put(newPolicy("shop", "web", "web", nil)) })
		one, stopOne := s.start("one", nil)
		two, stopTwo := s.start("two", nil)
		flap := func(steps int) {
			for i := range steps {
				s.set(func() {
					s.pods.put(newPod("shop", "a", fmt.Sprint("node", i%2), "web", moods[3]))
					s.pods.remove("shop", "a")
				})
				s.set(func() { s.pods.put(newPod("shop", "a", fmt.Sprint("node", i%2), "web", moods[3])) })
				time.Sleep(500 * time.Millisecond)
			}
		}
		for i := range 6 {
			flap(60)
			holder := one
			s.set(func() {
				if s.leases.objects["prober-system/"+controller.LeaseName].Spec.HolderIdentity == "two" {
					holder = two
				}
				holder.cut = true
			})
			flap(60 + i)
			s.set(func() { holder.cut = false })
		}
		flap(60)
		stopOne()
		stopTwo()
		turns := 0
		writes := s.written()
		for i := 1; i < len(writes); i++ {
			if a, b := writes[i-1], writes[i]; a.by != b.by {
				if turns++; b.at.Sub(a.at) < 4*time.Second {
					t.Errorf("%s has written %v after %s", b.by, b.at.Sub(a.at), a.by)
				}
			}
		}
		if turns != 6 {
			t.Errorf("%d turns", turns)
		}
	})
}

// TestLeaseIsReleased stops the replica that writes: another one continues at its next try.
func TestLeaseIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1)
		_, stopOne := s.start("one", nil)
		time.Sleep(time.Second)
		_, stopTwo := s.start("two", nil)
		time.Sleep(time.Minute)
		stopOne()
		s.set(func() { s.policies.put(newPolicy("shop", "web", "web", nil)) })
		time.Sleep(6 * time.Second)
		if got := s.taken(); len(got) != 1 {
			t.Errorf("writes %v", got)
		}
		stopTwo()
	})
}

func TestDryRunWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1)
		s.set(func() {
			s.pods.put(newPod("shop", "a", "one", "web", moods[3]))
			s.policies.put(newPolicy("shop", "web", "web", nil))
		})
		var log lines
		_, stop := s.start("one", func(cfg *controller.Config) { cfg.DryRun, cfg.Logger = true, log.logger() })
		time.Sleep(time.Hour)
		stop()
		if len(s.taken()) > 0 || len(s.leases.objects) > 0 {
			t.Error("it has written")
		}
		for _, want := range []string{"the policies of a node would be written", "the status of a policy would be written"} {
			if n := strings.Count(log.String(), want); n != 1 {
				t.Errorf("%d times %s in\n%s", n, want, log.String())
			}
		}
	})
}
