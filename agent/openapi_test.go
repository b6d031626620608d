package agent_test

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/docs"
)

// apiDocument has the parts of the document that the tests use.
type apiDocument struct {
	Paths map[string]map[string]struct {
		Parameters []struct {
			Name, In string
			Required bool
		}
		Responses map[string]struct {
			Content map[string]struct{ Schema any }
		}
	}
}

func readDocument(t *testing.T) (d apiDocument) {
	t.Helper()
	if err := json.Unmarshal([]byte(docs.OpenAPI), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestOpenAPIDescribesEveryRoute(t *testing.T) {
	t.Parallel()
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.Profiling = true })
	var served, described []string
	for _, pattern := range r.agent.Patterns() {
		pattern = strings.ReplaceAll(pattern, "{$}", "")
		pattern = strings.Replace(pattern, "...}", "}", 1) // a name with slashes, which OpenAPI has not
		before, ok := strings.CutSuffix(pattern, "/{action}")
		switch {
		case strings.Contains(pattern, "/debug/"):
		case ok:
			served = append(served, before+"/force", before+"/pause", before+"/resume", before+"/trigger")
		default:
			served = append(served, pattern)
		}
	}
	for path, methods := range readDocument(t).Paths {
		for method := range methods {
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	for _, s := range served {
		if !slices.Contains(described, s) {
			t.Errorf("%s is not in internal/openapidoc/operations.go; then run `make docs`", s)
		}
	}
	for _, d := range described {
		if !slices.Contains(served, d) {
			t.Errorf("%s is described, and the agent does not have it", d)
		}
	}
}

// validator checks responses against the document. It reports fields that are not described.
type validator struct {
	document apiDocument
	compiler *jsonschema.Compiler
}

const documentURL = "http://localhost/openapi.json"

func newValidator(t *testing.T) *validator {
	t.Helper()
	text, err := jsonschema.UnmarshalJSON(strings.NewReader(docs.OpenAPI))
	if err != nil {
		t.Fatal(err)
	}
	schemas := text.(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any)
	for _, s := range schemas {
		if s := s.(map[string]any); s["additionalProperties"] == nil {
			s["additionalProperties"] = false
		}
	}
	v := &validator{document: readDocument(t), compiler: jsonschema.NewCompiler()}
	v.compiler.DefaultDraft(jsonschema.Draft2020)
	v.compiler.AssertFormat()
	if err := v.compiler.AddResource(documentURL, text); err != nil {
		t.Fatal(err)
	}
	return v
}

// check returns an error unless the body matches the document's response.
func (v *validator) check(method, path string, status int, body string) error {
	response, ok := v.document.Paths[path][strings.ToLower(method)].Responses[fmt.Sprint(status)]
	if !ok {
		return fmt.Errorf("the status %d is not described", status)
	}
	if _, ok := response.Content["application/json"]; !ok {
		return nil
	}
	pointer := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(path)
	schema, err := v.compiler.Compile(documentURL + "#/paths/" + pointer + "/" + strings.ToLower(method) + "/responses/" +
		fmt.Sprint(status) + "/content/application~1json/schema")
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func TestAnswersMatchOpenAPI(t *testing.T) {
	t.Parallel()
	r := start(t, newTarget(t).external("shop"))
	awaitProbe(t, r.stream(), "ready", ready)
	v := newValidator(t)
	const one = "/api/v1/probes/{namespace}/{pod}/{container}/{kind}"
	name := func(path string) string {
		return strings.NewReplacer("{namespace}", "default", "{pod}", "shop", "{container}", "web", "{kind}", "readiness", "{name}", "demo").Replace(path)
	}
	for _, c := range []struct {
		method, path string
		asked        string // requested path; "": path
		status       int
	}{
		{method: "GET", path: "/openapi.json"}, {method: "GET", path: "/api/v1/pods"}, {method: "GET", path: "/api/v1/probes"},
		{"GET", "/api/v1/probes", "/api/v1/probes?limit=0&result=success", 200}, {"GET", "/api/v1/events", "/api/v1/events?limit=1", 200},
		{method: "GET", path: one}, {method: "GET", path: one + "/explain"}, {method: "GET", path: "/api/v1/plugins"}, {method: "GET", path: "/api/v1/"},
		{method: "POST", path: one + "/pause", asked: name(one) + "/pause?for=10m&reason=x", status: 200},
		{method: "GET", path: one}, {method: "POST", path: one + "/resume"}, {method: "POST", path: one + "/trigger"},
		{method: "POST", path: "/-/reload"},
		{"GET", "/api/v1/pods", "/api/v1/pods?limit=x", 400}, {"GET", "/api/v1/probes", "/api/v1/probes?kind=x", 400},
		{"GET", "/api/v1/events", "/api/v1/events?x=1", 400}, {"GET", one, "/api/v1/probes/default/shop/web/ready", 400},
		{"GET", one, "/api/v1/probes/default/shop/web/liveness", 404}, {"GET", one + "/explain", "/api/v1/probes/default/shop/web/liveness/explain", 404}, {"GET", one + "/history", name(one) + "/history", 404}, {"GET", one + "/durations", name(one) + "/durations", 404}, {"GET", "/api/v1/report", "/api/v1/report", 404}, {"POST", one + "/pause", name(one) + "/pause?for=x", 400},
		{"POST", one + "/trigger", "/api/v1/probes/default/shop/db/liveness/trigger", 404},
		{"POST", "/api/v1/plugins/{name}/promote", "/api/v1/plugins/demo/promote", 404},
		{method: "GET", path: "/api/v1/maintenance"}, {"POST", "/api/v1/maintenance", "/api/v1/maintenance", 400}, {"DELETE", "/api/v1/maintenance/{name}", "/api/v1/maintenance/x", 401},
	} {
		asked := name(c.asked)
		if asked == "" {
			asked = name(c.path)
		}
		status, body := r.do(c.method, asked)
		if want := max(c.status, 200); status != want && (c.status != 0 || status != 200) {
			t.Errorf("%s %s: %d, want %d", c.method, asked, status, want)
		}
		if err := v.check(c.method, c.path, status, body); err != nil {
			t.Errorf("%s %s: %v\n%s", c.method, asked, err, body)
		}
	}
	status, body := r.send(http.DefaultClient, "POST", name(one)+"/pause")
	if err := v.check("POST", one+"/pause", status, body); err != nil || status != http.StatusUnauthorized {
		t.Errorf("without credentials: %d %s: %v", status, body, err)
	}
}

func TestMediaTypesMatchOpenAPI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.StateDir = dir })
	awaitProbe(t, r.stream(), "ready", ready)
	d := readDocument(t)
	for _, c := range []struct{ path, asked, accept string }{
		{"/", "/", "text/html"}, {"/", "/", "*/*"}, {"/page/{file}", "/page/style.css", "*/*"}, {"/page/{file}", "/page/app.js", "*/*"},
		{"/page/{file}", "/page/logo.svg", "*/*"}, {"/api/v1/report", "/api/v1/report", "*/*"}, {"/api/v1/report", "/api/v1/report", "text/csv"},
		{"/api/v1/report", "/api/v1/report?format=csv&incidents=true", "*/*"}, {"/api/v1/notifications", "/api/v1/notifications", "*/*"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", r.url+c.asked, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", c.accept)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		got, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
		if _, ok := d.Paths[c.path]["get"].Responses["200"].Content[got]; err != nil || !ok || res.StatusCode != http.StatusOK {
			t.Errorf("GET %s, Accept: %s: %d, and %q is not described (%v)", c.asked, c.accept, res.StatusCode, got, err)
		}
	}
}

// A response with an undescribed field must fail, otherwise the test above proves nothing.
func TestValidatorFindsUndescribedFields(t *testing.T) {
	v := newValidator(t)
	for _, body := range []string{`{}`, `{"items":[{}]}`, `{"items":[],"extra":1}`, `{"items":[],"metadata":{"continue":1}}`} {
		if v.check("GET", "/api/v1/probes", 200, body) == nil {
			t.Errorf("%s passes", body)
		}
	}
	if err := v.check("GET", "/api/v1/probes", 200, `{"items":[]}`); err != nil {
		t.Error(err)
	}
	if v.check("GET", "/api/v1/probes", 418, `{}`) == nil {
		t.Error("a status that is not described passes")
	}
}

func TestErrorsAreStatuses(t *testing.T) {
	t.Parallel()
	r := start(t, newTarget(t).external("shop"))
	awaitProbe(t, r.stream(), "ready", ready)
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/api/v1/pod", `404 NotFound "there is no such path; GET /api/v1/ lists them"`},
		{"GET", "/-/reload", `405 MethodNotAllowed "the method \"GET\" is not allowed here; allowed: POST"`},
		{"GET", "/api/v1/pods?limit=-1", `400 BadRequest "limit \"-1\" must be an integer, at least 0"`},
		{"GET", "/api/v1/probes/default/shop/web/liveness", `404 NotFound "container \"web\" of pod default/shop has no liveness probe; it has: readiness"`},
		{"GET", "/api/v1/probes/default/shop/db/liveness", `404 NotFound "container \"db\" of pod default/shop has no liveness probe; containers with probes: web"`},
		{"GET", "/api/v1/probes/other/shop/web/liveness", `404 NotFound "there is no pod other/shop"`},
		{"GET", "/api/v1/probes/default/shop/web/readyness", `400 BadRequest "unknown kind \"readyness\"; known: liveness, readiness, startup"`},
		{"GET", "/api/v1/probes/default/shop/web/readiness?x=1", `400 BadRequest "unknown parameter \"x\"; no parameters are known"`},
		{"POST", "/api/v1/probes/default/shop/web/readiness/stop", `404 NotFound "unknown action \"stop\"; known: force, pause, resume, trigger"`},
	} {
		status, body := r.do(c.method, c.path)
		var s struct {
			Kind, APIVersion, Status, Message, Reason, Error string
			Code                                             int
		}
		if err := json.Unmarshal([]byte(body), &s); err != nil {
			t.Errorf("%s %s: %v in %s", c.method, c.path, err, body)
			continue
		}
		if got := fmt.Sprintf("%d %s %q", s.Code, s.Reason, s.Message); got != c.want || s.Code != status {
			t.Errorf("%s %s: %d %s, want %s", c.method, c.path, status, got, c.want)
		}
		if s.Kind != "Status" || s.APIVersion != "v1" || s.Status != "Failure" || s.Error != s.Message {
			t.Errorf("%s %s: %s", c.method, c.path, body)
		}
	}
	var one streamedProbe
	if r.get("/api/v1/probes/default/shop/web/readiness", &one); one.Result != "success" || one.Pod != "shop" || len(one.History) == 0 {
		t.Errorf("one probe: %+v", one)
	}
}
