package agent_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/probe"
)

func TestBodyOfFailedProbeNeedsShowOutput(t *testing.T) {
	t.Parallel()
	const output = "HTTP probe failed with statuscode: 500"
	for name, compat := range map[string]probe.Compat{"default": 0, "compat": probe.CompatKubeletV1_36} {
		for _, consent := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				web := newTarget(t)
				web.status.Store(http.StatusInternalServerError)
				r := start(t, web.external("shop"), func(c *agent.Config) { c.ShowOutput, c.Compat = consent, compat })
				r.lines.await(t, 0, "msg=event", `message="Readiness probe failed: `+output+`"`)
				var probes struct {
					Items []struct{ Last struct{ Output, Details any } }
				}
				r.get("/api/v1/probes", &probes)
				if len(probes.Items) != 1 || probes.Items[0].Last.Output != output {
					t.Fatalf("probes %+v", probes)
				}
				if fields, _ := probes.Items[0].Last.Details.(map[string]any); (fields["body"] == "hello") != consent {
					t.Errorf("with consent %v the details are %v", consent, fields)
				}
				if consent {
					r.lines.await(t, 0, `level=WARN msg="probe failed"`, "pod=shop container=web kind=readiness handler=http body=hello")
				}
				for range 3 { // for any further lines
					<-web.hits
				}
				_, events := r.do("GET", "/api/v1/events")
				if !strings.Contains(events, `"message":"Readiness probe failed: `+output+`"`) || strings.Contains(events, "hello") {
					t.Errorf("events %s", events)
				}
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				if n := r.lines.count(0, len(r.lines.text), `msg="probe failed"`); n > 1 || !consent && n > 0 {
					t.Errorf("%d lines tell of the failure", n)
				}
			})
		}
	}
}

func TestHangingProbeIsLoggedOnce(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	web := &target{Server: httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		case <-r.Context().Done():
		}
		<-r.Context().Done()
	}))}
	t.Cleanup(web.Close)
	r := start(t, strings.ReplaceAll(web.external("shop"), "timeout: 5s", "timeout: 50ms"))
	for range 4 {
		<-asked
	}
	line, from := r.lines.await(t, 0, `level=WARN msg="probe failed"`, "handler=http", `waiting="http tcp 127.0.0.1:`)
	if !strings.Contains(line, "no response headers; connected after") {
		t.Error(line)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if n := r.lines.count(from, len(r.lines.text), `msg="probe failed"`); n > 0 {
		t.Errorf("%d more lines tell of the same hang", n)
	}
}
