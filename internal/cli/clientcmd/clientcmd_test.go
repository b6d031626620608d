package clientcmd_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/daeace23/prober/internal/cli"
	"github.com/daeace23/prober/internal/cli/command"
)

// fakeAgent answers requests by "METHOD /path" with JSON. It answers unknown paths with 404 and no JSON.
type fakeAgent struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

func newFakeAgent(t *testing.T, answers map[string]string) *fakeAgent {
	t.Helper()
	a := new(fakeAgent)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Method + " " + r.URL.Path
		a.mu.Lock()
		a.asked = append(a.asked, name)
		a.mu.Unlock()
		answer, ok := answers[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if status, text, ok := strings.Cut(answer, "!"); ok && status == "409" {
			w.WriteHeader(http.StatusConflict)
			answer = text
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(a.Close)
	return a
}

// prober runs a command that asks the agent.
func prober(server string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = cli.Main(command.Env{
		Args: append(args, "--server", server), Stdout: &out, Stderr: &errs,
		LookupEnv: func(string) (string, bool) { return "", false },
		Notify:    func(...os.Signal) (<-chan os.Signal, func()) { return nil, func() {} },
	})
	return code, out.String(), errs.String()
}

const twoProbes = `{"items":[
	{"namespace":"a","pod":"shop","container":"web","kind":"liveness","handler":"http","result":"success"},
	{"namespace":"b","pod":"shop","container":"web","kind":"readiness","handler":"http","result":"success"}]}`

// An empty name, such as an unset shell variable, does not select all probes.
func TestEmptyNameIsWrongUsage(t *testing.T) {
	a := newFakeAgent(t, map[string]string{"GET /api/v1/probes": twoProbes})
	for _, word := range []string{"", "/", "/web", "shop/"} {
		for _, name := range []string{"pause", "resume", "trigger", "describe"} {
			if code, _, stderr := prober(a.URL, name, word); code != 64 || !strings.Contains(stderr, ": must be POD[/CONTAINER[/KIND]] or ") {
				t.Errorf("%s %q: exit code %d, %s", name, word, code, stderr)
			}
		}
	}
	if len(a.asked) > 0 {
		t.Errorf("the agent was asked %q", a.asked)
	}
}

func TestActionGoesOnAfterAFailure(t *testing.T) {
	a := newFakeAgent(t, map[string]string{
		"GET /api/v1/probes":                             twoProbes,
		"POST /api/v1/probes/a/shop/web/liveness/pause":  `409!{"error":"it is gone"}`,
		"POST /api/v1/probes/b/shop/web/readiness/pause": `{}`,
	})
	code, stdout, stderr := prober(a.URL, "pause", "shop")
	if code != 1 || stdout != "b/shop/web readiness paused\n" || !strings.HasSuffix(stderr, ": it is gone\n") {
		t.Errorf("exit code %d, %s, %s", code, stdout, stderr)
	}
}

// Responses of an agent or another server cannot send control characters to the terminal.
func TestResponsesAreShownHarmlessly(t *testing.T) {
	const evil = `\u001b[31m\u0007\nx`
	all := map[string]string{
		"GET /api/v1/probes": strings.ReplaceAll(`{"items":[{"namespace":"E","pod":"E","container":"E","kind":"E","handler":"E","result":"E","gate":"E","spec":{"period":"E"},
			"last":{"result":"E","output":"E","error":"","metrics":[{"name":"E","unit":"E","value":1}],"details":{"a":"E"}},"history":[{"result":"E","output":"E"}]}]}`, "E", evil),
		"GET /api/v1/pods": strings.ReplaceAll(`{"items":[{"metadata":{"namespace":"E","name":"E"},"status":{"phase":"E","podIP":"E"}}]}`, "E", evil),
		"GET /api/v1/events": strings.ReplaceAll(`{"items":[{"metadata":{"name":"E"},"involvedObject":{"kind":"E","namespace":"E","name":"E","fieldPath":"{E}"},
			"type":"E","reason":"E","message":"E"}]}`, "E", evil),
		"GET /api/v1/plugins":               strings.ReplaceAll(`{"items":[{"name":"E","state":"failed","version":"E","digest":"E","error":"E"}]}`, "E", evil),
		"GET /api/v1/notifications":         strings.ReplaceAll(`{"items":[{"name":"E","type":"E","state":"E","error":"E","answer":"E"}]}`, "E", evil),
		"GET /api/v1/incidents":             strings.ReplaceAll(`{"items":[`+evilIncident+`]}`, "E", evil),
		"GET /api/v1/certificates":          strings.ReplaceAll(`{"items":[`+evilCertificate+`]}`, "E", evil),
		"GET /api/v1/slos":                  strings.ReplaceAll(`{"items":[{"name":"E","window":"E","burnRates":[{"window":"E","rate":1}]}]}`, "E", evil),
		"GET /api/v1/incidents/x":           strings.ReplaceAll(evilIncident, "E", evil),
		"POST /api/v1/incidents/x/notes":    strings.ReplaceAll(evilIncident, "E", evil),
		"POST /api/v1/notifications/x/test": `{"receiver":"` + evil + `","delivered":true,"answer":"` + evil + `"}`,
		"POST /-/reload":                    `409!{"error":"` + evil + `"}`,
		"GET /readyz":                       "[+]ping ok\n[!]targets \x1b[31m\a\nreadyz check passed\n",
	}
	a := newFakeAgent(t, all)
	for _, args := range []string{
		"get certificates", "get certificates -o wide", "get certificates -o name", "__complete get certificates ",
		"get slos -o wide", "get slos -o name",
		"get incidents", "get incidents -o wide", "get incidents -o name", "describe incident x", "note x y",
		"get probes", "get probes -o wide", "get probes -o name", "get pods -o wide", "get pods -o name", "get events", "get events -o name", "get plugins -o wide",
		"get notifications -o wide", "get notifications -o name", "notify test x",
		"status", "reload", "__complete get pods ", "__complete describe ",
	} {
		words := strings.Split(args, " ")
		var code int
		var stdout, stderr string
		if words[0] == "__complete" { // its last word is the one to complete
			code, stdout, stderr = prober(a.URL, append(append([]string{words[0]}, words[1:len(words)-1]...), "--server", a.URL, "")...)
		} else {
			code, stdout, stderr = prober(a.URL, words...)
		}
		if strings.ContainsFunc(stdout+stderr, func(c rune) bool { return c != '\n' && unicode.IsControl(c) }) {
			t.Errorf("%s: exit code %d, %q, %q", args, code, stdout, stderr)
		}
		if len(stdout+stderr) == 0 {
			t.Errorf("%s: no output", args)
		}
	}
	pod := "\x1b[31m\x07\nx"
	if code, stdout, _ := prober(a.URL, "describe", pod); code != 0 || strings.ContainsAny(stdout, "\x1b\x07") || !strings.Contains(stdout, "[31m") {
		t.Errorf("describe: exit code %d, %q", code, stdout)
	}
}

// The output of a command ends with a newline.
func TestOutputColumnIsTrimmed(t *testing.T) {
	a := newFakeAgent(t, map[string]string{"GET /api/v1/probes": `{"items":[
		{"namespace":"a","pod":"shop","container":"web","kind":"liveness","handler":"exec","last":{"result":"failure","output":"no\nway\n"}},
		{"namespace":"a","pod":"shop","container":"web","kind":"readiness","handler":"exec","last":{"result":"failure","output":"\n"}}]}`})
	_, stdout, stderr := prober(a.URL, "get", "probes", "-o", "wide", "--no-headers")
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	if len(lines) != 2 || !strings.HasSuffix(lines[0], "  no way") || !strings.HasSuffix(lines[1], "  -") {
		t.Errorf("got %q, %s", lines, stderr)
	}
}

func TestAgentThatDoesNotRespond(t *testing.T) {
	hung := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hung }))
	defer server.Close()
	defer close(hung)
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer silent.Close()
	for _, c := range []struct{ server, timeout, want string }{
		{server.URL, "50ms", "no response within 50ms"}, {silent.URL, "1m", "EOF"}, {"unix:/nowhere/s", "1m", "dial unix /nowhere/s"},
	} {
		for _, args := range []string{"status", "get probes", "get pods -w", "pause shop", "describe shop"} {
			code, _, stderr := prober(c.server, append(strings.Fields(args), "--request-timeout", c.timeout)...)
			if code != 3 || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, strings.TrimPrefix(strings.TrimPrefix(c.server, "http://"), "unix:")) {
				t.Errorf("%s of %s: exit code %d, %s", args, c.server, code, stderr)
			}
		}
	}
}

func TestListThatNeverEnds(t *testing.T) {
	a := newFakeAgent(t, map[string]string{
		"GET /api/v1/probes": `{"metadata":{"continue":"again"},"items":[{"pod":"shop"}]}`,
		"GET /api/v1/pods":   `{"metadata":{"continue":"more"},"items":[]}`,
	})
	for _, kind := range []string{"probes", "pods"} {
		if code, _, stderr := prober(a.URL, "get", kind); code != 1 || !strings.Contains(stderr, "the list of "+kind+" makes no progress") {
			t.Errorf("%s: exit code %d, %s", kind, code, stderr)
		}
	}
}

// stream is a response of the stream.
func stream(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		name, data, _ := strings.Cut(e, " ")
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", name, data)
	}
	return b.String()
}

func TestWatchKeepsToItsSelection(t *testing.T) {
	pod := func(name, app, phase string) string {
		return fmt.Sprintf(`pod {"metadata":{"name":%q,"labels":{"app":%q}},"status":{"phase":%q}}`, name, app, phase)
	}
	readiness := func(name, result string) string {
		return fmt.Sprintf(`probe {"pod":%q,"container":"web","kind":"readiness","handler":"http","result":%q}`, name, result)
	}
	a := newFakeAgent(t, map[string]string{
		"GET /api/v1/probes": `{"items":[]}`, "GET /api/v1/pods": `{"items":[]}`,
		"GET /api/v1/stream": stream(
			pod("shop", "shop", "Running"), readiness("shop", "failure"), readiness("shop", "success"), readiness("other", "failure"),
			pod("shop", "shop", "Failed"), pod("other", "shop", "Running"), readiness("other", "failure"), readiness("shop", "failure"), readiness("shop", "failure"),
		),
	})
	for _, c := range []struct{ args, want string }{
		{"get pods -l app=shop -w -o name", "pod/shop\npod/shop\npod/other\n"},
		{"get probes -l app=shop --result failure -w -o name", "probe/shop/web/readiness\nprobe/other/web/readiness\nprobe/shop/web/readiness\n"},
		{"get probes shop --result failure -w -o name", "probe/shop/web/readiness\nprobe/shop/web/readiness\n"},
	} {
		code, stdout, stderr := prober(a.URL, strings.Fields(c.args)...)
		if code != 1 || stdout != c.want || !strings.Contains(stderr, "the agent has closed the stream") {
			t.Errorf("%s: exit code %d\n%s%s", c.args, code, stdout, stderr)
		}
	}
}

// A pause, its end, and a repeated event are printed as rows. Listed objects are not printed again.
func TestWatchShowsPausesAndRecurrences(t *testing.T) {
	readiness := func(paused bool, run int) string {
		return fmt.Sprintf(`{"namespace":"a","pod":"shop","container":"web","kind":"readiness","handler":"http","result":"success","paused":%v,"run":%d}`, paused, run)
	}
	event := func(count int) string {
		return fmt.Sprintf(`{"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","namespace":"a","name":"shop"},"type":"Warning","reason":"Unhealthy","message":"no","count":%d}`, count)
	}
	a := newFakeAgent(t, map[string]string{
		"GET /api/v1/probes": `{"items":[` + readiness(false, 1) + `]}`, "GET /api/v1/events": `{"items":[` + event(1) + `]}`,
		"GET /api/v1/stream": stream(
			"probe "+readiness(false, 1), "probe "+readiness(true, 1), "probe "+readiness(true, 1), "probe "+readiness(false, 2), "probe "+readiness(false, 3),
			"event "+event(1), "event "+event(2), "event "+event(2), "event "+event(5),
		),
	})
	for _, c := range []struct {
		args string
		want string // rows with single spaces
	}{
		{"get probes -n a -w --no-headers", "shop web readiness http success - 1 -; shop web readiness http success (paused) - 1 -; shop web readiness http success - 2 -"},
		{"get events -n a -w -o jsonpath={.items[*].count}", "1; 2; 5"},
		{"get events -n a -w --no-headers", "- Warning Unhealthy pod/shop no; - Warning Unhealthy pod/shop no; - Warning Unhealthy pod/shop no"},
	} {
		_, stdout, _ := prober(a.URL, strings.Fields(c.args)...)
		var rows []string
		for row := range strings.Lines(stdout) {
			rows = append(rows, strings.Join(strings.Fields(row), " "))
		}
		if got := strings.Join(rows, "; "); got != c.want {
			t.Errorf("%s: got %s", c.args, got)
		}
	}
}

func TestExplainCutsBetweenCharacters(t *testing.T) {
	for _, c := range []struct{ output, want string }{
		{strings.Repeat("é", 50), strings.Repeat("é", 50)},
		{strings.Repeat("é", 51), strings.Repeat("é", 50) + "..."},
		{"a" + strings.Repeat("é", 51), "a" + strings.Repeat("é", 49) + "..."},
		{"a" + strings.Repeat("世", 40), "a" + strings.Repeat("世", 33) + "..."},
		{"aa" + strings.Repeat("世", 40), "aa" + strings.Repeat("世", 32) + "..."},
	} {
		a := newFakeAgent(t, map[string]string{
			"GET /readyz": "", "GET /api/v1/probes": `{"items":[{"namespace":"a","pod":"shop","container":"web","kind":"liveness"}]}`,
			"GET /api/v1/probes/a/shop/web/liveness/explain": `{"ticks":[{"result":"success","output":"` + c.output + `"}]}`,
		})
		_, stdout, stderr := prober(a.URL, "explain", "shop")
		if !strings.HasSuffix(stdout, "  "+c.want+"\n") {
			t.Errorf("want %s, got\n%s%s", c.want, stdout, stderr)
		}
	}
}

// probesOf answers requests for probes by the pod, container, namespace and kind of their query.
func probesOf(names ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			_, _ = io.WriteString(w, "{}")
			return
		}
		if r.URL.Path != "/api/v1/probes" {
			http.NotFound(w, r)
			return
		}
		items := []string{}
		for _, n := range names {
			parts := strings.Split(n, "/")
			all := true
			for i, field := range []string{"namespace", "pod", "container", "kind"} {
				want := r.URL.Query().Get(field)
				all = all && (want == "" || want == parts[i])
			}
			if all {
				items = append(items, fmt.Sprintf(`{"namespace":%q,"pod":%q,"container":%q,"kind":%q}`, parts[0], parts[1], parts[2], parts[3]))
			}
		}
		_, _ = io.WriteString(w, `{"items":[`+strings.Join(items, ",")+`]}`)
	}
}

// The existing objects determine the meaning of a name. An ambiguous name is an error, and acts on none.
func TestNamesOfProbes(t *testing.T) {
	agent := httptest.NewServer(probesOf("default/okp/a/readiness", "default/okp/a/liveness", "default/okp/b/liveness", "probe/x/y/liveness", "default/probe/x/startup",
		"one/two/three/liveness", "two/one/two/liveness", "zoo/pod/shop/liveness", "zoo/shop/readiness/liveness", "k/zoo/shop/readiness"))
	defer agent.Close()
	for _, c := range []struct{ args, want string }{
		{"okp", "default/okp/a readiness, default/okp/a liveness, default/okp/b liveness"},
		{"okp/a", "default/okp/a readiness, default/okp/a liveness"},
		{"okp/a/readiness", "default/okp/a readiness"},
		{"okp/a/readiness readiness", "default/okp/a readiness"},
		{"default/okp/a", "default/okp/a readiness, default/okp/a liveness"},
		{"default/okp/a readiness", "default/okp/a readiness"},
		{"default/okp/a readiness -n default", "default/okp/a readiness"},
		{"default/okp/a/readiness", "default/okp/a readiness"},
		{"probe/okp/a/readiness", "default/okp/a readiness"},
		{"probe/default/okp/a/readiness", "default/okp/a readiness"},
		{"pod/okp", "default/okp/a readiness, default/okp/a liveness, default/okp/b liveness"},
		{"probe/x/y", "probe/x/y liveness"},
		{"probe/x", "prober: error: probe/x is ambiguous: default/probe/x startup, probe/x/y liveness"},
		{"one/two/three", "one/two/three liveness"},
		{"one/two/liveness", "two/one/two liveness"},
		{"zoo/shop/readiness", `prober: error: zoo/shop/readiness is ambiguous: k/zoo/shop readiness, zoo/shop/readiness liveness`},
		{"zoo/shop/readiness liveness", "zoo/shop/readiness liveness"},
		{"zoo/shop/readiness -n k", "k/zoo/shop readiness"},
		{"default/okp/a -n other", `prober: error: "default/okp/a" in namespace other: must be POD`},
		{"okp/a/readiness/x", `prober: error: "okp/a/readiness/x": must be POD`},
		{"okp/c", "prober: error: no probe of okp/c"},
		{"https://nobody/x", "prober: error: no probe of https://nobody/x"},
		{"10.0.0.1:80", "prober: error: no probe of 10.0.0.1:80"},
	} {
		_, stdout, stderr := prober(agent.URL, append([]string{"pause"}, strings.Fields(c.args)...)...)
		got := strings.TrimSuffix(strings.ReplaceAll(strings.ReplaceAll(stdout, " paused", ""), "\n", ", "), ", ")
		if strings.HasPrefix(c.want, "prober: ") {
			got = strings.Replace(got+stderr, "\n", " ", 1)
		}
		if got != c.want && (!strings.HasPrefix(c.want, "prober: ") || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: got %s%s, want %s", c.args, got, stderr, c.want)
		}
	}
}

// The stream of another server, or of an agent with too many readers.
func TestStreamThatIsRefused(t *testing.T) {
	a := newFakeAgent(t, map[string]string{"GET /api/v1/pods": `{"items":[]}`})
	if code, _, stderr := prober(a.URL, "get", "pods", "-w"); code != 1 || !strings.Contains(stderr, ": 404 Not Found") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
