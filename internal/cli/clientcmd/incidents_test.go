package clientcmd_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

const evilIncident = `{"id":"E","state":"E","cause":"E","failing":2,"first":{"namespace":"E","pod":"E","container":"E","kind":"E","target":"E","cause":"E"},
	"parts":[{"namespace":"E","pod":"E","container":"E","kind":"E","state":"E","cause":"E"},{"state":"E","dependent":true}],"notes":[{"by":"E","text":"E"}]}`

// incidentPart returns a part as JSON that began a minute after the start for each number.
func incidentPart(namespace, pod string, start time.Time, minutes int, more string) string {
	return fmt.Sprintf(`{"namespace":%q,"pod":%q,"container":"web","kind":"readiness","handler":"tcp","target":"tcp 10.0.3.7:80","state":"failure","since":%q,"cause":"dial tcp: refused"%s}`,
		namespace, pod, start.Add(time.Duration(minutes)*time.Minute).Format(time.RFC3339), more)
}

func twoIncidents() (list, large string) {
	start := time.Now().Add(-10 * time.Minute)
	first := incidentPart("shop", "a-pod-with-a-long-name-0", start, 0, "")
	large = fmt.Sprintf(`{"id":"3fa07","state":"open","cause":"connection refused from 10.0.3.0/24","start":%q,"failing":3,"probes":4,"first":%s,"parts":[%s,%s,%s,%s]}`,
		start.Format(time.RFC3339), first, first, incidentPart("shop", "web-1", start, 1, fmt.Sprintf(`,"until":%q`, time.Now().Format(time.RFC3339))),
		incidentPart("shop", "web-2", start, 2, ""), incidentPart("db", "db-0", start, 3, `,"dependent":true`))
	large = strings.TrimSuffix(large, "}") + fmt.Sprintf(`,"notes":[{"time":%q,"by":"uid 0","text":"a new switch"}]}`, start.Format(time.RFC3339))
	ended := incidentPart("db", "db-1", start.Add(-time.Hour), 0, "")
	small := fmt.Sprintf(`{"id":"00001","state":"ended","cause":"DNS","start":%q,"end":%q,"failing":0,"probes":1,"first":%s,"parts":[%s]}`,
		start.Add(-time.Hour).Format(time.RFC3339), start.Add(-59*time.Minute).Format(time.RFC3339), ended, ended)
	return `{"items":[` + large + `,` + small + `]}`, large
}

// -n and -l reduce receivers to their incidents of these pods.
func TestNotificationsOfLabels(t *testing.T) {
	const alert = `{"namespace":"%s","pod":"%s","container":"web","kind":"readiness","state":"failure","told":"%s","labels":{"team":"%s"}%s}`
	receiver := func(name string, alerts ...string) string {
		return fmt.Sprintf(`{"name":%q,"type":"exec","state":"ok","open":7,"pending":8,"alerts":[%s]}`, name, strings.Join(alerts, ","))
	}
	a := newFakeAgent(t, map[string]string{"GET /api/v1/notifications": `{"items":[` +
		receiver("ops", fmt.Sprintf(alert, "shop", "a", "failure", "shop", ""), fmt.Sprintf(alert, "shop", "b", "success", "shop", ""),
			fmt.Sprintf(alert, "shop", "c", "success", "shop", `,"maintenance":true`), fmt.Sprintf(alert, "pay", "d", "failure", "pay", "")) + "," +
		receiver("pay", fmt.Sprintf(alert, "pay", "d", "success", "pay", "")) + "," + receiver("idle") + `]}`})
	for args, want := range map[string]string{
		"":                      "ops exec ok 7 8 - -\npay exec ok 7 8 - -\nidle exec ok 7 8 - -",
		"-l team=shop":          "ops exec ok 1 1 - -",
		"-l team=pay":           "ops exec ok 1 0 - -\npay exec ok 0 1 - -",
		"-n pay pay":            "pay exec ok 0 1 - -",
		"-n shop -l team=pay":   "",
		"-l team!=shop -o name": "notification/ops\nnotification/pay",
		"-l team=shop -o jsonpath={.items[*].alerts[*].pod}": "a b c",
	} {
		code, stdout, stderr := prober(a.URL, append([]string{"get", "notifications", "--no-headers"}, strings.Fields(args)...)...)
		if code != 0 || squeezed(stdout) != want {
			t.Errorf("%s: exit code %d, %s\n%s", args, code, stderr, stdout)
		}
	}
}

func TestIncidentInMaintenanceIsShown(t *testing.T) {
	start := time.Now().Add(-10 * time.Minute)
	in, out := incidentPart("shop", "web-1", start, 0, `,"maintenance":true`), incidentPart("db", "db-0", start, 0, "")
	of := func(id, more string, parts ...string) string {
		return fmt.Sprintf(`{"id":%q,"state":"open"%s,"cause":"DNS","start":%q,"failing":%d,"probes":2,"first":%s,"parts":[%s]}`,
			id, more, start.Format(time.RFC3339), len(parts), parts[0], strings.Join(parts, ","))
	}
	whole := of("1", `,"maintenance":true`, in, in)
	a := newFakeAgent(t, map[string]string{
		"GET /api/v1/incidents": `{"items":[` + whole + `,` + of("2", "", in, out) + `]}`, "GET /api/v1/incidents/1": whole,
		"GET /api/v1/probes": `{"items":[{"namespace":"db","pod":"db-0","container":"web","kind":"readiness","state":"failure","cause":"refused"}]}`,
		"GET /api/v1/pods":   `{"items":[]}`, "GET /api/v1/plugins": `{"items":[]}`, "GET /readyz": "[+]ping ok",
	})
	for args, want := range map[string]string{
		"get incidents --no-headers":         "1 10m open (maintenance) 2 DNS web-1\n2 10m open 2 DNS web-1",
		"get incidents -n shop --no-headers": "1 10m open (maintenance) 2 DNS web-1\n2 10m open (maintenance) 1 DNS web-1",
		"get incidents -n db --no-headers":   "2 10m open 1 DNS db-0",
	} {
		if code, stdout, stderr := prober(a.URL, strings.Fields(args)...); code != 0 || squeezed(stdout) != want {
			t.Errorf("%s: exit code %d\n%s%s", args, code, stdout, stderr)
		}
	}
	if _, stdout, _ := prober(a.URL, "describe", "incident", "1"); !strings.Contains(stdout, "State:     open (maintenance)\n") || strings.Count(stdout, "failure (maintenance)") != 2 {
		t.Errorf("describe: %s", stdout)
	}
	if _, stdout, _ := prober(a.URL, "status"); !strings.Contains(stdout, "1 incident: DNS (2 probes)") {
		t.Errorf("status: %s", stdout)
	}
}

func TestIncidentsAreShown(t *testing.T) {
	list, large := twoIncidents()
	a := newFakeAgent(t, map[string]string{
		"GET /api/v1/incidents": list, "GET /api/v1/incidents/3fa07": large,
		"GET /api/v1/pods": `{"items":[{"metadata":{"namespace":"db","name":"db-0","labels":{"app":"db"}}},{"metadata":{"namespace":"shop","name":"web-2"}}]}`,
	})
	for args, want := range map[string]string{
		"get incidents": "ID      STARTED   STATE   PROBES   CAUSE                            FIRST\n" +
			"3fa07   10m       open    3        connection refused from 10.0.…   a-pod-with-…\n" +
			"00001   70m       ended   1        DNS                              db-1\n",
		"get incidents -o wide": "ID      STARTED   STATE   PROBES   LASTED   CAUSE                                 FIRST                                         TARGET            OUTPUT\n" +
			"3fa07   10m       open    3        10m      connection refused from 10.0.3.0/24   shop/a-pod-with-a-long-name-0/web readiness   tcp 10.0.3.7:80   dial tcp: refused\n" +
			"00001   70m       ended   1        60s      DNS                                   db/db-1/web readiness                         tcp 10.0.3.7:80   dial tcp: refused\n",
		"get incidents -n db --no-headers":         "3fa07   10m   open    1     connection refused from 10.0.3.0/24   db-0\n00001   70m   ended   1     DNS                                   db-1\n",
		"get incidents -l app=db --no-headers":     "3fa07   10m   open   1     connection refused from 10.0.3.0/24   db-0\n",
		"get incidents incident/00001 -o name":     "incident/00001\n",
		"get incidents -o jsonpath={.items[*].id}": "3fa07 00001\n",
		"describe incident incident/3fa07": `Incident:  3fa07
Cause:     connection refused from 10.0.3.0/24
State:     open
Started:   TIME, 10m ago
Lasted:    10m
Probes:    4, of which 3 fail
First:     shop/a-pod-with-a-long-name-0/web readiness
Target:    tcp 10.0.3.7:80
Output:    dial tcp: refused

Notes:
  10m ago  a new switch  uid 0

Probes, in the order in which they failed:
  +0s    shop/a-pod-with-a-long-name-0/web readiness  failure                     dial tcp: refused
  +1m0s  shop/web-1/web readiness                     recovered 0s ago            dial tcp: refused
  +2m0s  shop/web-2/web readiness                     failure                     dial tcp: refused
  +3m0s  db/db-0/web readiness                        failure, depends on others  dial tcp: refused
`,
	} {
		code, stdout, stderr := prober(a.URL, strings.Fields(args)...)
		stdout = regexp.MustCompile(`\d{4}-\S+,`).ReplaceAllString(stdout, "TIME,")
		stdout = regexp.MustCompile(`recovered \d+s ago`).ReplaceAllString(stdout, "recovered 0s ago")
		if code != 0 || stdout != want {
			t.Errorf("%s: exit code %d, %s\n%s\nwant\n%s", args, code, stderr, stdout, want)
		}
		for line := range strings.Lines(stdout) {
			if args == "get incidents" && utf8.RuneCountInString(line) > 81 {
				t.Errorf("more than 80 columns: %q", line)
			}
		}
	}
}

func TestMissingIncidentFails(t *testing.T) {
	a := newFakeAgent(t, map[string]string{"GET /api/v1/incidents": `{"items":[]}`})
	for args, want := range map[string]string{"get incidents x": "incidents not found: x", "describe incident x": "404 Not Found", "get incidents": "no incidents found"} {
		code, _, stderr := prober(a.URL, strings.Fields(args)...)
		if fails := args != "get incidents"; (code == 1) != fails || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}
}

func TestStatusNamesLargestIncident(t *testing.T) {
	list, _ := twoIncidents()
	failing := strings.Replace(twoProbes, `"result":"success"`, `"result":"failure","state":"failure","cause":"refused"`, 1)
	answers := map[string]string{
		"GET /api/v1/probes": failing, "GET /api/v1/pods": `{"items":[]}`, "GET /api/v1/plugins": `{"items":[]}`, "GET /readyz": "[+]ping ok\n", "GET /api/v1/incidents": list,
	}
	const fails = "2 probes: 1 success, 1 failure; a/shop/web liveness fails: refused"
	for args, want := range map[string]string{
		"status":      fails + "; 2 incidents, the largest: connection refused from 10.0.3.0/24 (3 probes) for 10m\n",
		"status -n a": "1 probe: 0 success, 1 failure; a/shop/web liveness fails: refused\n",
	} {
		if code, stdout, stderr := prober(newFakeAgent(t, answers).URL, strings.Fields(args)...); code != 1 || stdout != want {
			t.Errorf("%s: exit code %d, %s%s\nwant %s", args, code, stdout, stderr, want)
		}
	}
	delete(answers, "GET /api/v1/incidents") // of an older agent
	if code, stdout, stderr := prober(newFakeAgent(t, answers).URL, "status"); code != 1 || stdout != fails+"\n" {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
}

// Get incidents -w writes what has changed since the request before.
func TestIncidentsAreFollowed(t *testing.T) {
	list, large := twoIncidents()
	answers := []string{list, list, `{"items":[` + strings.Replace(large, `"failing":3`, `"failing":9`, 1) + `]}`}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked >= len(answers) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, answers[asked])
		asked++
	}))
	t.Cleanup(server.Close)
	code, stdout, stderr := prober(server.URL, "get", "incidents", "-w", "-o", "jsonpath={.items[*]['id','failing']}{','}")
	if want := "3fa07 00001 3 0,\n3fa07 9,\n"; code != 1 || stdout != want || !strings.Contains(stderr, "503") {
		t.Errorf("exit code %d, %q, want %q; %s", code, stdout, want, stderr)
	}
}
