package pushcmd_test

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/daeace23/prober/internal/cli"
	"github.com/daeace23/prober/internal/cli/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// token is the token of the fake agent's push URL.
const token = "0123456789abcdef-_ABCDEF"

// fakeAgent has a check called backup. It keeps the reports that it accepts.
type fakeAgent struct {
	*httptest.Server
	// answer returns a status other than 200 for some requests; n counts them from 1. Nil means 200 for all.
	answer func(n int, r *http.Request) int

	mu       sync.Mutex
	requests int
	reports  []string
}

func newFakeAgent(t *testing.T) *fakeAgent {
	t.Helper()
	a := new(fakeAgent)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/push/{name}", a.pushed)
	mux.HandleFunc("POST /api/v1/push", a.lines)
	mux.HandleFunc("POST /push/{token}", a.tokenPushed)
	mux.HandleFunc("POST /push/{token}/start", a.tokenPushed)
	mux.HandleFunc("GET /api/v1/probes", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("handler") != "push" {
			t.Errorf("asked for %s", r.URL)
		}
		_, _ = io.WriteString(w, `{"items":[{"namespace":"targets","pod":"backup","container":"push","kind":"readiness"},{"namespace":"b","pod":"beans"},{"pod":"x\u001b[31m"}]}`)
	})
	a.Server = httptest.NewServer(a.before(mux))
	t.Cleanup(a.Close)
	return a
}

// before answers requests with the status of a.answer; -1 means none.
func (a *fakeAgent) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.requests++
		n := a.requests
		a.mu.Unlock()
		status := http.StatusOK
		if a.answer != nil {
			status = a.answer(n, r)
		}
		switch status {
		case http.StatusOK:
			next.ServeHTTP(w, r)
		case -1:
			panic(http.ErrAbortHandler)
		default:
			fail(w, status, "not \x1b[31mtoday "+r.URL.Path) // as a proxy may repeat it
		}
	})
}

func fail(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"kind": "Status", "message": text})
}

func (a *fakeAgent) pushed(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("name") != "backup" {
		fail(w, http.StatusNotFound, fmt.Sprintf("unknown push %q; known: backup", r.PathValue("name")))
		return
	}
	a.keep(w, r, `{"name":"backup"}`)
}

func (a *fakeAgent) tokenPushed(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("token") != token {
		fail(w, http.StatusNotFound, "unknown token")
		return
	}
	a.keep(w, r, "ok")
}

// keep keeps a report as "RESULT MESSAGE", or as "started".
func (a *fakeAgent) keep(w http.ResponseWriter, r *http.Request, answer string) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 10<<10))
	if err != nil {
		fail(w, http.StatusRequestEntityTooLarge, err.Error())
		return
	}
	query := r.URL.Query()
	report := strings.TrimSpace(query.Get("result") + " " + string(body))
	if strings.HasSuffix(r.URL.Path, "/start") || query.Get("started") == "true" {
		report = "started"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reports = append(a.reports, report)
	_, _ = io.WriteString(w, answer)
}

// lines keeps a batch, unless a line has an unknown name.
func (a *fakeAgent) lines(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 512<<10))
	if err != nil {
		fail(w, http.StatusRequestEntityTooLarge, err.Error())
		return
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(body), "\n"), "\n") {
		if strings.Contains(line, "nobody\t") {
			fail(w, http.StatusBadRequest, fmt.Sprintf(`line %d: unknown push "nobody"`, i+1))
			return
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reports = append(a.reports, string(body))
	_, _ = io.WriteString(w, "{}")
}

// last returns the last report, and the number of requests.
func (a *fakeAgent) last() (report string, requests int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.reports) > 0 {
		report = a.reports[len(a.reports)-1]
	}
	return report, a.requests
}

// call is one run of prober.
type call struct {
	stdin     io.Reader
	stdout    io.Writer // nil keeps it
	variables map[string]string
	signals   chan os.Signal
	watched   []os.Signal // set by the run
}

func (c *call) run(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	if c.stdout == nil {
		c.stdout = &out
	}
	if c.stdin == nil {
		c.stdin = strings.NewReader("")
	}
	code = cli.Main(command.Env{
		Args: args, Stdin: c.stdin, Stdout: c.stdout, Stderr: &errs,
		LookupEnv: func(name string) (string, bool) { v, ok := c.variables[name]; return v, ok },
		Notify: func(signals ...os.Signal) (<-chan os.Signal, func()) {
			c.watched = append(c.watched, signals...)
			return c.signals, func() {}
		},
	})
	return code, out.String(), errs.String()
}

// push runs prober push with the address of an agent.
func push(server string, args ...string) (code int, stdout, stderr string) {
	return new(call).run(append([]string{"push", "--server", server}, args...)...)
}

func TestOneReport(t *testing.T) {
	a := newFakeAgent(t)
	for _, c := range []struct {
		args   []string
		code   int
		report string
		stderr string
	}{
		{[]string{"backup"}, 0, "success", ""},
		{[]string{"backup", "--result", "warning", "--message", "slow\ndisk"}, 0, "warning slow\ndisk", ""},
		{[]string{"backup", "--result=unknown"}, 0, "unknown", ""},
		{[]string{"--result", "failure", "backup"}, 0, "failure", ""},
		{[]string{"backup", "--started"}, 0, "started", ""},
		{[]string{"backup", "--message", strings.Repeat("é", 10<<10)}, 0, "success " + strings.Repeat("é", 5118) + "…", ""},
		{[]string{"other"}, 1, "", `: unknown push "other"; known: backup` + "\n"},
	} {
		a.reports = nil
		code, stdout, stderr := push(a.URL, c.args...)
		if report, _ := a.last(); code != c.code || report != c.report || stdout != "" || !strings.HasSuffix(stderr, c.stderr) || c.stderr == "" && stderr != "" {
			t.Errorf("%.60q: exit code %d, report %.60q, %q, %q", c.args, code, report, stdout, stderr)
		}
	}
}

func TestWrongUsageSendsNothing(t *testing.T) {
	a := newFakeAgent(t)
	for args, want := range map[string]string{
		"":                                  "push: NAME, --url or PROBER_PUSH_URL is required",
		"a b":                               "push: want one NAME, got 2 arguments",
		"..":                                "must be a DNS label",
		"a/b":                               "must be a DNS label",
		"backup --":                         "push: a command is required after --",
		"a b -- true":                       "push: want one NAME",
		"backup --result good":              `unknown word "good"; known: success, warning, failure, unknown`,
		"backup --retry -1s":                "--timeout and --retry must not be negative",
		"backup --timeout 1s":               "--timeout: not possible for a report without a command",
		"backup --nagios":                   "--nagios: not possible for a report without a command",
		"backup --message x -- true":        "--message: not possible for -- CMD",
		"backup --started -- true":          "--started: not possible for -- CMD",
		"backup --started --result failure": "--result: not possible for --started",
		"backup --nsca":                     "--nsca: the lines of stdin have the names",
		"--nsca -- true":                    "--nsca: not possible for -- CMD",
		"--nsca --message x":                "--message: not possible for --nsca",
		"--token-file /nonexistent backup":  "--token-file: ",
	} {
		code, stdout, stderr := push(a.URL, strings.Fields(args)...)
		if code != 64 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("push %s: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
	if code, _, stderr := push(a.URL, "", "--", "true"); code != 64 { // an unset variable of the shell
		t.Errorf("exit code %d, %q for an empty name", code, stderr)
	}
	if _, requests := a.last(); requests > 0 {
		t.Errorf("%d requests", requests)
	}
}

func TestReportIsSentAgain(t *testing.T) {
	const several = -1
	for name, c := range map[string]struct {
		statuses []int // of the first requests
		args     []string
		code     int
		requests int
	}{
		"after 503, no answer and 429": {[]int{503, -1, 429}, nil, 0, 4},
		"not after 400":                {[]int{400}, nil, 1, 1},
		"not after 401":                {[]int{401}, nil, 1, 1},
		"not without --retry":          {[]int{500}, []string{"--retry", "0"}, 1, 1},
		"not a start":                  {[]int{-1}, []string{"--started"}, 3, 1},
		"not for ever":                 {[]int{500, 500, 500, 500, 500, 500, 500}, []string{"--retry", "1s"}, 1, several},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newFakeAgent(t)
			a.answer = func(n int, _ *http.Request) int {
				if n <= len(c.statuses) {
					return c.statuses[n-1]
				}
				return http.StatusOK
			}
			code, _, stderr := push(a.URL, append(c.args, "backup")...)
			report, requests := a.last()
			if code != c.code || requests != c.requests && (c.requests != several || requests < 2) || (report == "success") != (code == 0) || (stderr == "") != (code == 0) || strings.Contains(stderr, "\x1b") {
				t.Errorf("exit code %d after %d requests, report %q, %q", code, requests, report, stderr)
			}
		})
	}
}

// A page of another server is no answer of an agent.
func TestAnswerWithoutJSON(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>Welcome") }))
	defer server.Close()
	if code, _, stderr := push(server.URL, "backup"); code != 1 || !strings.Contains(stderr, "its response cannot be decoded") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

func TestCompletionOffersNames(t *testing.T) {
	a := newFakeAgent(t)
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{""}, "backup beans :4"},
		{[]string{"ba"}, "backup :4"},
		{[]string{"backup", ""}, ":0"},
		{[]string{"backup", "--", ""}, ":0"},
		{[]string{"--result", ""}, "success warning failure unknown :4"},
	} {
		_, stdout, _ := new(call).run(append([]string{"__complete", "push", "--server", a.URL}, c.words...)...)
		if got := strings.Join(strings.Fields(stdout), " "); got != c.want {
			t.Errorf("%q: got %s, want %s", c.words, got, c.want)
		}
	}
}

func TestURL(t *testing.T) {
	a := newFakeAgent(t)
	at := a.URL + "/push/" + token
	variable := &call{variables: map[string]string{"PROBER_PUSH_URL": at, "PROBER_URL": "x", "PROBER_RESULT": "x", "PROBER_TIMEOUT": "x"}}
	if code, _, stderr := variable.run("push", "--result", "failure", "--message", "no & space"); code != 0 || stderr != "" {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if report, _ := a.last(); report != "failure no & space" {
		t.Errorf("report %q", report)
	}
	if code, _, stderr := variable.run("push", "--started"); code != 0 || stderr != "" {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if report, _ := a.last(); report != "started" {
		t.Errorf("report %q", report)
	}
	// A name on the command line comes before the variable.
	if code, _, stderr := variable.run("push", "--server", a.URL, "other"); code != 1 || !strings.Contains(stderr, "unknown push") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// echo is a server that is not HTTP, and repeats the request. It returns the server's address.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			buffer := make([]byte, 4096)
			n, _ := conn.Read(buffer)
			_, _ = conn.Write(buffer[:n])
			_ = conn.Close()
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return l.Addr().String()
}

func TestTokenIsNotShown(t *testing.T) {
	a := newFakeAgent(t)
	a.answer = func(_ int, r *http.Request) int {
		if r.URL.Path == "/broken/push/"+token {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	}
	followed := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the redirect to %s was followed", r.URL) }))
	defer followed.Close()
	redirects := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusTemporaryRedirect
		if strings.HasPrefix(r.URL.Path, "/moved") {
			status = http.StatusMovedPermanently
		}
		http.Redirect(w, r, followed.URL+r.URL.Path, status)
	}))
	defer redirects.Close()
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	secure.Config.ErrorLog = nil
	secure.StartTLS()
	defer secure.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	for _, c := range []struct {
		url  string
		code int
		want string
	}{
		{a.URL + "/push/" + token + "x", 1, "/push/…: 404 Not Found\nprober: hint: the agent has no check with the token of the URL\n"},
		{a.URL + "/broken/push/" + token, 1, "/push/…: 500 Internal Server Error\n"},
		{redirects.URL + "/push/" + token, 1, "/push/…: 307 Temporary Redirect is a redirect, which is not followed\n"},
		{redirects.URL + "/moved/push/" + token, 1, "/push/…: 301 Moved Permanently is a redirect, which is not followed\n"},
		{closed.URL + "/push/" + token, 3, "connection refused\n"},
		{secure.URL + "/push/" + token, 3, "/push/…: tls: failed to verify certificate"},
		{"http://" + echo(t) + "/push/" + token, 3, "malformed HTTP"},
		{"https://ann:" + token + "@127.0.0.1/push/" + token, 64, "--url: must not have a user or a password\n"},
		{"https://127.0.0.1/push/" + token + "?result=success", 64, "--url: must not have a query or a fragment\n"},
		{"https://127.0.0.1/push/" + token + "#x", 64, "--url: must not have a query or a fragment\n"},
		{"https://127.0.0.1/" + token, 64, "--url: must be https://HOST/push/TOKEN, with a token of"},
		{"https://127.0.0.1/push/" + token + "/start", 64, "--url: must be https://HOST/push/TOKEN, with a token of"},
		{"https://127.0.0.1/push/short", 64, "--url: must be https://HOST/push/TOKEN, with a token of"},
		{"127.0.0.1/push/" + token, 64, "--url: must be https://HOST/push/TOKEN\n"},
		{"ftp://127.0.0.1/push/" + token, 64, "--url: must be https://HOST/push/TOKEN\n"},
		{"https://127.0.0.1:x/push/" + token, 64, "--url: must be https://HOST/push/TOKEN\n"},
	} {
		code, stdout, stderr := new(call).run("push", "--retry", "0", "--url", c.url)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) || strings.Contains(stderr, token) {
			t.Errorf("%s: exit code %d, %q, %q", c.url, code, stdout, stderr)
		}
	}
	if code, _, stderr := new(call).run("push", "backup", "--url", a.URL+"/push/"+token); code != 64 || !strings.Contains(stderr, "NAME is not possible") || strings.Contains(stderr, token) {
		t.Errorf("exit code %d, %q with a name", code, stderr)
	}
}

func TestURLTrustsFile(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := new(call).run("push", "--url", server.URL+"/push/"+token, "--ca-file", ca); code != 0 || stderr != "" {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if code, _, stderr := new(call).run("push", "--url", server.URL+"/push/"+token, "--ca-file", ca+"x"); code != 64 || !strings.Contains(stderr, "--ca-file: ") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

func TestURLTimeout(t *testing.T) {
	hung := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hung }))
	defer server.Close()
	defer close(hung)
	code, _, stderr := new(call).run("push", "--url", server.URL+"/push/"+token, "--retry", "0", "--request-timeout", "50ms")
	if code != 3 || !strings.Contains(stderr, "/push/…: no answer within 50ms\n") || strings.Contains(stderr, "hint") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

func TestInterruptEndsRetry(t *testing.T) {
	a := newFakeAgent(t)
	c := &call{signals: make(chan os.Signal, 1)}
	a.answer = func(int, *http.Request) int {
		c.signals <- os.Interrupt
		return http.StatusServiceUnavailable
	}
	code, _, stderr := c.run("push", "--server", a.URL, "--retry", "10h", "backup")
	if _, requests := a.last(); code != 1 || requests != 1 || stderr == "" {
		t.Errorf("exit code %d after %d requests, %q", code, requests, stderr)
	}
}

// nscaLines returns n lines in turns with and without a host.
func nscaLines(n int) string {
	var b strings.Builder
	for i := range n {
		if i%2 == 0 {
			b.WriteString("db1\t")
		}
		fmt.Fprintf(&b, "backup\t%d\tline %d|a=1\n", i%4, i+1)
	}
	return b.String()
}

func TestNSCA(t *testing.T) {
	wide := strings.Repeat("backup\t0\t"+strings.Repeat("x", 60<<10)+"\n", 20)
	for name, c := range map[string]struct {
		stdin   string
		code    int
		batches int
		stderr  string
	}{
		"nothing":                {"\n \n", 0, 0, ""},
		"one line":               {"backup\t0\tok", 0, 1, ""},
		"batches of lines":       {nscaLines(2500), 0, 3, ""},
		"batches of bytes":       {wide, 0, 3, ""},
		"unknown name":           {"backup\t0\tok\n\nnobody\t0\tok\n", 1, 0, `: line 3: unknown push "nobody"` + "\n"},
		"unknown name later":     {nscaLines(1499) + "nobody\t1\tx\n" + nscaLines(10), 1, 1, ": line 1500: unknown push \"nobody\"\nprober: hint: lines 1 to 1000 were reported\n"},
		"no code":                {"backup\t0\tok\nbackup\tok\n", 1, 0, "error: line 2: must be [HOST<TAB>]NAME<TAB>CODE<TAB>OUTPUT\n"},
		"wrong code":             {"backup\t4\tok\n", 1, 0, "error: line 1: the code must be 0, 1, 2 or 3\n"},
		"wrong code with host":   {"db1\tbackup\t-1\tok\n", 1, 0, "error: line 1: the code must be 0, 1, 2 or 3\n"},
		"output with tabs":       {"backup\t0\tok\t\t1\n", 0, 1, ""},
		"line without an end":    {nscaLines(1001) + strings.Repeat("x", 1<<20), 1, 1, "error: line 1002: bufio.Scanner: token too long\nprober: hint: lines 1 to 1000 were reported\n"},
		"line ending of Windows": {"backup\t0\tok\r\n", 0, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := newFakeAgent(t)
			code, stdout, stderr := (&call{stdin: strings.NewReader(c.stdin)}).run("push", "--server", a.URL, "--nsca")
			if code != c.code || len(a.reports) != c.batches || stdout != "" || !strings.HasSuffix(stderr, c.stderr) || c.stderr == "" && stderr != "" {
				t.Errorf("exit code %d, %d batches, %q, %q", code, len(a.reports), stdout, stderr)
			}
			if text := strings.Join(a.reports, ""); code == 0 && c.batches > 0 && strings.TrimSpace(text) != strings.TrimSpace(strings.ReplaceAll(c.stdin, "\r", "")) {
				t.Errorf("got %.200q", text)
			}
		})
	}
}

// Errors without the number of a line name the lines of their batch.
func TestNSCAWithoutAgent(t *testing.T) {
	a := newFakeAgent(t)
	a.answer = func(int, *http.Request) int { return http.StatusForbidden }
	code, _, stderr := (&call{stdin: strings.NewReader("\n" + nscaLines(3))}).run("push", "--server", a.URL, "--nsca")
	if code != 1 || !strings.Contains(stderr, ": lines 2 to 4: not ") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	code, _, stderr = (&call{stdin: strings.NewReader(nscaLines(3))}).run("push", "--server", "unix:/nowhere/s", "--nsca", "--retry", "0")
	if code != 3 || !strings.Contains(stderr, "dial unix /nowhere/s") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}
