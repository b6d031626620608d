package agent_test

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/internal/cli/clitest"
)

// awaitIncidents reads the incidents until they satisfy ok. Steps of incidents follow changes of states.
func (r *running) awaitIncidents(what string, ok func([]api.IncidentStatus) bool) []api.IncidentStatus {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		var list api.IncidentList
		r.get("/api/v1/incidents", &list)
		if ok(list.Items) {
			return list.Items
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("no incidents that are %s: %+v", what, list.Items)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestIncidents(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	shop, cart := target.external("shop"), strings.Replace(target.external("cart"), "metadata:\n", "metadata:\n  namespace: other\n", 1)
	r := start(t, shop+"---\n"+cart)
	if status, body := r.do("GET", "/api/v1/incidents"); status != http.StatusOK || body != `{"items":[]}`+"\n" {
		t.Errorf("without a failure: %d %s", status, body)
	}
	target.status.Store(http.StatusServiceUnavailable)
	open := r.awaitIncidents("open", func(all []api.IncidentStatus) bool { return len(all) == 1 && all[0].Failing == 2 })[0]
	if !strings.HasPrefix(open.Cause, "HTTP 503") || open.State != api.IncidentOpen || open.Start.IsZero() || len(open.Parts) != 2 || open.First != open.Parts[0] {
		t.Errorf("incident: %+v", open)
	}
	v := newValidator(t)
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/api/v1/incidents?namespace=other&state=open": {200, `"pod":"cart"`},
		"/api/v1/incidents?parts=0":                    {200, `"parts":[]`},
		"/api/v1/incidents?parts=-1":                   {400, `parts \"-1\" must be an integer, at least 0`},
		"/api/v1/incidents?namespace=none":             {200, `"items":[]`},
		"/api/v1/incidents?state=ended":                {200, `"items":[]`},
		"/api/v1/incidents?state=new":                  {400, `unknown state \"new\"; known: ended, open`},
		"/api/v1/incidents?limit=1":                    {400, `unknown parameter \"limit\"; known: namespace, parts, state`},
		"/api/v1/incidents/" + open.ID:                 {200, `"id":"` + open.ID + `"`},
		"/api/v1/incidents/" + open.ID + "?state=open": {400, `no parameters are known`},
		"/api/v1/incidents/none":                       {404, `there is no incident \"none\"`},
	} {
		route, _, _ := strings.Cut(path, "?")
		if strings.Count(route, "/") == 4 {
			route = "/api/v1/incidents/{id}"
		}
		status, body := r.do("GET", path)
		if err := v.check("GET", route, status, body); err != nil || status != want.status || !strings.Contains(body, want.text) {
			t.Errorf("%s: %d, %v: %s", path, status, err, body)
		}
		if strings.Contains(path, "other") && (strings.Contains(body, `"pod":"shop"`) || !strings.Contains(body, `"failing":1,"probes":1,`)) {
			t.Errorf("%s has parts of other namespaces: %s", path, body)
		}
	}
	if status, body := r.overLocal("POST", "/api/v1/maintenance", `{"for":"1h","name":"cart","match":[{"pod":"cart"}]}`); status != http.StatusOK {
		t.Fatalf("maintenance: %d %s", status, body)
	}
	for namespace, in := range map[string]bool{"": false, "?namespace=other": true, "?namespace=default": false} {
		var list api.IncidentList
		if r.get("/api/v1/incidents"+namespace, &list); len(list.Items) != 1 || list.Items[0].Maintenance != in {
			t.Errorf("%s: %+v", namespace, list.Items)
		}
	}
	if status, body := r.overLocal("POST", "/api/v1/maintenance", `{"for":"1h"}`); status != http.StatusOK {
		t.Fatalf("maintenance: %d %s", status, body)
	}
	if list := r.awaitIncidents("in maintenance", func(all []api.IncidentStatus) bool { return len(all) == 1 && all[0].Maintenance }); list[0].Word() != "open (maintenance)" {
		t.Errorf("%+v", list[0])
	}
	if status, body := r.do("POST", "/api/v1/probes/other/cart/web/readiness/pause"); status != http.StatusOK {
		t.Fatalf("pause: %d %s", status, body)
	}
	r.awaitIncidents("smaller", func(all []api.IncidentStatus) bool {
		return len(all) == 1 && all[0].ID == open.ID && all[0].Failing == 1
	})
	target.status.Store(http.StatusOK)
	ended := r.awaitIncidents("ended", func(all []api.IncidentStatus) bool { return len(all) == 1 && all[0].State == api.IncidentEnded })[0]
	if ended.ID != open.ID || !ended.Start.Equal(open.Start) || ended.End.Before(open.Start) || ended.Probes != 2 || ended.Failing != 0 || ended.Maintenance {
		t.Errorf("ended: %+v", ended)
	}
}

// note sends the body of a note.
func (r *running) note(id, body string) (int, string) {
	r.t.Helper()
	res, err := r.local.Post("http://localhost/api/v1/incidents/"+id+"/notes", "application/json", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

// An incident and its notes outlive the agent.
func TestIncidentNotes(t *testing.T) {
	t.Parallel()
	target, dir, socket := newTarget(t), t.TempDir(), filepath.Join(shortDir(t), "s")
	target.status.Store(http.StatusServiceUnavailable)
	begin := func(t *testing.T) (*running, api.IncidentStatus) {
		r := start(t, target.external("shop"), func(c *agent.Config) { c.StateDir, c.Socket = dir, socket })
		return r, r.awaitIncidents("open", func(all []api.IncidentStatus) bool { return len(all) == 1 && all[0].State == api.IncidentOpen })[0]
	}
	var id string
	t.Run("first agent", func(t *testing.T) {
		r, n := begin(t)
		id = n.ID
		code, stdout, stderr := clitest.Run(nil, "note", id, "the", "switch is replaced", "--server", "unix:"+socket)
		if code != 0 || stdout != "incident "+id+": 1 note\n" {
			t.Fatalf("%d, %q, %q", code, stdout, stderr)
		}
		r.lines.await(t, 0, "msg=action action=note object="+id+" result=ok", `detail="the switch is replaced"`)
		v := newValidator(t)
		for body, want := range map[string]int{`{"text":"second"}`: 200, `{"text":" "}`: 400, `{}`: 400, `{"text":"a\nb"}`: 400, `{"note":"x"}`: 400, `[]`: 400} {
			status, answer := r.note(id, body)
			if err := v.check("POST", "/api/v1/incidents/{id}/notes", status, answer); err != nil || status != want {
				t.Errorf("%s: %d, %v: %s", body, status, err, answer)
			}
		}
		if status, answer := r.note("none", `{"text":"x"}`); status != http.StatusNotFound {
			t.Errorf("%d: %s", status, answer)
		}
	})
	t.Run("next agent", func(t *testing.T) {
		r, n := begin(t)
		if n.ID != id || len(n.Notes) != 2 || n.Notes[0].Text != "the switch is replaced" || n.Notes[0].Time.IsZero() || n.Notes[0].By == "" {
			t.Errorf("%+v", n)
		}
		if _, stdout, _ := clitest.Run(nil, "describe", "incident", id, "--server", r.url); !strings.Contains(stdout, "\nNotes:\n  ") || !strings.Contains(stdout, "the switch is replaced") {
			t.Error(stdout)
		}
	})
}
