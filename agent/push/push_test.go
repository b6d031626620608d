package push_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/agent/access"
	"github.com/daeace23/prober/agent/push"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/probe"
)

const token = "0123456789abcdef-_A"

// open returns Pushes of a state directory with the checks of text.
func open(t testing.TB, dir, text string) *push.Pushes {
	t.Helper()
	file := filepath.Join(dir, "prober.yaml")
	cfg, err := config.Parse(file, []byte("apiVersion: prober.dev/v1\nkind: AgentConfig\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	p := push.New(push.Config{StateDir: dir, Trigger: func(manager.Key) error { return nil }, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err := p.Set(file, cfg.Push); err != nil {
		t.Fatal(err)
	}
	return p
}

const checks = `push:
- {name: backup, ttl: 25h, tokenFile: backup.token}
- {name: job, ttl: 1h, maxRun: 10m, failureThreshold: 2}
`

// folder returns a state directory with the file of a token.
func folder(t testing.TB) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "backup.token"), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// serve returns the routes of p.
func serve(p *push.Pushes) http.Handler {
	mux := http.NewServeMux()
	for _, method := range []string{"GET ", "POST "} {
		mux.HandleFunc(method+access.PushPath+"{token}", p.ServeToken)
		mux.HandleFunc(method+access.PushPath+"{token}/{what}", p.ServeToken)
	}
	mux.HandleFunc("POST /api/v1/push/{name}", p.ServeName)
	mux.HandleFunc("POST /api/v1/push", p.ServeLines)
	return mux
}

// send returns the response to a request. The method FORM is POST with a form.
func send(h http.Handler, method, target, body string) (status int, text string) {
	isForm := method == "FORM"
	if isForm {
		method = http.MethodPost
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, target, strings.NewReader(body))
	if isForm {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// key is the key of the probe of a check.
var key = manager.Key{PodUID: "u", Container: "push", Kind: probe.Readiness}

// answer returns the result, the output and the error of the probe of a check.
func answer(p *push.Pushes, name string) string {
	o, err := p.Handler(name, key).Probe(context.Background(), probe.Request{})
	if err != nil {
		return "error " + err.Error()
	}
	return strings.TrimSpace(o.Result.String() + " " + o.Output)
}

func TestRequests(t *testing.T) {
	for _, c := range []struct {
		request, body string
		status        int
		name, want    string // the answer of the probe of the check called name
	}{
		{"POST /push/" + token, "", 200, "backup", "success"},
		{"GET /push/" + token, "", 200, "backup", "success"},
		{"HEAD /push/" + token, "", 200, "backup", "success"},
		{"POST /push/" + token + "?message=done", "", 200, "backup", "success done"},
		{"POST /push/" + token, " 3 files\n", 200, "backup", "success 3 files"},
		{"POST /push/" + token, "a\xffb", 200, "backup", "success a\uFFFDb"},
		{"POST /push/" + token + "?result=warning&message=slow", "", 200, "backup", "warning slow"},
		{"POST /push/" + token + "?result=failure&message=full", "", 200, "backup", "failure full"},
		{"POST /push/" + token + "?result=unknown&message=who+knows", "", 200, "backup", "error who knows"},
		{"GET /push/" + token + "?status=up&msg=OK&ping=12", "", 200, "backup", "success OK"},
		{"GET /push/" + token + "?status=down&msg=", "", 200, "backup", "failure a failure was reported"},
		{"FORM /push/" + token, "status=down&msg=disk+full", 200, "backup", "failure disk full"},
		{"FORM /push/" + token, "result=warning", 200, "backup", "warning"},
		{"FORM /push/" + token, "12 files", 200, "backup", "success 12 files"},
		{"FORM /push/" + token, "load=3", 200, "backup", "success load=3"},
		{"FORM /push/" + token, "status=down&disk", 400, "backup", "error no report yet"},
		{"FORM /push/" + token + "?result=failure", "status=up", 200, "backup", "failure status=up"},
		{"POST /push/" + token, "status=down", 200, "backup", "success status=down"}, // a text
		{"GET /push/" + token + "/fail", "", 200, "backup", "failure a failure was reported"},
		{"GET /push/" + token + "/0", "", 200, "backup", "success"},
		{"GET /push/" + token + "/3", "", 200, "backup", "failure exit status 3"},
		{"POST /push/" + token + "/3", "last line", 200, "backup", "failure last line"},
		{"GET /push/" + token + "/log", "", 200, "backup", "error no report yet"},
		{"GET /push/" + token + "/start?rid=1", "", 200, "backup", "error no report yet"},
		{"GET /push/" + token + "/256", "", 400, "backup", "error no report yet"},
		{"GET /push/" + token + "/stop", "", 400, "backup", "error no report yet"},
		{"POST /push/" + token + "?result=ok", "", 400, "backup", "error no report yet"},
		{"POST /push/" + token + "?result=success&status=up", "", 400, "backup", "error no report yet"},
		{"POST /push/" + token + "?mesage=x", "", 400, "backup", "error no report yet"},
		{"POST /push/" + token + "?status=sideways", "", 400, "backup", "error no report yet"},
		// None of these must be taken for a success.
		{"GET /push/" + token + "?result=failure;message=x", "", 400, "backup", "error no report yet"},
		{"GET /push/" + token + "?status=down%&msg=x", "", 400, "backup", "error no report yet"},
		{"GET /push/" + token + "?status=down&msg=100%", "", 400, "backup", "error no report yet"},
		{"GET /push/" + token + "?result=success&result=failure", "", 400, "backup", "error no report yet"},
		{"POST /api/v1/push/job?result=failure&started=true", "", 400, "job", "error no report yet"},
		{"POST /api/v1/push/job?result=warning&started=false", "", 200, "job", "warning"},
		{"POST /push/" + token + "x", "", 404, "backup", "error no report yet"},
		{"POST /push/" + strings.ToUpper(token), "", 404, "backup", "error no report yet"},
		{"POST /api/v1/push/job?result=success", "", 200, "job", "success"},
		{"POST /api/v1/push/job?result=failure", "", 200, "job", "error too few equal reports in a row to decide: 1"}, // two are needed
		{"POST /api/v1/push/job?started=maybe", "", 400, "job", "error no report yet"},
		{"POST /api/v1/push/nosuch", "", 404, "nosuch", "error there is no such push in prober.yaml"},
		{"POST /api/v1/push", "job\t0\tfine\n", 200, "job", "success fine"},
		{"POST /api/v1/push", "host\tjob\t1\tslow|t=3s\r\n\n", 200, "job", "warning slow|t=3s"},
		{"POST /api/v1/push", "host\tjob\t0\ta\tb\n", 200, "job", "success a\tb"},
		{"POST /api/v1/push", "job\t2\tx\njob\t2\ty\n", 200, "job", "failure y"},
		{"POST /api/v1/push", "job\t0\tfine\nnosuch\t0\tx\n", 400, "job", "error no report yet"},
		{"POST /api/v1/push", "job\t4\tx\n", 400, "job", "error no report yet"},
		{"POST /api/v1/push", "job 0 x\n", 400, "job", "error no report yet"},
		{"POST /api/v1/push", "job\t0\t" + strings.Repeat("x", 1<<20), 413, "job", "error no report yet"},
	} {
		p := open(t, folder(t), checks)
		method, target, _ := strings.Cut(c.request, " ")
		status, text := send(serve(p), method, target, c.body)
		if got := answer(p, c.name); status != c.status || got != c.want {
			t.Errorf("%s %.40q: %d and %q, want %d and %q\n%s", c.request, c.body, status, got, c.status, c.want, text)
		}
		p.Close()
	}
}

// A report that was confirmed survives the end of the process at any time.
// A failure that needs several successes to end keeps its cause.
func TestFailureKeepsCauseUntilItEnds(t *testing.T) {
	p := open(t, t.TempDir(), "push:\n- {name: job, ttl: 1h, successThreshold: 3}\n")
	defer p.Close()
	for i, c := range []struct{ report, want string }{
		{"result=success", "error too few equal reports in a row to decide: 1"},
		{"result=failure&message=full", "failure full"},
		{"result=success", "failure full"},
		{"result=success&message=done", "failure full"},
		{"result=warning&message=slow", "warning slow"},
	} {
		if status, text := send(serve(p), "POST", "/api/v1/push/job?"+c.report, ""); status != 200 {
			t.Fatalf("%s: %d %s", c.report, status, text)
		}
		if got := answer(p, "job"); got != c.want {
			t.Errorf("%d: after %s: %s, want %s", i, c.report, got, c.want)
		}
	}
}

func TestRestart(t *testing.T) {
	dir := folder(t)
	p := open(t, dir, checks)
	for i := range 12_000 { // the journal is rewritten meanwhile
		if status, text := send(serve(p), "POST", fmt.Sprintf("/api/v1/push/job?result=failure&message=%d+%s", i, strings.Repeat("x", 900)), ""); status != 200 {
			t.Fatal(text)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "pushes.jsonl")); err != nil || info.Size() > 9<<20 {
		t.Fatalf("the journal: %v, %v", info.Size(), err)
	}
	send(serve(p), "POST", "/push/"+token+"?message=last", "")
	torn, err := os.OpenFile(filepath.Join(dir, "pushes.jsonl"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = torn.WriteString(`{"name":"backup","state":{"rep`)
	_ = torn.Close()
	again := open(t, dir, checks) // p was not closed
	defer again.Close()
	for _, name := range []string{"backup", "job"} {
		if got, want := answer(again, name), answer(p, name); got != want || got == "" {
			t.Errorf("%s: %.40q after the restart, %.40q before", name, got, want)
		}
	}
	send(serve(again), "POST", "/push/"+token+"?message=newer", "")
	third := open(t, dir, checks)
	defer third.Close()
	if got := answer(third, "backup"); got != "success newer" {
		t.Errorf("a report after a torn line: %q", got)
	}
}

// A restart does not begin the wait for the first report again.
func TestRestartKeepsFirstWait(t *testing.T) {
	dir := folder(t)
	due := func() (all []time.Time) {
		p := open(t, dir, checks)
		defer p.Close()
		for s := range p.All() {
			all = append(all, s.Next)
		}
		return all
	}
	first := due()
	for i, again := range due() {
		if !again.Equal(first[i]) || again.IsZero() {
			t.Errorf("check %d is due at %v after a restart, %v before", i, again, first[i])
		}
	}
}

func TestHostileJournal(t *testing.T) {
	for _, text := range []string{
		"", "\n\n", "{", "[]\n", "null\n", "{}\n", `{"name":"job","state":7}` + "\n", strings.Repeat("x", 1<<20),
		`{"name":"job","state":{"report":"9999-01-01T00:00:00Z","run":-5,"results":"` + strings.Repeat("f", 100_000) + `"},"message":"` + strings.Repeat("m", 100_000) + `"}` + "\n",
	} {
		dir := folder(t)
		if err := os.WriteFile(filepath.Join(dir, "pushes.jsonl"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p := open(t, dir, checks)
		if status, body := send(serve(p), "POST", "/push/"+token, ""); status != 200 {
			t.Errorf("%.40q: %s", text, body)
		}
		if got := answer(p, "backup"); got != "success" {
			t.Errorf("%.40q: %s", text, got)
		}
		p.Close()
	}
}

// A report that cannot be stored is not confirmed.
func TestFullDisk(t *testing.T) {
	dir := folder(t)
	if err := os.Mkdir(filepath.Join(dir, "pushes.jsonl"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := open(t, dir, checks)
	defer p.Close()
	if status, text := send(serve(p), "POST", "/push/"+token, ""); status != 503 || strings.Contains(text, dir) {
		t.Errorf("%d %s", status, text)
	}
	if err := os.Remove(filepath.Join(dir, "pushes.jsonl")); err != nil {
		t.Fatal(err)
	}
	if status, text := send(serve(p), "POST", "/push/"+token, ""); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}

func TestTokenFiles(t *testing.T) {
	for _, c := range []struct{ first, second, want string }{
		{"short", "", "has 5 characters, must have at least 16"},
		{"0123456789abcde/", "", "must have at most 128 letters, digits, dashes and underscores, since it is part of a URL"},
		{strings.Repeat("a", 129), "", "must have at most 128 letters"},
		{token, token, "push[1].tokenFile: has the same token as the file of a"},
		{"", "", "no such file or directory"},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"first": c.first, "second": c.second} {
			if text != "" {
				_ = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
			}
		}
		p := open(t, dir, "")
		entries := []config.Push{{Name: "a", TokenFile: "first", Path: "push[0]"}}
		if c.second != "" {
			entries = append(entries, config.Push{Name: "b", TokenFile: "second", Path: "push[1]"})
		}
		if err := p.Set(filepath.Join(dir, "prober.yaml"), entries); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20q %.20q: %v, want %q", c.first, c.second, err, c.want)
		}
		p.Close()
	}
}

// A change of another entry, or of the file's lines, changes nothing of a check.
func TestSetKeepsState(t *testing.T) {
	dir := folder(t)
	p := open(t, dir, checks)
	defer p.Close()
	send(serve(p), "POST", "/api/v1/push/job?result=warning&message=slow", "")
	for _, text := range []string{
		"push:\n- {name: other, ttl: 1h}\n- {name: job, ttl: 1h, maxRun: 10m, failureThreshold: 2}\n",
		"push:\n- {name: job, ttl: 2h}\n", // another definition
	} {
		cfg, err := config.Parse("prober.yaml", []byte("apiVersion: prober.dev/v1\nkind: AgentConfig\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Set("prober.yaml", cfg.Push); err != nil {
			t.Fatal(err)
		}
		if got := answer(p, "job"); got != "warning slow" {
			t.Errorf("%s: %s", text, got)
		}
		if got := answer(p, "backup"); got != "error there is no such push in prober.yaml" {
			t.Errorf("%s: a removed check answers %s", text, got)
		}
	}
}

func TestRunTriggers(t *testing.T) {
	triggered := make(chan manager.Key, 10)
	dir := folder(t)
	cfg, err := config.Parse(filepath.Join(dir, "prober.yaml"), []byte("apiVersion: prober.dev/v1\nkind: AgentConfig\n"+checks))
	if err != nil {
		t.Fatal(err)
	}
	p := push.New(push.Config{Trigger: func(k manager.Key) error { triggered <- k; return nil }, Log: slog.New(slog.DiscardHandler)})
	defer p.Close()
	if err := p.Set(filepath.Join(dir, "prober.yaml"), cfg.Push); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); p.Run(ctx) }()
	p.Handler("job", key)
	if err := p.Report("job", probe.Outcome{Result: probe.Warning}); err != nil {
		t.Fatal(err)
	}
	select {
	case k := <-triggered:
		if k != key {
			t.Errorf("triggered %v, want %v", k, key)
		}
	case <-time.After(10 * time.Second):
		t.Error("a change triggers no attempt")
	}
	cancel()
	<-ended
}

func FuzzRequest(f *testing.F) {
	f.Add("GET", "3", "result=success&message=x", "body")
	f.Add("POST", "start", "status=down&msg=y", "\xff\x00\x1b[31m")
	f.Add("POST", "lines", "", "job\t0\tx\nh\tjob\t3\ty")
	p := open(f, folder(f), checks)
	f.Cleanup(p.Close)
	h := serve(p)
	f.Fuzz(func(t *testing.T, method, what, query, body string) {
		if method != "POST" {
			method = "GET"
		}
		target := "/push/" + token + "/" + url.PathEscape(what)
		if what == "lines" {
			method, target = "POST", "/api/v1/push"
		}
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		r.URL.RawQuery = query
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		for s := range p.All() {
			if len(s.Message) > 1024 || len(s.Text) > 1024 {
				t.Errorf("a message of %d bytes is kept", max(len(s.Message), len(s.Text)))
			}
		}
	})
}

// BenchmarkReports measures requests with a report, which are stored, on one processor.
func BenchmarkReports(b *testing.B) {
	p := open(b, folder(b), checks)
	defer p.Close()
	server := httptest.NewServer(serve(p))
	defer server.Close()
	client := &http.Client{}
	for b.Loop() {
		res, err := client.Post(server.URL+"/push/"+token+"?message=done", "", nil)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reports/s")
}
