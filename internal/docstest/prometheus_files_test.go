package docstest_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/metrics/agentmetrics"
	gocmp "github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	prometheusDir = "deploy/prometheus/"
	runbookPage   = "docs/alert/runbook.md"           // has a section for each alert
	alertsPage    = "docs/alert/prometheus-alerts.md" // has a row for each alert
)

// promRule is a rule of Prometheus.
type promRule struct {
	Record, Alert, Expr, For string
	Labels, Annotations      map[string]string
}

// promRules returns the rules of deploy/prometheus.
func promRules(t *testing.T) (all []promRule) {
	t.Helper()
	text, err := os.ReadFile(prometheusDir + "prober.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []promRule
		}
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

var (
	promSelector = regexp.MustCompile(`([a-z_]+:[a-z0-9_:]+|prober_[a-z_]+)(\{[^}]*\})?`)
	promMatcher  = regexp.MustCompile(`([a-z_]+)(=~|=)"([^"]*)"`)
)

// checkExpr checks that the metrics and labels of an expression exist, and the values of those labels
// whose values are known.
func checkExpr(t *testing.T, where, expr string) {
	t.Helper()
	families := make(map[string]metrics.Family)
	for _, f := range agentmetrics.Families() {
		families[f.Name] = f
		if f.Type == metrics.Histogram {
			bucket := f
			bucket.Labels = append(slices.Clone(f.Labels), metrics.Label{Name: "le"})
			families[f.Name+"_bucket"] = bucket
		}
	}
	for _, m := range promSelector.FindAllStringSubmatch(expr, -1) {
		if strings.Contains(m[1], ":") {
			if !slices.ContainsFunc(promRules(t), func(r promRule) bool { return r.Record == m[1] }) {
				t.Errorf("%s: no rule records %s", where, m[1])
			}
			continue
		}
		f, ok := families[m[1]]
		if !ok {
			t.Errorf("%s: %s is not a metric", where, m[1])
			continue
		}
		for _, l := range promMatcher.FindAllStringSubmatch(m[2], -1) {
			checkMatcher(t, where, &f, l[1], l[3])
		}
	}
}

// checkMatcher checks that a family can have a label with the values of a matcher.
func checkMatcher(t *testing.T, where string, f *metrics.Family, label, values string) {
	t.Helper()
	if label == "job" || label == "instance" {
		return
	}
	i := slices.IndexFunc(f.Labels, func(l metrics.Label) bool { return l.Name == label })
	if i < 0 {
		t.Errorf("%s: %s has no label %s", where, f.Name, label)
		return
	}
	for value := range strings.SplitSeq(values, "|") {
		if known := f.Labels[i].Values; known != nil && !strings.HasPrefix(value, "$") && !slices.Contains(known, value) {
			t.Errorf("%s: %s of %s is never %q; known: %q", where, label, f.Name, value, known)
		}
	}
}

func TestPrometheusRulesAreAboutMetricsOfProber(t *testing.T) {
	atRoot(t)
	page, err := os.ReadFile(runbookPage)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile(prometheusDir + "prober.rules_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const runbook = "https://github.com/daeace23/prober/blob/main/" + runbookPage + "#"
	for _, r := range promRules(t) {
		checkExpr(t, r.Record+r.Alert, r.Expr)
		if r.Alert == "" {
			continue
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s: severity %q, annotations %q", r.Alert, r.Labels["severity"], r.Annotations)
		}
		if r.Annotations["runbook_url"] != runbook+strings.ToLower(r.Alert) || !strings.Contains(string(page), "\n### "+r.Alert+"\n") {
			t.Errorf("%s: its runbook is %q, which %s does not have", r.Alert, r.Annotations["runbook_url"], runbookPage)
		}
		if !strings.Contains(string(tests), "alertname: "+r.Alert+"\n") {
			t.Errorf("%s has no test in prober.rules_test.yaml", r.Alert)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^### (Prober[A-Za-z]+)$").FindAllStringSubmatch(string(page), -1) {
		if !slices.ContainsFunc(promRules(t), func(r promRule) bool { return r.Alert == m[1] }) {
			t.Errorf("%s has a section about %s, which is not an alert", runbookPage, m[1])
		}
	}
}

// TestAlertsPageHasEveryAlert compares the table of all alerts with the rules, in their order.
func TestAlertsPageHasEveryAlert(t *testing.T) {
	atRoot(t)
	page, err := os.ReadFile(alertsPage)
	if err != nil {
		t.Fatal(err)
	}
	const head = "| alert | severity | fires after |\n|---|---|---|\n"
	_, table, ok := strings.Cut(string(page), head)
	if !ok {
		t.Fatalf("%s has no table with the head %q", alertsPage, head)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var want []string
	for _, r := range promRules(t) {
		if r.Alert != "" {
			want = append(want, fmt.Sprintf("| [%s](runbook.md#%s) | %s | %s |", r.Alert, strings.ToLower(r.Alert), r.Labels["severity"], cmp.Or(r.For, "at once")))
		}
	}
	if diff := gocmp.Diff(want, strings.Split(table, "\n")); len(want) == 0 || diff != "" {
		t.Errorf("%s, -rules +page:\n%s", alertsPage, diff)
	}
}

// rect is the place of a panel in a dashboard that is 24 wide.
type rect struct{ X, Y, W, H int }

func (r rect) overlaps(o rect) bool {
	return r.X < o.X+o.W && o.X < r.X+r.W && r.Y < o.Y+o.H && o.Y < r.Y+r.H
}

func TestGrafanaDashboardIsAboutMetricsOfProber(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile(prometheusDir + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Title, UID    string
		SchemaVersion int
		Templating    struct {
			List []struct{ Name, Type, Definition string }
		}
		Panels []struct {
			ID          int
			Type, Title string
			Datasource  struct{ Type, UID string }
			GridPos     rect
			Targets     []struct {
				RefID, Expr string
			}
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	if dashboard.Title != "prober" || dashboard.UID == "" || dashboard.SchemaVersion == 0 || len(dashboard.Panels) < 10 {
		t.Errorf("title %q, UID %q, schema %d, %d panels", dashboard.Title, dashboard.UID, dashboard.SchemaVersion, len(dashboard.Panels))
	}
	variables := []string{"__rate_interval"}
	for _, v := range dashboard.Templating.List {
		variables = append(variables, v.Name)
		checkExpr(t, "variable "+v.Name, v.Definition)
	}
	for _, metric := range []string{"prober_slo_objective_ratio{", "prober_slo_good_seconds_total{", "prober_slo_bad_seconds_total{"} {
		if !strings.Contains(string(text), metric) {
			t.Errorf("no panel shows %s", metric)
		}
	}
	for i, p := range dashboard.Panels {
		if p.ID != i+1 || p.Title == "" || p.Datasource.UID != "$datasource" || len(p.Targets) == 0 {
			t.Errorf("panel %d: ID %d, title %q, data source %q, %d queries", i, p.ID, p.Title, p.Datasource.UID, len(p.Targets))
		}
		for _, o := range dashboard.Panels[:i] {
			if p.GridPos.overlaps(o.GridPos) || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("the panels %q and %q overlap", o.Title, p.Title)
			}
		}
		for _, q := range p.Targets {
			checkExpr(t, p.Title, q.Expr)
			for _, v := range regexp.MustCompile(`\$([a-z_]+)`).FindAllStringSubmatch(q.Expr, -1) {
				if !slices.Contains(variables, v[1]) {
					t.Errorf("%s: no variable is called %s", p.Title, v[1])
				}
			}
		}
	}
}
