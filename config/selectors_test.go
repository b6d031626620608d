package config_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/config"
)

func TestEmptySelectors(t *testing.T) {
	a, err := config.Parse("prober.yaml", []byte(head+`notify:
  receivers:
  - {name: ops, exec: {command: [/x]}}
  - name: team
    exec: {command: [/x]}
    match: [{namespace: shop, pod: "db-*"}, {pod: typo}]
maintenance:
- {name: over, match: [{pod: none}], from: 2000-01-01T00:00, until: 2000-01-02T00:00}
- {name: planned, match: [{labels: "tier=dat"}], from: 2998-01-01T00:00, until: 2999-01-02T00:00}
slo:
- {name: pods, match: [{pod: "db-*"}], objective: 99}
- {name: live, match: [{pod: "db-*"}], kinds: [liveness], objective: 99}
targets:
- {name: gateway, probe: {tcpSocket: {port: 1}}, file: ["*.json"]}
- {name: web, probe: {tcpSocket: {port: 1}}, static: [h], dependsOn: [gateway]}
- {name: api, probe: {tcpSocket: {port: 1}}, static: [h], dependsOn: [web]}
`))
	if err != nil {
		t.Fatal(err)
	}
	if !a.HasLists() {
		t.Error("no lists")
	}
	probes := []*config.ProbeFacts{
		{Namespace: "shop", Pod: "db-1", Kind: "readiness", Labels: map[string]string{"tier": "data"}},
		{Namespace: "targets", Pod: "web-h", Kind: "readiness", Labels: map[string]string{config.GroupLabel: "web"}},
	}
	var got []string
	for _, s := range a.EmptySelectors(time.Now(), slices.Values(probes)) {
		got = append(got, s.Empty("prober.yaml", "of this agent"))
	}
	want := []string{
		"prober.yaml:8: notify.receivers[1].match[1]: {pod: typo} selects no probe of this agent",
		"prober.yaml:11: maintenance[1].match[0]: {labels: tier=dat} selects no probe of this agent",
		"prober.yaml:14: slo[1].match[0]: {pod: db-*} selects no probe of this agent",
		`prober.yaml:17: targets[1].dependsOn[0]: "gateway" selects no probe of this agent`,
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if empty := a.EmptySelectors(time.Now(), slices.Values(probes[:0])); empty != nil {
		t.Errorf("without probes: %v", empty)
	}
}
