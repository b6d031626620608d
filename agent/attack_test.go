package agent_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent"
)

const (
	pausePath = "/api/v1/probes/default/shop/web/readiness/pause"
	evil      = "evil.com:9876"
)

// raw sends a request line and headers unchanged, and returns the status.
func (r *running) raw(head string) int {
	r.t.Helper()
	_, port, err := net.SplitHostPort(r.url[len("http://"):])
	if err != nil {
		r.t.Fatal(err)
	}
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, head+"Content-Length: 0\r\nConnection: close\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil) // a stream has no end
	if err != nil {
		r.t.Fatal(err)
	}
	if got := res.Header.Get("Access-Control-Allow-Origin"); got != "" {
		r.t.Errorf("Access-Control-Allow-Origin: %s", got)
	}
	if got := res.Header.Get("X-Content-Type-Options"); got != "nosniff" && res.StatusCode != http.StatusBadRequest {
		r.t.Errorf("X-Content-Type-Options: %q", got)
	}
	return res.StatusCode
}

// The requests are sent by a browser after DNS rebinding, by a page of another site, and by another user.
func TestRequestsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		t.Run(listen, func(t *testing.T) {
			r := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.Listen, c.InsecureListen = listen, true })
			awaitProbe(t, r.stream(), "ready", ready)
			const own = "Host: 127.0.0.1:9876\r\n"
			for head, want := range map[string]int{
				"GET /api/v1/pods HTTP/1.1\r\nHost: " + evil + "\r\n":                                                    http.StatusForbidden,
				"GET /api/v1/stream HTTP/1.1\r\nHost: " + evil + "\r\n":                                                  http.StatusForbidden,
				"GET http://127.0.0.1/api/v1/pods HTTP/1.1\r\nHost: " + evil + "\r\n":                                    http.StatusOK, // the request target wins
				"GET http://" + evil + "/api/v1/pods HTTP/1.1\r\n" + own:                                                 http.StatusForbidden,
				"GET /api/v1/pods HTTP/1.0\r\n":                                                                          http.StatusForbidden,
				"POST " + pausePath + " HTTP/1.1\r\nHost: " + evil + "\r\nOrigin: http://" + evil + "\r\n":               http.StatusForbidden,
				"POST /-/reload HTTP/1.1\r\nHost: " + evil + "\r\nOrigin: http://" + evil + "\r\n":                       http.StatusForbidden,
				"POST " + pausePath + " HTTP/1.1\r\n" + own:                                                              http.StatusUnauthorized,
				"POST /-/reload HTTP/1.1\r\n" + own:                                                                      http.StatusUnauthorized,
				"POST /api/v1/plugins/demo/promote HTTP/1.1\r\n" + own:                                                   http.StatusUnauthorized,
				"POST /-/reload HTTP/1.1\r\n" + own + "Origin: http://" + evil + "\r\n":                                  http.StatusForbidden,
				"POST //-/reload HTTP/1.1\r\n" + own:                                                                     http.StatusUnauthorized,
				"POST /api/v1/../../-/reload HTTP/1.1\r\n" + own:                                                         http.StatusUnauthorized,
				"PUT " + pausePath + " HTTP/1.1\r\n" + own:                                                               http.StatusUnauthorized,
				"GET /-/reload HTTP/1.1\r\n" + own + "X-HTTP-Method-Override: POST\r\n":                                  http.StatusMethodNotAllowed,
				"GET /api/v1/probes HTTP/1.1\r\n" + own + "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n":    http.StatusForbidden,
				"GET /api/v1/stream HTTP/1.1\r\n" + own + "Origin: http://" + evil + "\r\n":                              http.StatusForbidden,
				"GET /api/v1/probes HTTP/1.1\r\n" + own + "Sec-Fetch-Site: same-origin\r\n":                              http.StatusOK,
				"POST " + pausePath + "?token=x HTTP/1.1\r\n" + own + "Authorization: Bearer 00000000000000000000000000": http.StatusUnauthorized,
			} {
				if strings.HasSuffix(head, "0") {
					head += "\r\n"
				}
				if got := r.raw(head); got != want {
					t.Errorf("%q: %d, want %d", head, got, want)
				}
			}
			var probes struct{ Items []streamedProbe }
			r.get("/api/v1/probes", &probes)
			if len(probes.Items) != 1 || probes.Items[0].Paused {
				t.Errorf("after the attacks: %+v", probes.Items)
			}
		})
	}
}

func TestActionsOverTCPNeedToken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	const token = "correct-horse-battery"
	write(t, file, token+"\n")
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.TokenFile = file })
	awaitProbe(t, r.stream(), "ready", ready)
	post := func(headers ...string) int {
		status, _ := r.send(http.DefaultClient, "POST", pausePath, headers...)
		return status
	}
	for _, headers := range [][]string{{"Authorization", "Bearer " + token}, {"X-Prober-Token", token}} {
		if got := post(headers...); got != http.StatusOK {
			t.Errorf("%q: %d", headers, got)
		}
	}
	if got := post("Authorization", "Bearer "+token[1:]); got != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", got)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := post("Authorization", "Bearer "+token); got != http.StatusUnauthorized {
		t.Errorf("a token that everybody can read: %d", got)
	}
	if r.lines.has(token) || r.lines.has(token[1:]) {
		t.Error("a token is in the log")
	}
}

// TestActionsAreLoggedAndCounted checks the log, the events and the metrics for each action.
func TestActionsAreLoggedAndCounted(t *testing.T) {
	t.Parallel()
	r := start(t, newTarget(t).external("shop"))
	awaitProbe(t, r.stream(), "ready", ready)
	who := fmt.Sprintf("uid %d", os.Geteuid())
	r.do("POST", pausePath)
	r.do("POST", pausePath)
	r.do("POST", "/api/v1/probes/default/shop/web/liveness/resume")
	r.do("POST", "/api/v1/plugins/demo/promote")
	r.do("POST", "/-/reload")
	const denied = 50
	for range denied {
		r.send(http.DefaultClient, "POST", "/-/reload")
	}
	_, metrics := r.do("GET", "/metrics")
	for _, want := range []string{
		`{action="pause",result="ok"} 2`, `{action="resume",result="not_found"} 1`, `{action="promote",result="not_found"} 1`,
		`{action="reload",result="ok"} 1`, `{action="reload",result="denied"} 50`, `{action="trigger",result="denied"} 0`,
	} {
		if !strings.Contains(metrics, "\nprober_actions_total"+want+"\n") {
			t.Errorf("no prober_actions_total%s", want)
		}
	}
	r.lines.await(t, 0, "msg=action action=pause object=default/shop/web/readiness result=ok via=socket from=\""+who+"\" pid=")
	r.lines.await(t, 0, "level=WARN", "action=promote object=demo result=not_found")
	r.lines.await(t, 0, "action=reload", "result=denied reason=credentials from=127.0.0.1 count=1")
	r.lines.mu.Lock()
	lines := len(r.lines.text)
	r.lines.mu.Unlock()
	if n := r.lines.count(0, lines, "result=denied"); n > denied/10 {
		t.Errorf("%d lines for %d refusals", n, denied)
	}
	var events v1.EventList
	r.get("/api/v1/events", &events)
	for reason, want := range map[string]string{
		"ProbePaused":  "Normal Pod shop spec.containers{web} 2 pause default/shop/web/readiness by " + who + ", with the socket: ok",
		"ActionFailed": "Warning Node", "Reloaded": "Normal Node", "ActionDenied": "Warning Node",
	} {
		found := false
		for _, e := range events.Items {
			text := fmt.Sprint(e.Type, " ", e.InvolvedObject.Kind, " ", e.InvolvedObject.Name, " ", e.InvolvedObject.FieldPath, " ", e.Count, " ", e.Message)
			found = found || e.Reason == reason && strings.HasPrefix(text, want)
		}
		if !found {
			t.Errorf("no event %s like %q in %+v", reason, want, events.Items)
		}
	}
}
