package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/endpoint"
)

func TestParseChecks(t *testing.T) {
	a, err := config.Parse("prober.yaml", []byte(targetsHead+`
push:
- {name: backup, namespace: jobs, tokenFile: t, schedule: "30 3 * * *", timeZone: Europe/Riga, grace: 1h, maxRun: 2h, labels: {team: ops}}
- {name: job, ttl: 25h, successThreshold: 2, failureThreshold: 3}
- {name: flaky, ttl: 1h, failureThreshold: 3, window: 10}
- {name: strict, ttl: 1h, window: 5}
endpoints:
- {name: shop, all: [backup, job], labels: {team: shop}}
- {name: either, namespace: jobs, any: [shop, default/db]}
- {name: quorum, atLeast: {min: 3, of: [job, {check: default/db/main/readiness, weight: 2}]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	backup, job := a.Push[0], a.Push[1]
	if backup.Name != "backup" || backup.Namespace != "jobs" || backup.TokenFile != "t" || backup.Labels["team"] != "ops" || backup.Check.Grace != time.Hour || backup.Check.MaxRun != 2*time.Hour {
		t.Errorf("%+v", backup)
	}
	riga, _ := time.LoadLocation("Europe/Riga")
	if next, want := backup.Check.Schedule.Next(time.Date(2026, 7, 1, 12, 0, 0, 0, riga)), time.Date(2026, 7, 2, 3, 30, 0, 0, riga); !next.Equal(want) {
		t.Errorf("the schedule is due at %v, want %v", next, want)
	}
	if job.Namespace != config.DefaultTargetNamespace || job.Check.TTL != 25*time.Hour || job.Check.Successes != 2 || job.Check.Failures != 3 || job.Check.Schedule != nil {
		t.Errorf("%+v", job)
	}
	for i, want := range map[int]endpoint.Thresholds{2: {Failures: 3, Of: 10}, 3: {Failures: 1, Of: 5}} {
		if got := a.Push[i].Check.Thresholds; got != want {
			t.Errorf("push %d has the thresholds %+v, want %+v", i, got, want)
		}
	}
	for i, want := range []string{"{all 0} [backup*1 job*1]", "{any 0} [shop*1 default/db*1]", "{at least 3} [job*1 default/db/main/readiness*2]"} {
		e := a.Endpoints[i]
		var members []string
		for _, m := range e.Members {
			members = append(members, fmt.Sprintf("%s*%d", m.Name, m.Weight))
		}
		mode := map[endpoint.Mode]string{endpoint.All: "all", endpoint.Any: "any", endpoint.AtLeast: "at least"}[e.Rule.Mode]
		if got := fmt.Sprintf("{%s %d} %v", mode, e.Rule.Min, members); got != want {
			t.Errorf("%s: %s, want %s", e.Name, got, want)
		}
	}
}

// The number of probes of a pod, and of a group with a list outside the file, is not known.
func TestParseUnknownWeight(t *testing.T) {
	for _, member := range []string{"a/b", "g"} {
		text := "targets: [{name: g, probe: {}, static: [h], file: [f.json]}]\nendpoints: [{name: e, atLeast: {min: 4, of: [" + member + "]}}]\n"
		if _, err := config.Parse("prober.yaml", []byte(targetsHead+text)); err != nil {
			t.Errorf("%s: %v", member, err)
		}
	}
}

func TestParseRefusesBadChecks(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"push: [{name: p}]", "push[0]: must have a ttl or a schedule"},
		{"push: [{name: p, ttl: 1h, schedule: '@daily'}]", "push[0].schedule: must not be set together with ttl"},
		{"push: [{name: p, ttl: 1ms}]", "push[0].ttl: must be from 1s to 8784h0m0s"},
		{"push: [{name: p, ttl: 1d}]", "push[0].ttl: must be a duration such as 50ms, 1s or 1m30s"},
		{"push: [{name: p, schedule: '@daily', grace: -1m}]", "push[0].grace: must not be negative"},
		{"push: [{name: p, ttl: 1h, grace: 1h}]", "push[0].grace: needs a schedule"},
		{"push: [{name: p, ttl: 1h, timeZone: UTC}]", "push[0].timeZone: needs a schedule"},
		{"push: [{name: p, schedule: '@daily', timeZone: Mars/Olympus}]", `push[0].timeZone: "Mars/Olympus" is not the name of a time zone, such as Europe/Riga`},
		{"push: [{name: p, schedule: '@daily', timeZone: Local}]", `push[0].timeZone: "Local" is not the name of a time zone, such as Europe/Riga`},
		{"push: [{name: p, schedule: '@daily', timeZone: ../../etc/passwd}]", `push[0].timeZone: "../../etc/passwd" is not the name of a time zone, such as Europe/Riga`},
		{"push: [{name: p, schedule: ''}]", "push[0].schedule: must not be empty"},
		{"push: [{name: p, ttl: 1h, failureThreshold: 0}]", "push[0].failureThreshold: must be at least 1"},
		{"push: [{name: p, ttl: 1h, window: 65}]", "push[0].window: must be at most 64"},
		{"push: [{name: p, ttl: 1h, failureThreshold: 3, window: 2}]", "push[0].window: must be at least failureThreshold"},
		{"push: [{name: p, ttl: 1h, successThreshold: 1, window: 2}]", "push[0].window: must not be set together with successThreshold"},
		{"push: [{name: P, ttl: 1h}]", `push[0].name: "P" must be at most 40 lower-case letters, digits and dashes, and not begin or end with a dash`},
		{"push: [{ttl: 1h}]", "push[0].name: the field is required"},
		{"push: [{name: p, ttl: 1h}, {name: p, ttl: 1h}]", `push[1].name: "p" is set twice, first on line 3`},
		{"push: [{name: p, ttl: 1h}]\ntargets: [{name: p, probe: {}, static: [h]}]", `push[0].name: "p" is set twice, first on line 4`},
		{"push: [{name: p, ttl: 1h}]\nendpoints: [{name: q, all: [p]}, {name: q, all: [p]}]", `endpoints[1].name: "q" is set twice, first on line 4`},
		{"endpoints: [{name: e}]", "endpoints[0]: must have exactly one of all, any and atLeast"},
		{"push: [{name: p, ttl: 1h}]\nendpoints: [{name: e, all: [p], any: [p]}]", "endpoints[0]: must have exactly one of all, any and atLeast"},
		{"endpoints: [{name: e, all: []}]", "endpoints[0].all: must have 1 to 1000 checks"},
		{"endpoints: [{name: e, all: [p]}]\npush: [{name: pp, ttl: 1h}]", `endpoints[0].all[0]: unknown check "p"; known: e, pp (did you mean "pp"?)`},
		{"push: [{name: p, ttl: 1h}]\nendpoints: [{name: e, all: [p, p]}]", `endpoints[0].all[1]: "p" is named twice`},
		{"endpoints: [{name: e, any: [a/b/c]}]", `endpoints[0].any[0]: "a/b/c" must be a name, NAMESPACE/POD or NAMESPACE/POD/CONTAINER/KIND`},
		{"endpoints: [{name: e, any: [a/b/c/redy]}]", `endpoints[0].any[0]: unknown kind "redy"; known: liveness, readiness, startup`},
		{"endpoints: [{name: e, any: a/b}]", "endpoints[0].any: must be a list, not a string"},
		{"endpoints: [{name: e, any: [a/]}]", `endpoints[0].any[0]: "a/" must be a name, NAMESPACE/POD or NAMESPACE/POD/CONTAINER/KIND`},
		{"endpoints: [{name: e, all: [f]}, {name: f, any: [e]}]", "endpoints[0].all[0]: a cycle: e -> f -> e"},
		{"endpoints: [{name: e, all: [e]}]", "endpoints[0].all[0]: a cycle: e -> e"},
		{"endpoints: [{name: e, all: [targets/e]}]", "endpoints[0].all[0]: a cycle: e -> e"},
		{"endpoints: [{name: e, any: [f]}, {name: f, namespace: n, any: [a/e, targets/e/endpoint/readiness]}]", "endpoints[0].any[0]: a cycle: e -> f -> e"},
		{"push: [{name: p, ttl: 1h, dependsOn: [e]}]\nendpoints: [{name: e, all: [p]}]", "push[0].dependsOn[0]: a cycle: p -> e -> p"},
		{"push: [{name: p, ttl: 1h, dependsOn: [q]}]", `push[0].dependsOn[0]: unknown name "q"; known: p`},
		{"endpoints: [{name: e, atLeast: {of: [a/b]}}]", "endpoints[0].atLeast.min: the field is required"},
		{"endpoints: [{name: e, atLeast: {min: 4, of: [{check: a/b/c/readiness, weight: 3}]}}]", "endpoints[0].atLeast.min: must be at most 3, the weight of all checks"},
		{"targets: [{name: g, probe: {}, static: [h, i]}]\npush: [{name: p, ttl: 1h}]\nendpoints: [{name: e, atLeast: {min: 4, of: [g, p]}}]", "endpoints[0].atLeast.min: must be at most 3, the weight of all checks"},
		{"endpoints: [{name: e, atLeast: {min: 1, of: [{check: a/b, weight: 1001}]}}]", "endpoints[0].atLeast.of[0].weight: must be at most 1000"},
		{"endpoints: [{name: e, atLeast: {min: 1, of: [{weight: 1}]}}]", "endpoints[0].atLeast.of[0].check: the field is required"},
	} {
		_, err := config.Parse("prober.yaml", []byte(targetsHead+c.text+"\n"))
		if got := fmt.Sprint(err); !strings.HasSuffix(strings.SplitN(got, "\n", 2)[0], ": "+c.want) || !strings.HasPrefix(got, "prober.yaml:") {
			t.Errorf("%s:\ngot  %s\nwant %s", c.text, got, c.want)
		}
	}
}
