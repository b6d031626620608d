package conditions_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/pods/kube/conditions"
	"github.com/daeace23/prober/probe"
)

// probeIn returns a decided readiness probe.
func probeIn(container string, state states.State, text string) conditions.Probe {
	return conditions.Probe{Container: container, Kind: probe.Readiness, State: state, Decided: true, Failed: state == states.Failure, Text: text}
}

func undecided(container string, kind probe.Kind) conditions.Probe {
	return conditions.Probe{Container: container, Kind: kind}
}

// with returns p with a change.
func with(p conditions.Probe, change func(p *conditions.Probe)) conditions.Probe {
	change(&p)
	return p
}

func liveness(p *conditions.Probe)   { p.Kind = probe.Liveness }
func startup(p *conditions.Probe)    { p.Kind = probe.Startup }
func paused(p *conditions.Probe)     { p.Paused = true }
func nowUnknown(p *conditions.Probe) { p.State = states.Unknown } // Failed stays as it was

func condition(of v1.PodConditionType, status v1.ConditionStatus, reason, message string) v1.PodCondition {
	return v1.PodCondition{Type: of, Status: status, Reason: reason, Message: message}
}

// words returns conditions as "TYPE=STATUS REASON MESSAGE".
func words(all []v1.PodCondition) string {
	var lines []string
	for _, c := range all {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message)))
	}
	return strings.Join(lines, "\n")
}

func TestDecide(t *testing.T) {
	web := func(s states.State) conditions.Probe { return probeIn("web", s, "") }
	readyTrue := condition(conditions.Ready, v1.ConditionTrue, conditions.ProbeSucceeded, "")
	readyFalse := condition(conditions.Ready, v1.ConditionFalse, conditions.ProbeFailed, "web readiness: refused")
	for _, c := range []struct {
		name      string
		pod       conditions.Pod // Gated unless ungated
		ungated   bool
		published []v1.PodCondition
		want      string
	}{
		{name: "success", pod: conditions.Pod{Probes: []conditions.Probe{web(states.Success)}}, want: "prober.dev/ready=True ProbeSucceeded"},
		{name: "success without a gate", ungated: true, pod: conditions.Pod{Probes: []conditions.Probe{web(states.Success)}}},
		{name: "gate without probes", want: "prober.dev/ready=Unknown NotProbed no probe of prober decides this condition"},
		{name: "gate without probes any more", published: []v1.PodCondition{readyTrue}, want: "prober.dev/ready=Unknown NotProbed no probe of prober decides this condition"},
		{name: "gate without probes, as published", published: []v1.PodCondition{condition(conditions.Ready, v1.ConditionUnknown, conditions.NotProbed, "no probe of prober decides this condition")}},
		{name: "gate and a liveness probe alone", pod: conditions.Pod{Probes: []conditions.Probe{with(web(states.Success), liveness)}}, want: "prober.dev/ready=True ProbeSucceeded\nprober.dev/live=True ProbeSucceeded"},
		{name: "liveness probe is gone", pod: conditions.Pod{PerProbe: true, Probes: []conditions.Probe{web(states.Success)}}, published: []v1.PodCondition{
			readyTrue, condition(conditions.Live, v1.ConditionFalse, conditions.ProbeFailed, "web liveness: no"), condition("prober.dev/readiness.web", v1.ConditionTrue, conditions.ProbeSucceeded, ""), condition("prober.dev/liveness.web", v1.ConditionFalse, conditions.ProbeFailed, "web liveness: no"),
		}, want: "prober.dev/live=Unknown NotProbed no probe of prober decides this condition\nprober.dev/liveness.web=Unknown NotProbed no probe of prober decides this condition"},
		{name: "conditions of single probes are not asked for any more", pod: conditions.Pod{Probes: []conditions.Probe{web(states.Success)}}, published: []v1.PodCondition{
			readyTrue, condition("prober.dev/readiness.web", v1.ConditionTrue, conditions.ProbeSucceeded, ""),
		}, want: "prober.dev/readiness.web=Unknown NotProbed no probe of prober decides this condition"},
		{name: "undecided liveness probe keeps its condition", pod: conditions.Pod{PerProbe: true, Probes: []conditions.Probe{undecided("web", probe.Liveness)}}, ungated: true, published: []v1.PodCondition{
			condition(conditions.Live, v1.ConditionFalse, conditions.ProbeFailed, "web liveness: no"), condition("prober.dev/liveness.web", v1.ConditionFalse, conditions.ProbeFailed, "web liveness: no"),
		}},
		{name: "conditions of others", ungated: true, published: []v1.PodCondition{condition("Ready", v1.ConditionTrue, "", ""), condition("prober.dev/other", v1.ConditionTrue, "", ""), condition("example.com/liveness.web", v1.ConditionTrue, "", "")}},
		{name: "another generation", pod: conditions.Pod{Generation: 3, Probes: []conditions.Probe{web(states.Success)}}, published: []v1.PodCondition{{Type: conditions.Ready, Status: v1.ConditionTrue, Reason: conditions.ProbeSucceeded, ObservedGeneration: 2}}, want: "prober.dev/ready=True ProbeSucceeded"},
		{name: "API server without generations", pod: conditions.Pod{Generation: 3, Probes: []conditions.Probe{web(states.Success)}}, published: []v1.PodCondition{readyTrue}},
		{name: "failure", pod: conditions.Pod{Probes: []conditions.Probe{probeIn("web", states.Failure, "refused")}}, want: "prober.dev/ready=False ProbeFailed web readiness: refused"},
		{name: "equal state", pod: conditions.Pod{Probes: []conditions.Probe{probeIn("web", states.Failure, "refused")}}, published: []v1.PodCondition{readyFalse}},
		{name: "another number", pod: conditions.Pod{Probes: []conditions.Probe{probeIn("web", states.Failure, "refused after 3ms")}}, published: []v1.PodCondition{condition(conditions.Ready, v1.ConditionFalse, conditions.ProbeFailed, "web readiness: refused after 1.2s")}},
		{name: "another status code", pod: conditions.Pod{Probes: []conditions.Probe{probeIn("web", states.Failure, "code: 401")}}, published: []v1.PodCondition{condition(conditions.Ready, v1.ConditionFalse, conditions.ProbeFailed, "web readiness: code: 503")}, want: "prober.dev/ready=False ProbeFailed web readiness: code: 401"},
		{name: "one of two fails", pod: conditions.Pod{Probes: []conditions.Probe{web(states.Success), probeIn("db", states.Failure, "no")}}, want: "prober.dev/ready=False ProbeFailed db readiness: no"},
		{name: "undecided and nothing published", pod: conditions.Pod{Probes: []conditions.Probe{web(states.Success), undecided("db", probe.Readiness)}}},
		{name: "undecided keeps true", pod: conditions.Pod{Probes: []conditions.Probe{undecided("web", probe.Readiness)}}, published: []v1.PodCondition{readyTrue}},
		{name: "undecided keeps false", pod: conditions.Pod{Probes: []conditions.Probe{web(states.Success), undecided("db", probe.Readiness)}}, published: []v1.PodCondition{readyFalse}},
		{name: "undecided beside a failure", pod: conditions.Pod{Probes: []conditions.Probe{probeIn("web", states.Failure, "no"), undecided("db", probe.Readiness)}}, published: []v1.PodCondition{readyTrue}, want: "prober.dev/ready=False ProbeFailed web readiness: no"},
		{name: "unknown keeps success", pod: conditions.Pod{Probes: []conditions.Probe{with(probeIn("web", states.Success, "plugin crashed"), nowUnknown)}}, published: []v1.PodCondition{readyTrue}, want: "prober.dev/ready=True ProbeUnknown web readiness: plugin crashed"},
		{name: "unknown keeps failure", pod: conditions.Pod{Probes: []conditions.Probe{with(probeIn("web", states.Failure, "plugin crashed"), nowUnknown)}}, published: []v1.PodCondition{readyFalse}, want: "prober.dev/ready=False ProbeUnknown web readiness: plugin crashed"},
		{name: "warning", pod: conditions.Pod{Probes: []conditions.Probe{probeIn("web", states.Warning, "slow")}}, want: "prober.dev/ready=True ProbeWarning web readiness: slow"},
		{name: "paused keeps failure", pod: conditions.Pod{Probes: []conditions.Probe{with(probeIn("web", states.Failure, "no"), paused)}}, want: "prober.dev/ready=False ProbeFailed web readiness: no"},
		{name: "paused", pod: conditions.Pod{Probes: []conditions.Probe{with(probeIn("web", states.Warning, "slow"), paused)}}, want: "prober.dev/ready=True Paused web readiness: paused"},
		{name: "worst first", pod: conditions.Pod{Probes: []conditions.Probe{
			probeIn("a", states.Warning, "slow"), with(web(states.Success), paused), with(probeIn("c", states.Success, "crashed"), nowUnknown), probeIn("d", states.Failure, "no"), probeIn("e", states.Failure, ""), probeIn("f", states.Success, "fine"),
		}}, want: "prober.dev/ready=False ProbeFailed d readiness: no; e readiness; c readiness: crashed; a readiness: slow; web readiness: paused"},
		{name: "lost agent is back and has decided nothing", pod: conditions.Pod{Probes: []conditions.Probe{undecided("web", probe.Readiness)}}, published: []v1.PodCondition{condition(conditions.Ready, v1.ConditionFalse, conditions.AgentLost, "")}},
		{name: "lost agent is back", pod: conditions.Pod{Probes: []conditions.Probe{web(states.Success)}}, published: []v1.PodCondition{condition(conditions.Ready, v1.ConditionFalse, conditions.AgentLost, "")}, want: "prober.dev/ready=True ProbeSucceeded"},

		{name: "liveness", ungated: true, pod: conditions.Pod{Probes: []conditions.Probe{with(probeIn("web", states.Failure, "wedged"), liveness)}}, want: "prober.dev/live=False ProbeFailed web liveness: wedged"},
		{name: "liveness does not gate", pod: conditions.Pod{Probes: []conditions.Probe{web(states.Success), with(probeIn("web", states.Failure, ""), liveness)}}, want: "prober.dev/ready=True ProbeSucceeded\nprober.dev/live=False ProbeFailed web liveness"},
		{name: "startup holds back the first condition", pod: conditions.Pod{Probes: []conditions.Probe{web(states.Success), undecided("web", probe.Startup)}}},
		{name: "undecided startup keeps false", pod: conditions.Pod{Probes: []conditions.Probe{web(states.Success), undecided("db", probe.Startup)}}, published: []v1.PodCondition{readyFalse, condition(conditions.Live, v1.ConditionFalse, conditions.ProbeFailed, "db startup: no")}},
		{name: "startup fails", pod: conditions.Pod{Probes: []conditions.Probe{with(probeIn("web", states.Failure, "no"), startup)}}, want: "prober.dev/ready=False ProbeFailed web startup: no\nprober.dev/live=False ProbeFailed web startup: no"},

		{name: "frozen", pod: conditions.Pod{Frozen: "31 of 60 probes failed", Probes: []conditions.Probe{probeIn("web", states.Failure, "refused")}}, published: []v1.PodCondition{readyTrue}, want: "prober.dev/ready=True ProbeUnknown 31 of 60 probes failed"},
		{name: "frozen with another text", pod: conditions.Pod{Frozen: "32 of 60 probes failed", Probes: []conditions.Probe{probeIn("web", states.Failure, "refused")}}, published: []v1.PodCondition{condition(conditions.Ready, v1.ConditionTrue, conditions.ProbeUnknown, "31 of 60 probes failed")}},
		{name: "frozen and nothing published", pod: conditions.Pod{Frozen: "pressure", Probes: []conditions.Probe{probeIn("web", states.Failure, "refused")}}},
		{name: "frozen and false already", pod: conditions.Pod{Frozen: "pressure", Probes: []conditions.Probe{probeIn("web", states.Failure, "reset")}}, published: []v1.PodCondition{readyFalse}, want: "prober.dev/ready=False ProbeFailed web readiness: reset"},
		{name: "frozen may turn true", pod: conditions.Pod{Frozen: "pressure", Probes: []conditions.Probe{web(states.Success)}}, published: []v1.PodCondition{readyFalse}, want: "prober.dev/ready=True ProbeSucceeded"},

		{name: "a condition a probe", ungated: true, pod: conditions.Pod{PerProbe: true, Probes: []conditions.Probe{web(states.Warning), with(probeIn("web", states.Failure, "no"), liveness), undecided("db", probe.Readiness)}}, want: "prober.dev/live=False ProbeFailed web liveness: no\nprober.dev/readiness.web=True ProbeWarning web readiness\nprober.dev/liveness.web=False ProbeFailed web liveness: no"},
		{name: "a name of 63 characters", ungated: true, pod: conditions.Pod{PerProbe: true, Probes: []conditions.Probe{probeIn(strings.Repeat("c", 53), states.Success, "")}}, want: "prober.dev/readiness." + strings.Repeat("c", 53) + "=True ProbeSucceeded"},
		{name: "a name of 64 characters", ungated: true, pod: conditions.Pod{PerProbe: true, Probes: []conditions.Probe{probeIn(strings.Repeat("c", 54), states.Success, "")}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.pod.Gated, c.pod.Published = !c.ungated, c.published
			if got := words(conditions.Decide(&c.pod)); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// TestPodProbeMarkerDefectsInDecide shows that Decide does not have known defects of OpenKruise's PodProbeMarker.
func TestPodProbeMarkerDefectsInDecide(t *testing.T) {
	decide := func(published []v1.PodCondition, probes ...conditions.Probe) string {
		return words(conditions.Decide(&conditions.Pod{Gated: true, PerProbe: true, Probes: probes, Published: published}))
	}
	for _, c := range []struct{ name, got, want string }{
		{"1 two probes of one container do not overwrite each other",
			decide(nil, probeIn("web", states.Success, ""), with(probeIn("web", states.Failure, "wedged"), liveness)),
			"prober.dev/ready=True ProbeSucceeded\nprober.dev/live=False ProbeFailed web liveness: wedged\n" +
				"prober.dev/readiness.web=True ProbeSucceeded\nprober.dev/liveness.web=False ProbeFailed web liveness: wedged"},
		{"6 unknown is seen",
			decide(nil, with(probeIn("web", states.Success, "no such plugin"), nowUnknown)),
			"prober.dev/ready=True ProbeUnknown web readiness: no such plugin\nprober.dev/readiness.web=True ProbeUnknown web readiness: no such plugin"},
		{"7 Warning is ProbeWarning",
			decide(nil, probeIn("web", states.Warning, "slow")),
			"prober.dev/ready=True ProbeWarning web readiness: slow\nprober.dev/readiness.web=True ProbeWarning web readiness: slow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.got != c.want {
				t.Errorf("got\n%s\nwant\n%s", c.got, c.want)
			}
		})
	}
}

// FuzzMessage checks properties of every message, for any output of a target.
func FuzzMessage(f *testing.F) {
	f.Add("refused", "é\x00\x1b[31m\u202e\xff\r\nnext", 1)
	f.Add(strings.Repeat("ü", 1000), strings.Repeat("日本\u2028", 500), 30)
	f.Fuzz(func(t *testing.T, a, b string, n int) {
		pod := conditions.Pod{Gated: true, Probes: []conditions.Probe{probeIn("a", states.Failure, a), probeIn("b", states.Warning, b)}}
		for i := range min(max(n, 0), 40) {
			pod.Probes = append(pod.Probes, probeIn(fmt.Sprintf("c%d", i), states.Failure, a+b))
		}
		message := conditions.Decide(&pod)[0].Message
		if len(message) > 1024 || !utf8.ValidString(message) || strings.ContainsFunc(message, unicode.IsControl) {
			t.Errorf("%d bytes: %q", len(message), message)
		}
		if !strings.HasPrefix(message, "a readiness") {
			t.Errorf("the first failing probe is not the first: %q", message)
		}
		if n < 5 && !strings.Contains(message, "; b readiness") {
			t.Errorf("a long text hides another probe: %q", message)
		}
		pod.Published = conditions.Decide(&pod)
		if again := conditions.Decide(&pod); again != nil {
			t.Errorf("what is published is written again: %v", again)
		}
	})
}

// A message that differs only in a number is not written again. A message about another container is.
func TestDecideComparesNames(t *testing.T) {
	failing := func(container, text string) conditions.Probe { return probeIn(container, states.Failure, text) }
	for _, c := range []struct {
		published, now []conditions.Probe
		changed        bool
	}{
		{[]conditions.Probe{failing("app1", "timed out after 10ms")}, []conditions.Probe{failing("app1", "timed out after 12ms")}, false},
		{[]conditions.Probe{failing("app1", "status 500")}, []conditions.Probe{failing("app1", "status 503")}, true},
		{[]conditions.Probe{failing("app1", "refused")}, []conditions.Probe{failing("app2", "refused")}, true},
		{[]conditions.Probe{failing("app1", "refused"), failing("app2", "took 10ms")}, []conditions.Probe{failing("app1", "refused"), failing("app2", "took 12ms")}, false},
		{[]conditions.Probe{failing("app1", "a; b 10ms: c")}, []conditions.Probe{failing("app1", "a; b 12ms: c")}, false},
		{[]conditions.Probe{failing("app1", "refused"), failing("app2", "refused")}, []conditions.Probe{failing("app1", "refused"), failing("app3", "refused")}, true},
		{[]conditions.Probe{failing("app1", "")}, []conditions.Probe{failing("app2", "")}, true},
	} {
		published := conditions.Decide(&conditions.Pod{Gated: true, Probes: c.published})
		if got := conditions.Decide(&conditions.Pod{Gated: true, Probes: c.now, Published: published}); (len(got) > 0) != c.changed {
			t.Errorf("%s: after %s got %q", words(published), words(conditions.Decide(&conditions.Pod{Gated: true, Probes: c.now})), words(got))
		}
	}
}
