package endpoints_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/endpoints"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/pods/targets"
	"github.com/daeace23/prober/probe"
)

// fleet has pods, the states of their probes, and the probes that were triggered.
type fleet struct {
	pods []*declared.Pod

	mu        sync.Mutex
	states    map[string]states.Status // by POD/CONTAINER/KIND
	triggered []string                 // UIDs of pods
}

// add adds a pod whose containers have probes: CONTAINER/KIND. Its UID is its name.
func (f *fleet) add(namespace, name, group string, probes ...string) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
	if group != "" {
		pod.Labels = map[string]string{targets.GroupLabel: group}
	}
	var typed []declared.Probe
	for _, p := range probes {
		container, word, _ := strings.Cut(p, "/")
		if !slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool { return c.Name == container }) {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: container})
		}
		kind, _ := probe.ParseKind(word)
		typed = append(typed, declared.Probe{Container: container, Kind: kind, Handler: "h"})
	}
	f.pods = append(f.pods, declared.Parse(pod, typed...))
}

func (f *fleet) set(pod, container string, kind probe.Kind, s states.State, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.states[pod+"/"+container+"/"+kind.String()] = states.Status{State: s, Cause: states.Cause{Text: text}}
}

// open returns the endpoints of text over f.
func (f *fleet) open(t *testing.T, text string) *endpoints.Endpoints {
	t.Helper()
	f.states = make(map[string]states.Status)
	cfg, err := config.Parse("prober.yaml", []byte("apiVersion: prober.dev/v1\nkind: AgentConfig\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	e := endpoints.New(endpoints.Config{
		Of: func(podUID, container string, kind probe.Kind) states.Status {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.states[podUID+"/"+container+"/"+kind.String()]
		},
		Trigger: func(k manager.Key) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.triggered = append(f.triggered, string(k.PodUID))
			return nil
		},
	})
	e.Apply(f.pods)
	e.Set(cfg.Endpoints)
	return e
}

// answer returns the result and the output, or the error, of the probe of an endpoint.
func answer(e *endpoints.Endpoints, name string) string {
	o, err := e.Handler(name).Probe(context.Background(), probe.Request{})
	if err != nil {
		if probe.ReasonOf(err) != probe.ReasonUndecided {
			return "reason " + string(probe.ReasonOf(err))
		}
		return "unknown " + err.Error()
	}
	return strings.TrimSpace(o.Result.String() + " " + o.Output)
}

const groups = `
targets:
- {name: web, probe: {tcpSocket: {port: 1}}, static: ["127.0.0.1", "127.0.0.2", "127.0.0.3"]}
push: [{name: backup, ttl: 1h}]
`

func TestMembers(t *testing.T) {
	f := new(fleet)
	f.add("targets", "web-a", "web", "target/readiness")
	f.add("targets", "web-b", "web", "target/readiness")
	f.add("targets", "web-c", "web", "target/readiness")
	f.add("targets", "backup", "backup", "push/readiness")
	f.add("default", "shop", "", "main/readiness", "main/liveness", "side/readiness")
	f.add("targets", "outer", "outer", "endpoint/readiness")
	f.add("targets", "inner", "inner", "endpoint/readiness")
	e := f.open(t, groups+`
endpoints:
- {name: all, all: [web]}
- {name: two, atLeast: {min: 2, of: [web]}}
- {name: heavy, atLeast: {min: 3, of: [{check: backup, weight: 2}, web]}}
- {name: pod, all: [default/shop]}
- {name: one, any: [default/shop/side/readiness, targets/web-a]}
- {name: gone, any: [default/nosuch, backup]}
- {name: none, all: [default/nosuch/main/readiness]}
- {name: outer, all: [inner, web]}
- {name: inner, all: [backup]}
`)
	check := func(when string, want map[string]string) {
		t.Helper()
		for name, w := range want {
			if got := answer(e, name); got != w {
				t.Errorf("%s: %s: got %q, want %q", when, name, got, w)
			}
		}
	}
	check("without states", map[string]string{
		"all": "unknown 3 of 3 checks are unknown: web-a; web-b; web-c", "none": "unknown default/nosuch/main/readiness: there is no such probe",
		"gone": "unknown 2 of 2 checks are unknown: backup; default/nosuch: there is no such probe", "nosuch": "unknown there is no such endpoint in prober.yaml",
	})
	for _, pod := range []string{"web-a", "web-b"} {
		f.set(pod, "target", probe.Readiness, states.Success, "")
	}
	f.set("web-c", "target", probe.Readiness, states.Failure, "connection refused")
	f.set("backup", "push", probe.Readiness, states.Warning, "slow")
	f.set("shop", "main", probe.Readiness, states.Success, "")
	f.set("shop", "main", probe.Liveness, states.Failure, "deadlock")
	f.set("shop", "side", probe.Readiness, states.Success, "")
	f.set("inner", "endpoint", probe.Readiness, states.Failure, "backup: late")
	check("with states", map[string]string{
		"all": "failure 1 of 3 checks fail: web-c: connection refused", "two": "success", "heavy": "warning 1 of 4 checks warn: backup: slow",
		"pod": "failure 1 of 3 checks fail: default/shop/main/liveness: deadlock", "one": "success", "gone": "warning 1 of 2 checks warn: backup: slow",
		"outer": "failure 2 of 4 checks fail: inner: backup: late; web-c: connection refused", "inner": "warning backup: slow",
	})
}

// Rules see the forced state of a member, and go by the other members while one is drained.
func TestForcedMembers(t *testing.T) {
	f := new(fleet)
	for _, pod := range []string{"web-a", "web-b", "web-c"} {
		f.add("targets", pod, "web", "target/readiness")
	}
	e := f.open(t, groups+`
endpoints:
- {name: all, all: [web]}
- {name: any, any: [web]}
- {name: two, atLeast: {min: 2, of: [web]}}
`)
	force := func(pod string, s states.State, gate worker.Gate, text string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.states[pod+"/target/readiness"] = states.Status{State: s, Forced: gate, Cause: states.Cause{Text: text}}
	}
	check := func(when string, want ...string) {
		t.Helper()
		for i, name := range []string{"all", "any", "two"} {
			if got := answer(e, name); got != want[i] {
				t.Errorf("%s: %s: got %q, want %q", when, name, got, want[i])
			}
		}
	}
	for _, pod := range []string{"web-a", "web-b", "web-c"} {
		f.set(pod, "target", probe.Readiness, states.Success, "")
	}
	force("web-c", states.Failure, worker.ForcedDown, "forced down")
	check("one down", "failure 1 of 3 checks fail: web-c: forced down", "success", "success")
	force("web-c", states.Failure, worker.Drained, "refused")
	check("one drained", "success", "success", "success")
	force("web-b", states.Success, worker.Drained, "")
	check("two drained", "success", "success", "failure 2 of 3 checks fail: web-b: drained; web-c: drained")
	force("web-a", states.Success, worker.Drained, "")
	check("all drained", "unknown all checks are drained", "unknown all checks are drained", "failure 3 of 3 checks fail: web-a: drained; web-b: drained; web-c: drained")
	if s, _ := e.Status("all"); s.Members[2].Decides || s.Members[2].Forced != worker.Drained {
		t.Errorf("a drained check: %+v", s.Members[2])
	}
}

// A group without targets may have any number of them later, as when its list is read for the first time.
func TestMissingMemberIsNeverFailure(t *testing.T) {
	f := new(fleet)
	f.add("targets", "backup", "backup", "push/readiness")
	e := f.open(t, `
targets:
- {name: web, probe: {tcpSocket: {port: 1}}, file: [list.json]}
push: [{name: backup, ttl: 1h}]
endpoints:
- {name: two, atLeast: {min: 2, of: [web]}}
- {name: heavy, atLeast: {min: 5, of: [web, backup]}}
`)
	f.set("backup", "push", probe.Readiness, states.Failure, "late")
	for name, want := range map[string]string{
		"two": "unknown web: has no targets", "heavy": "unknown 1 of 2 checks are unknown: web: has no targets",
	} {
		if got := answer(e, name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// A change of a member triggers the probes of the endpoints with this member, and no others.
func TestChangedTriggers(t *testing.T) {
	f := new(fleet)
	f.add("targets", "web-a", "web", "target/readiness")
	f.add("targets", "backup", "backup", "push/readiness")
	for _, name := range []string{"x", "y", "z"} {
		f.add("targets", name, name, "endpoint/readiness")
	}
	e := f.open(t, groups+"endpoints: [{name: x, all: [web]}, {name: y, any: [x, backup]}, {name: z, any: [web, backup]}]\n")
	for _, c := range []struct{ pod, container, want string }{
		{"web-a", "target", "x z"}, {"backup", "push", "y z"}, {"x", "endpoint", "y"}, {"z", "endpoint", ""}, {"other", "c", ""},
	} {
		f.triggered = nil
		e.Changed(&states.Change{Info: worker.Info{Subject: results.Subject{PodUID: c.pod, Container: c.container}, Kind: probe.Readiness}})
		slices.Sort(f.triggered)
		if got := strings.Join(f.triggered, " "); got != c.want {
			t.Errorf("a change of %s triggers %q, want %q", c.pod, got, c.want)
		}
	}
	e.Set(nil)
	f.triggered = nil
	e.Changed(&states.Change{Info: worker.Info{Subject: results.Subject{PodUID: "web-a", Container: "target"}, Kind: probe.Readiness}})
	if len(f.triggered) > 0 || answer(e, "x") != "unknown there is no such endpoint in prober.yaml" {
		t.Errorf("a removed endpoint is triggered: %v", f.triggered)
	}
}

// BenchmarkChanged measures a change of one of 1,000 members, with the attempt that follows.
func BenchmarkChanged(b *testing.B) {
	f := &fleet{states: make(map[string]states.Status)}
	for i := range 1000 {
		f.add("targets", "web-"+string(rune('a'+i%26))+strings.Repeat("x", i/26), "web", "target/readiness")
	}
	f.add("targets", "all", "all", "endpoint/readiness")
	cfg, err := config.Parse("prober.yaml", []byte("apiVersion: prober.dev/v1\nkind: AgentConfig\n"+groups+"endpoints: [{name: all, all: [web]}]\n"))
	if err != nil {
		b.Fatal(err)
	}
	status := states.Status{State: states.Success}
	e := endpoints.New(endpoints.Config{
		Of: func(string, string, probe.Kind) states.Status { return status }, Trigger: func(manager.Key) error { return nil },
	})
	e.Apply(f.pods)
	e.Set(cfg.Endpoints)
	h := e.Handler("all")
	change := states.Change{Info: worker.Info{Subject: results.Subject{PodUID: "web-a", Container: "target"}, Kind: probe.Readiness}}
	b.ReportAllocs()
	for b.Loop() {
		e.Changed(&change)
		if _, err := h.Probe(context.Background(), probe.Request{}); err != nil {
			b.Fatal(err)
		}
	}
}
