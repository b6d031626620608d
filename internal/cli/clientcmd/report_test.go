package clientcmd_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/daeace23/prober/agent/api"
)

// reportTargets has a target with one address, a target that is gone, and two targets with the same address.
const reportTargets = `{"items":[
	{"group":"web","name":"front","address":"https://shop.example/ready","state":"probed","namespace":"default","pod":"shop"},
	{"group":"web","name":"10.0.0.7:80","address":"10.0.0.7:80","state":"gone","namespace":"default","pod":"cart"},
	{"group":"a","name":"10.0.0.8:80","address":"10.0.0.8:80","state":"probed","namespace":"default","pod":"a-8"},
	{"group":"b","name":"10.0.0.8:80","address":"10.0.0.8:80","state":"probed","namespace":"default","pod":"b-8"}]}`

const reportPods = `{"items":[
	{"metadata":{"namespace":"default","name":"shop","labels":{"app":"shop"}}},{"metadata":{"namespace":"default","name":"cart","labels":{"app":"cart"}}}]}`

// reporting answers requests for a report with the items that match.
func reporting(t *testing.T, items ...api.ReportItem) (url string, queries *[]string) {
	queries = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/targets" {
			_, _ = io.WriteString(w, reportTargets)
			return
		}
		if r.URL.Path == "/api/v1/pods" {
			_, _ = io.WriteString(w, reportPods)
			return
		}
		if r.URL.Path != "/api/v1/report" {
			w.WriteHeader(404)
			_, _ = io.WriteString(w, `{"message":"the agent keeps no history: --state-dir is not set"}`)
			return
		}
		q := r.URL.Query()
		*queries = append(*queries, r.URL.RawQuery)
		report := api.Report{Items: []api.ReportItem{}}
		var text strings.Builder
		text.WriteString("namespace,pod\n")
		for _, i := range items {
			is := func(name, value string) bool { return q.Get(name) == "" || q.Get(name) == value }
			if is("namespace", i.Namespace) && is("pod", i.Pod) && is("container", i.Container) && is("kind", i.Kind) {
				report.Items = append(report.Items, i)
				text.WriteString(i.Namespace + "," + i.Pod + "\n")
			}
		}
		if q.Get("format") == "csv" {
			_, _ = io.WriteString(w, text.String())
			return
		}
		_ = json.NewEncoder(w).Encode(report)
	}))
	t.Cleanup(server.Close)
	return server.URL, queries
}

func reported(pod string, up, down float64) api.ReportItem {
	i := api.ReportItem{Namespace: "default", Pod: pod, Container: "web", Kind: "readiness", Handler: "http", Seconds: api.StateSeconds{Success: up, Failure: down}}
	if down > 0 {
		i.IncidentCount, i.LongestSeconds, i.MeanSeconds = 1, down, down
	}
	return i
}

// squeezed returns lines with one space between cells.
func squeezed(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

func TestReportOfUptime(t *testing.T) {
	for _, c := range []struct {
		up, down float64
		want     string
	}{
		{1000, 0, "100%"}, {2592000 - 10, 10, "99.999%"}, {2592000, 0.001, "99.999%"}, {99999, 1, "99.999%"}, {999, 1, "99.900%"},
		{1, 2, "33.333%"}, {0.001, 2592000, "<0.001%"}, {0, 1, "0%"}, {0, 0, "-"},
	} {
		server, _ := reporting(t, reported("a", c.up, c.down))
		code, stdout, stderr := prober(server, "report", "--no-headers")
		if cells := strings.Fields(stdout); code != 0 || len(cells) < 5 || cells[4] != c.want {
			t.Errorf("%v, %v: exit code %d, %q %q, want %s", c.up, c.down, code, stdout, stderr, c.want)
		}
	}
}

func TestReport(t *testing.T) {
	bad := reported("shop", 3600, 75)
	bad.Incidents = []api.Incident{{DurationSeconds: 75, Reason: "dns", Text: "no such host"}}
	server, queries := reporting(t, reported("cart", 7200, 0), bad)
	for _, c := range []struct {
		args         string
		code         int
		stdout, errs string
	}{
		{"report", 0, "NAMESPACE POD CONTAINER KIND UPTIME INCIDENTS DOWN LONGEST\ndefault cart web readiness 100% 0 0s 0s\ndefault shop web readiness 97.959% 1 75s 75s", ""},
		{"report -n default --kind readiness shop/web", 0, "POD CONTAINER KIND UPTIME INCIDENTS DOWN LONGEST\nshop web readiness 97.959% 1 75s 75s", ""},
		{"report default/shop cart --no-headers", 0, "default shop web readiness 97.959% 1 75s 75s\ndefault cart web readiness 100% 0 0s 0s", ""},
		{"report default/shop/web/readiness --no-headers", 0, "default shop web readiness 97.959% 1 75s 75s", ""},
		{"report probe/default/shop/web/readiness --no-headers", 0, "default shop web readiness 97.959% 1 75s 75s", ""},
		{"report shop/web readiness --no-headers", 0, "default shop web readiness 97.959% 1 75s 75s", ""},
		{"report shop/web liveness", 1, "", "prober: error: no history of: shop/web"},
		{"report https://shop.example/ready --no-headers", 0, "default shop web readiness 97.959% 1 75s 75s", ""},
		{"report front readiness --no-headers", 0, "default shop web readiness 97.959% 1 75s 75s", ""},
		{"report target/shop 10.0.0.7:80 --no-headers", 0, "default shop web readiness 97.959% 1 75s 75s\ndefault cart web readiness 100% 0 0s 0s", ""},
		{"report web --no-headers", 0, "default shop web readiness 97.959% 1 75s 75s\ndefault cart web readiness 100% 0 0s 0s", ""},
		{"report 10.0.0.7:80 -o csv", 0, "namespace,pod\ndefault,cart", ""},
		{"report 10.0.0.8:80", 64, "", "10.0.0.8:80 is ambiguous: target/a-8, target/b-8"},
		{"report 10.0.0.9:80", 1, "", "prober: error: no history of: 10.0.0.9:80"},
		{"report --incidents -o wide", 0, "NAMESPACE POD CONTAINER KIND START END DURATION REASON TEXT\ndefault shop web readiness", ""},
		{"report cart --incidents", 0, "", "no incidents found"},
		{"report -o csv", 0, "namespace,pod\ndefault,cart\ndefault,shop", ""},
		{"report -o csv --no-headers", 0, "default,cart\ndefault,shop", ""},
		{"report -o csv shop cart", 0, "namespace,pod\ndefault,shop\ndefault,cart", ""},
		{"report shop nope", 1, "NAMESPACE POD", "prober: error: no history of: nope"},
		{"report -n other", 0, "", "no probes found"},
		{"report shop/", 64, "", `"shop/": must be POD[/CONTAINER[/KIND]] or NAMESPACE/POD[/CONTAINER[/KIND]]`},
		{"report a/b/c -n d", 64, "", `"a/b/c" in namespace d: must be POD`},
		{"report --since tomorrow", 64, "", `--since "tomorrow" must be a duration such as 30d or 12h, a date such as 20`},
		{"report s*/web --no-headers", 0, "default shop web readiness 97.959% 1 75s 75s", ""},
		{"report * readiness -o csv", 0, "namespace,pod\ndefault,cart\ndefault,shop", ""},
		{"report default/* --no-headers", 0, "default cart web readiness 100% 0 0s 0s\ndefault shop web readiness 97.959% 1 75s 75s", ""},
		{"report *.example/ready", 0, "NAMESPACE POD CONTAINER KIND UPTIME INCIDENTS DOWN LONGEST\ndefault shop web", ""},
		{"report c* x*", 1, "NAMESPACE POD CONTAINER KIND UPTIME INCIDENTS DOWN LONGEST\ndefault cart web", "prober: error: no history of: x*"},
		{"report -l app=shop --no-headers", 0, "default shop web readiness 97.959% 1 75s 75s", ""},
		{"report -l app!=shop -o csv", 0, "namespace,pod\ndefault,cart", ""},
		{"report shop -l app=cart", 0, "", "no probes found"},
		{"report --until x", 64, "", `--until "x" must be a duration`},
		{"report --since 1h --until 2h", 64, "", "--since must be before --until, and before now"},
		{"report -o xml", 64, "", `unknown word "xml"; known: table, wide, json, yaml, csv`},
	} {
		code, stdout, stderr := prober(server, strings.Fields(c.args)...)
		if code != c.code || !strings.HasPrefix(squeezed(stdout), c.stdout) || stdout != "" && c.stdout == "" || !strings.Contains(stderr, c.errs) {
			t.Errorf("%s: exit code %d, %q %q", c.args, code, squeezed(stdout), stderr)
		}
	}
	*queries = nil
	for _, format := range []string{"json", "yaml"} {
		code, stdout, _ := prober(server, "report", "--since", "7d", "--until", "1d", "-o", format)
		var report api.Report
		if err := yaml.UnmarshalStrict([]byte(stdout), &report); err != nil || code != 0 || len(report.Items) != 2 {
			t.Errorf("%s: %d %v %s", format, code, err, stdout)
		}
	}
	if want := "incidents=false&since=7d&until=1d"; (*queries)[0] != want {
		t.Errorf("asked %q, want %q", *queries, want)
	}
}

// Dates are in the time zone of the host. The output has the zone.
func TestReportTimesAreLocal(t *testing.T) {
	zone := time.Local
	t.Cleanup(func() { time.Local = zone }) // after the server has ended, which reads it
	time.Local = time.FixedZone("CET", 3600)
	server, queries := reporting(t, reported("shop", 1, 0))
	for _, c := range []struct{ args, query string }{
		{"--since 2026-01-02 --until 2026-01-03T04:05:06Z", "since=2026-01-02T00%3A00%3A00%2B01%3A00&until=2026-01-03T04%3A05%3A06Z"},
		{"--since 2026-01-02T15:04", "since=2026-01-02T15%3A04%3A00%2B01%3A00"},
	} {
		*queries = nil
		_, _, stderr := prober(server, append([]string{"report"}, strings.Fields(c.args)...)...)
		if want := "incidents=false&" + c.query; len(*queries) != 1 || (*queries)[0] != want {
			t.Errorf("%s: asked %q, want %s", c.args, *queries, want)
		}
		if want := "from 0001-01-01 01:00:00 CET (UTC+01:00) to "; !strings.HasPrefix(stderr, want) {
			t.Errorf("%s: stderr %q, want %s", c.args, stderr, want)
		}
	}
}

func TestReportOfAHostileTarget(t *testing.T) {
	evil := "\x1b[31m\a\nx"
	i := api.ReportItem{Namespace: evil, Pod: evil, Container: evil, Kind: evil, Handler: evil, Incidents: []api.Incident{{Reason: evil, Text: evil}}}
	server, _ := reporting(t, i)
	for _, args := range []string{"report -o wide", "report --incidents -o wide"} {
		if code, stdout, _ := prober(server, strings.Fields(args)...); code != 0 || strings.ContainsFunc(stdout, func(c rune) bool { return c != '\n' && unicode.IsControl(c) }) || strings.Count(stdout, "\n") != 2 {
			t.Errorf("%s: %d %q", args, code, stdout)
		}
	}
}

func TestReportWithoutHistory(t *testing.T) {
	a := newFakeAgent(t, map[string]string{"GET /api/v1/report": `409!{"message":"the agent keeps no history: --state-dir is not set"}`})
	if code, _, stderr := prober(a.URL, "report"); code != 1 || !strings.Contains(stderr, "the agent keeps no history: --state-dir is not set") {
		t.Error(code, stderr)
	}
	if code, _, stderr := prober("unix:/nowhere/s", "report", "-o", "csv"); code != 3 {
		t.Error(code, stderr)
	}
}
