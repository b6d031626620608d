package endpoints_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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

// pod returns a pod of a target group with one probe.
func pod(group, name string) *declared.Pod {
	return declared.Parse(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "targets", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{targets.GroupLabel: group}},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "target", ReadinessProbe: &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}},
		}}},
	})
}

// tick makes the tracker know a state of the probe of a pod.
func tick(tracker *states.Tracker, pod string, o probe.Outcome, decided results.Result) {
	tracker.Observe(worker.Info{Subject: results.Subject{Namespace: "targets", Pod: pod, PodUID: "uid-" + pod, Container: "target"}, Kind: probe.Readiness}).
		Tick(&worker.Tick{Outcome: o, Counted: true, Result: decided, Run: 1, Threshold: 1, After: decided, End: time.Unix(1, 0)})
}

// withConfig returns the endpoints of a prober.yaml, whose states come from tracker.
func withConfig(tb testing.TB, tracker *states.Tracker, text string) *endpoints.Endpoints {
	tb.Helper()
	cfg, err := config.Parse("prober.yaml", []byte("apiVersion: prober.dev/v1\nkind: AgentConfig\n"+text))
	if err != nil {
		tb.Fatal(err)
	}
	e := endpoints.New(endpoints.Config{Of: tracker.Of, Trigger: func(manager.Key) error { return nil }})
	e.Set(cfg.Endpoints)
	return e
}

func TestCounts(t *testing.T) {
	tracker := states.New()
	tick(tracker, "web-a", probe.Outcome{Result: probe.Failure}, results.Failure)
	tick(tracker, "web-b", probe.Outcome{Result: probe.Success}, results.Success)
	tick(tracker, "db", probe.Outcome{Result: probe.Warning, Output: "slow"}, results.Success)
	e := withConfig(t, tracker, "endpoints:\n- {name: shop, all: [targets/web-a, targets/web-b, targets/db, targets/gone]}\n- {name: other, any: [targets/web-a, targets/new]}\n")
	e.Apply([]*declared.Pod{pod("web", "web-a"), pod("web", "web-b"), pod("db", "db"), pod("new", "new")})
	var got []string
	for c := range e.Counts() {
		got = append(got, fmt.Sprintf("%s/%s", c.Namespace, c.Name))
		for _, s := range states.All() {
			got = append(got, fmt.Sprintf("%s=%d", s, c.Checks[s]))
		}
	}
	const want = "targets/shop success=1 warning=1 failure=1 unknown=1 targets/other success=0 warning=0 failure=1 unknown=1"
	if text := strings.Join(got, " "); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestDecidingFollowsEndpoints(t *testing.T) {
	tracker := states.New()
	tick(tracker, "web", probe.Outcome{Result: probe.Success}, results.Success)
	tick(tracker, "db", probe.Outcome{Result: probe.Failure, Output: "disk full"}, results.Failure)
	for _, name := range []string{"inner", "other", "shop"} {
		tick(tracker, name, probe.Outcome{Result: probe.Failure, Output: name + " fails"}, results.Failure)
	}
	e := withConfig(t, tracker, `endpoints:
- {name: shop, all: [inner, other, targets/web, targets/gone]}
- {name: inner, all: [targets/db, targets/web]}
- {name: other, all: [inner, targets/db]}
- {name: vague, all: [targets/new, targets/gone, targets/web]}
`)
	pods := []*declared.Pod{pod("web", "web"), pod("db", "db"), pod("new", "new")}
	for _, name := range []string{"shop", "inner", "other", "vague"} {
		pods = append(pods, pod(name, name))
	}
	e.Apply(pods)
	key := func(pod string) manager.Key {
		return manager.Key{PodUID: types.UID("uid-" + pod), Container: "target", Kind: probe.Readiness}
	}
	for pod, want := range map[string]string{
		"shop":  "inner=failure inner fails; targets/db=failure disk full; other=failure other fails",
		"inner": "targets/db=failure disk full",
		"vague": "targets/new=unknown ; targets/gone=unknown there is no such probe",
		"web":   "",
	} {
		var got []string
		for _, m := range e.Deciding(key(pod)) {
			got = append(got, fmt.Sprintf("%s=%s %s", m.Name, m.State, m.Cause.Text))
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%s: got  %s\nwant %s", pod, text, want)
		}
	}
	var names []string
	for _, c := range e.PartOf(key("web")) {
		names = append(names, c.Name)
	}
	if want := []string{"shop", "inner", "vague"}; !slices.Equal(names, want) || e.PartOf(key("vague")) != nil {
		t.Errorf("web is part of %q, want %q", names, want)
	}
}

// BenchmarkCounts measures a scrape of 1,000 endpoints, each with the same failing checks.
func BenchmarkCounts(b *testing.B) {
	for _, checks := range []int{10, 1000} {
		b.Run(fmt.Sprintf("endpoints=1000/checks=%d", checks), func(b *testing.B) {
			tracker := states.New()
			pods := make([]*declared.Pod, checks)
			for i := range pods {
				name := fmt.Sprint("web-", i)
				pods[i] = pod("web", name)
				tick(tracker, name, probe.Outcome{Result: probe.Failure, Output: "HTTP status 503, want 2xx"}, results.Failure)
			}
			var text strings.Builder
			text.WriteString("targets:\n- {name: web, probe: {tcpSocket: {}}, static: ['h:1']}\nendpoints:\n")
			for i := range 1000 {
				fmt.Fprintf(&text, "- {name: shop-%d, all: [web]}\n", i)
			}
			e := withConfig(b, tracker, text.String())
			e.Apply(pods)
			b.ReportAllocs()
			for b.Loop() {
				failing := 0
				for c := range e.Counts() {
					failing += c.Checks[states.Failure]
				}
				if failing != 1000*checks {
					b.Fatalf("%d checks fail", failing)
				}
			}
		})
	}
}
