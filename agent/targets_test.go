package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/pods"
)

func startTargeted(t *testing.T, targets pods.Targets) *running {
	return start(t, newTarget(t).external("shop"), func(c *agent.Config) {
		inner := c.Source
		c.Source = func(ctx context.Context, host pods.Host) (pods.Source, error) {
			source, err := inner(ctx, host)
			source.Targets = func() pods.Targets { return targets }
			return source, err
		}
	})
}

var gone = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func someTargets() pods.Targets {
	all := pods.Targets{
		Items: []pods.Target{
			{Group: "web", Name: "b", Address: "b:1", Source: "file a.json:2", State: "dropped", Reason: "no port", Namespace: "targets", Pod: "web-b"},
			{Group: "db", Name: "a", Address: "a:1", Source: "static", State: "probed", Labels: map[string]string{"x": "\x1b[31m"}, Namespace: "targets", Pod: "db-a"},
			{Group: "web", Name: "c", Address: "c:1", Source: "file a.json:3", State: "gone", Reason: "no longer listed", Since: gone, Namespace: "targets", Pod: "web-c"},
		},
		Sources: []pods.TargetSource{
			{Group: "web", Source: "file a.json", Dropped: 1, Failures: 2, Err: errors.New("no such file"), Refreshed: gone}, {Group: "db", Source: "static", Probed: 1},
		},
	}
	for i := range 600 { // more than a page of the client
		all.Items = append(all.Items, pods.Target{Group: "many", Name: fmt.Sprint(i), State: "probed", Namespace: "targets", Pod: fmt.Sprint("many-", i)})
	}
	return all
}

func TestTargetsAreListed(t *testing.T) {
	t.Parallel()
	r := startTargeted(t, someTargets())
	v := newValidator(t)
	for query, want := range map[string]int{"": 200, "?group=web&state=gone": 200, "?limit=1": 200, "?state=lost": 400, "?grp=web": 400} {
		status, body := r.do("GET", "/api/v1/targets"+query)
		if err := v.check("GET", "/api/v1/targets", status, body); err != nil || status != want {
			t.Errorf("%s: %d, %v", query, status, err)
		}
	}
	c, err := client.New(client.Config{Server: r.url})
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.Targets(t.Context(), client.TargetFilter{})
	if err != nil || len(all.Items) != 603 || len(all.Sources) != 2 {
		t.Fatalf("%d targets of %d sources, %v", len(all.Items), len(all.Sources), err)
	}
	var names []string
	for _, target := range all.Items {
		names = append(names, target.Group+" "+target.Name)
	}
	if !slices.IsSorted(names) {
		t.Error("the targets are not sorted by group and name")
	}
	some, err := c.Targets(t.Context(), client.TargetFilter{Group: "web", State: "gone"})
	if err != nil {
		t.Fatal(err)
	}
	want := api.TargetList{
		Items: []api.Target{{
			Group: "web", Name: "c", Address: "c:1", Source: "file a.json:3", State: "gone", Reason: "no longer listed", Since: gone, Namespace: "targets", Pod: "web-c",
		}},
		Sources: []api.TargetSource{{Group: "web", Source: "file a.json", Dropped: 1, Failures: 2, Error: "no such file", Refreshed: gone}},
	}
	if diff := cmp.Diff(want, some); diff != "" {
		t.Error(diff)
	}
}

func TestMissingPodOfTargetIsExplained(t *testing.T) {
	t.Parallel()
	r := startTargeted(t, someTargets())
	for pod, want := range map[string]string{
		"web-b": `there is no pod targets/web-b: the target \"b\" of group web is dropped: no port`,
		"web-c": `there is no pod targets/web-c: the target \"c\" of group web is gone since 2026-01-02T03:04:05Z: no longer listed`,
		"web-d": `there is no pod targets/web-d"`,
	} {
		if status, body := r.do("GET", "/api/v1/probes/targets/"+pod+"/target/readiness"); status != http.StatusNotFound || !strings.Contains(body, want) {
			t.Errorf("%d %s, want %s", status, body, want)
		}
	}
}

func TestAgentWithoutTargetsHasNone(t *testing.T) {
	t.Parallel()
	r := start(t, newTarget(t).external("shop"))
	if status, body := r.do("GET", "/api/v1/targets"); status != http.StatusOK || body != `{"sources":[],"items":[]}`+"\n" {
		t.Errorf("%d %s", status, body)
	}
}

// The metrics have the labels that prober.yaml chooses, and a reload changes them.
func TestTargetLabelsOfMetrics(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "prober.yaml")
	write(t, file, "apiVersion: prober.dev/v1\nkind: AgentConfig\nmetrics: {targetLabels: [team, x]}\n")
	targets := pods.Targets{Items: []pods.Target{
		{Group: "db", Name: "a", Address: "a:1", State: "probed", Labels: map[string]string{"x": "\x1b[31m", "team": "data \"1\"", "other": "o"}, Namespace: "targets", Pod: "db-a"},
		{Group: "db", Name: "b", Address: "b:1", State: "probed", Namespace: "targets", Pod: "db-b"},
	}}
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) {
		c.ConfigFile = file
		inner := c.Source
		c.Source = func(ctx context.Context, host pods.Host) (pods.Source, error) {
			source, err := inner(ctx, host)
			source.Targets = func() pods.Targets { return targets }
			return source, err
		}
	})
	b := `prober_target_info{address="b:1",container="target",group="db",namespace="targets",pod="db-b"} 1`
	want := []string{`prober_target_info{address="a:1",container="target",group="db",label_team="data \"1\"",label_x="` + "\x1b[31m" + `",namespace="targets",pod="db-a"} 1`, b}
	if got := r.series("prober_target_info{"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	write(t, file, "apiVersion: prober.dev/v1\nkind: AgentConfig\nmetrics: {targetLabels: [other]}\n")
	r.reload()
	want = []string{`prober_target_info{address="a:1",container="target",group="db",label_other="o",namespace="targets",pod="db-a"} 1`, b}
	if got := r.series("prober_target_info{"); !slices.Equal(got, want) {
		t.Errorf("after the reload: %q", got)
	}
}
