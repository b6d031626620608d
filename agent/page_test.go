package agent_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/api"
)

// Browsers get the status page at /, other clients the list of paths.
func TestPageIsForBrowsers(t *testing.T) {
	t.Parallel()
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.Version = "v9" })
	for accept, want := range map[string]string{"": "GET  /api/v1/probes", "*/*": "GET  /api/v1/probes", "text/html,*/*;q=0.8": "<!doctype html>"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", accept)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("Accept %q: no %q in %.200s, %v", accept, want, text, err)
		}
	}
	if status, body := r.do("GET", "/page/app.js"); status != http.StatusOK || !strings.Contains(body, "import") {
		t.Errorf("app.js: %d", status)
	}
	if status, body := r.do("GET", "/page/nosuch"); status != http.StatusNotFound || !strings.Contains(body, "the status page has no file") {
		t.Errorf("%d %s", status, body)
	}
	awaitProbe(t, r.stream(), "ready", ready)
	var status api.AgentStatus
	r.get("/api/v1/agent", &status)
	if status.Version != "v9" || !status.Ready || status.Started.IsZero() || len(status.Checks) != 0 {
		t.Errorf("got %+v", status)
	}
}

func TestStreamViews(t *testing.T) {
	t.Parallel()
	r := start(t, newTarget(t).external("shop"))
	for query, want := range map[string]string{
		"view=tiny": `unknown view \"tiny\"; known: full, summary`, "veiw=summary": `unknown parameter \"veiw\"; known: view`,
	} {
		if status, body := r.do("GET", "/api/v1/stream?"+query); status != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	awaitProbe(t, r.stream(), "ready", ready)
	response, err := http.Get(r.url + "/api/v1/stream?view=summary")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var text strings.Builder
	for part := make([]byte, 1<<16); !strings.Contains(text.String(), `"state":"success","stateSince":"2`); {
		n, err := response.Body.Read(part)
		if err != nil {
			t.Fatalf("%v after %s", err, text.String())
		}
		text.Write(part[:n])
	}
	if strings.Contains(text.String(), `"spec":`) {
		t.Errorf("a summary has a spec: %s", text.String())
	}
}
