package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk/sdktest"
)

var suite = sdktest.NewSuite(check{})

func TestMain(m *testing.M) { suite.Main(m) }

// TestCases runs the cases natively, for coverage and for a debugger, and in the sandbox with
// the conformance checks, as prober plugin test does.
func TestCases(t *testing.T) { suite.Run(t) }

// answers maps paths to the answers of the server.
var answers = map[string]string{
	"/ok":      `{"status":"ok","ready":true,"queue":{"depth":42},"list":[{"n":1.5}],"text":"17","null":null}`,
	"/broken":  `{"status":`,
	"/text":    `all is well`,
	"/big":     `{"x":"` + strings.Repeat("x", maxBody) + `"}`,
	"/chunked": `{"status":"ok"}`,
}

func start(t *testing.T) probe.Target {
	t.Helper()
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.URL.Path]
		switch {
		case r.URL.Path == "/hang":
			<-hang
		case r.URL.Path == "/away":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case r.URL.Path == "/host":
			fmt.Fprintf(w, `{"host":%q}`, r.Host)
		case !ok:
			http.NotFound(w, r)
		case r.URL.Path == "/chunked":
			for _, c := range body {
				fmt.Fprintf(w, "%c", c)
				w.(http.Flusher).Flush()
			}
		default:
			fmt.Fprint(w, body)
		}
	}))
	t.Cleanup(func() {
		close(hang)
		server.Close()
	})
	return probe.Target{Host: "127.0.0.1", Port: server.Listener.Addr().(*net.TCPAddr).Port}
}

func TestVerdicts(t *testing.T) {
	target := start(t)
	for _, c := range []struct {
		config string
		want   probe.Result
		output string
	}{
		{`{"path":"/ok","field":"status"}`, probe.Success, "status is ok"},
		{`{"path":"/ok","field":"status","fail":{"equals":"ok"}}`, probe.Success, "status is ok"},
		{`{"path":"/ok","field":"status","fail":{"equals":"fine"}}`, probe.Failure, "status is ok, not fine"},
		{`{"path":"/ok","field":"ready","fail":{"equals":true}}`, probe.Success, "ready is true"},
		{`{"path":"/ok","field":"ready","warn":{"equals":false}}`, probe.Warning, "ready is true, not false"},
		{`{"path":"/ok","field":"queue.depth","warn":{"max":100},"fail":{"max":1000}}`, probe.Success, "queue.depth is 42"},
		{`{"path":"/ok","field":"queue.depth","warn":{"max":40},"fail":{"max":1000}}`, probe.Warning, "queue.depth is 42, above 40"},
		{`{"path":"/ok","field":"queue.depth","warn":{"max":10},"fail":{"max":40}}`, probe.Failure, "queue.depth is 42, above 40"},
		{`{"path":"/ok","field":"queue.depth","fail":{"min":42.5}}`, probe.Failure, "below 42.5"},
		{`{"path":"/ok","field":"queue.depth","fail":{"equals":42}}`, probe.Success, "42"},
		{`{"path":"/ok","field":"list.0.n","fail":{"min":1,"max":2}}`, probe.Success, "list.0.n is 1.5"},
		{`{"path":"/ok","field":"text","fail":{"max":20}}`, probe.Success, "text is 17"},
		{`{"path":"/ok","field":"status","fail":{"max":20}}`, probe.Failure, "status is ok, no number"},
		{`{"path":"/ok","field":"queue.length"}`, probe.Failure, "queue.length: the answer has no such field"},
		{`{"path":"/ok","field":"null"}`, probe.Failure, "null: the answer has no such field"},
		{`{"path":"/chunked","field":"status"}`, probe.Success, "status is ok"},
		{`{"path":"/broken","field":"status"}`, probe.Failure, "the body is not JSON"},
		{`{"path":"/text","field":"status"}`, probe.Failure, `the body is not JSON: "all is well"`},
		{`{"path":"/big","field":"x"}`, probe.Failure, "the body has more than 524288 bytes"},
		{`{"path":"/none","field":"status"}`, probe.Failure, "HTTP status 404"},
		{`{"path":"/away","field":"status"}`, probe.Failure, "HTTP status 302"},
		{`{"path":"/host","host":"api.internal","field":"host"}`, probe.Success, "host is api.internal"},
	} {
		t.Run(c.config, func(t *testing.T) {
			for kind, h := range suite.Handlers() {
				got, err := sdktest.Attempt(t, h, c.config, target, 10*time.Second)
				if err != nil || got.Result != c.want || !strings.Contains(got.Output, c.output) {
					t.Errorf("%s: got %v %q, %v, want %v %q", kind, got.Result, got.Output, err, c.want, c.output)
				}
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	target := start(t)
	for kind, h := range suite.Handlers() {
		got, err := sdktest.Attempt(t, h, `{"path":"/ok","field":"queue.depth"}`, target, 10*time.Second)
		values := make(map[string]float64)
		for _, m := range got.Metrics {
			values[m.Name] = m.Value
		}
		if err != nil || values["value"] != 42 || values["get_seconds"] <= 0 {
			t.Errorf("%s: got %v, %v", kind, values, err)
		}
	}
}

func TestServerThatHangs(t *testing.T) {
	target := start(t)
	got, err := sdktest.Attempt(t, suite.Handlers()["guest"], `{"path":"/hang","field":"status"}`, target, 2*time.Second)
	if err != nil || got.Result != probe.Failure || got.Output != "timed out after 2s" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestBadConfigs(t *testing.T) {
	for config, want := range map[string]string{
		`{}`:                                     "config: must have a field, a jsonPath or assertions",
		`{"field":"a","jsonPath":"$.a"}`:         "config.jsonPath: there is a field too",
		`{"field":"a","count":true}`:             "config.count: needs a jsonPath",
		`{"field":"a","ca":"x"}`:                 "config.ca: is of no use without tls",
		`{"field":"a","headers":{"a:":"x"}}`:     `config.headers: "a:" is not a header name`,
		`{"field":"a","failIf":"=~ ("}`:          "config.failIf: ",
		`{"field":"a","path":"stats"}`:           "config.path: the value does not match pattern",
		`{"field":"a","fail":{}}`:                "config.fail: minProperties",
		`{"field":"a","fail":{"max":"1"}}`:       "config.fail.max: got string, want number",
		`{"field":"a","warn":{"min":2,"max":1}}`: "config.warn: min 2 is above max 1",
		`{"field":"a","warning":{"min":2}}`:      "additional properties 'warning' not allowed",
	} {
		if _, err := suite.Handlers()["guest"].Prepare([]byte(config), probe.Target{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", config, err, want)
		}
	}
}
