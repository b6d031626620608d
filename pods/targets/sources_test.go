package targets_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/pods/targets"
)

func names(pods map[string]*declared.Pod) (names []string) {
	for name := range pods {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestFilesAreReadAgainWhenTheyChange(t *testing.T) {
	r := newRig(t, "targets: [{name: g, probe: {httpGet: {}}, file: ['sd/*.json', 'one.yaml']}]\n")
	r.write("sd/a.json", `[{"targets": ["a", "b"]}]`)
	r.write("one.yaml", "- targets: [c]\n")
	first := r.generate()
	if diff := cmp.Diff([]string{"g-a", "g-b", "g-c"}, names(first)); diff != "" {
		t.Fatal(diff)
	}
	r.write("sd/a.json", `[{"targets": ["b", "d"]}]`)
	r.write("sd/b.json", `[{"targets": ["e"]}]`)
	r.run(func() bool { return len(r.source.Targets().Items) == 5 })
	pods := r.generate()
	if diff := cmp.Diff([]string{"g-b", "g-c", "g-d", "g-e"}, names(pods)); diff != "" {
		t.Error(diff)
	}
	if pods["g-b"] != first["g-b"] || pods["g-c"] != first["g-c"] {
		t.Error("a target that is still listed has another pod")
	}
	if got := r.list()[4]; got != "g a: gone g-a no longer listed; it was last at file sd/a.json:1" {
		t.Errorf("got %q", got)
	}
	os.Remove(r.path("sd/b.json"))
	if diff := cmp.Diff([]string{"g-b", "g-c", "g-d"}, names(r.generate())); diff != "" {
		t.Error(diff)
	}
	r.write("sd/b.json", `[{"targets": ["a"]}]`)
	if got := names(r.generate()); !slices.Contains(got, "g-a") || len(r.list()) != 5 {
		t.Errorf("got %v, %v: a target that came back is still gone", got, r.list())
	}
}

// Each scrape and each check of readiness calls Targets. All callers share one list, which the next call of
// Generate does not change.
func TestTargetsAreNotCopied(t *testing.T) {
	r := newRig(t, "targets: [{name: g, probe: {httpGet: {}}, file: [a.json]}]\n")
	r.write("a.json", `[{"targets": ["a", "b", "c"]}]`)
	r.generate()
	r.write("a.json", `[{"targets": ["b", "c"]}]`)
	r.generate()
	before, lines := r.source.Targets().Items, r.list()
	if again := r.source.Targets().Items; len(before) != 3 || len(again) != 3 || &before[0] != &again[0] {
		t.Errorf("two callers have lists of their own: %v", lines)
	}
	kept := slices.Clone(before)
	r.write("a.json", `[{"targets": ["d", "a"]}]`)
	r.generate()
	if diff := cmp.Diff(kept, before); diff != "" {
		t.Errorf("a later list has changed an earlier one: %s", diff)
	}
	if got := names(r.generate()); len(r.list()) != 4 || !slices.Equal(got, []string{"g-a", "g-d"}) {
		t.Errorf("got %v", r.list())
	}
}

func TestBadFileKeepsLastTargets(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"sd.json", "[\n{\"targets\": [\"a\"],\n}]", "sd.json:3: invalid character '}' looking for beginning of object key string"},
		{"sd.json", "[\n{\"targets\": [\"a\"]}", "sd.json:2: the list is not complete"},
		{"sd.json", "", "sd.json:1: the list is not complete"},
		{"sd.json", "{}", "sd.json:1: must be a list of {targets, labels}"},
		{"sd.json", "[{\"targets\": [\"a\"]},\n{\"targets\": \"b\"}]", "sd.json:2: targets: must be a list of strings, not a string"},
		{"sd.json", "[\n\n{\"labels\": {\"a\": 1}}]", "sd.json:3: labels: must be a mapping of strings, not a number"},
		{"sd.json", "[]\n[]", "sd.json:2: there is more after the list"},
		{"sd.json", `[{"target": []}]`, `sd.json:1: unknown field "target"`},
		{"sd.yaml", "- targets: [a]\n- targets: b\n", "sd.yaml:2: [1].targets: must be a list, not a string"},
		{"sd.yaml", "- {target: [b]}\n", `sd.yaml:1: [0].target: unknown field; known: labels, targets (did you mean "targets"?)`},
	} {
		t.Run(c.want, func(t *testing.T) {
			r := newRig(t, fmt.Sprintf("targets: [{name: g, probe: {httpGet: {}}, file: ['*%s', good.json]}]\n", c.name[2:]))
			good := `[{"targets": ["kept"]}]`
			if strings.HasSuffix(c.name, "yaml") {
				good = "- targets: [kept]\n"
			}
			r.write(c.name, good)
			r.write("good.json", `[{"targets": ["other"]}]`)
			if strings.HasSuffix(c.name, "yaml") { // the pattern would also match prober.yaml, which is not a list
				r = newRig(t, fmt.Sprintf("targets: [{name: g, probe: {httpGet: {}}, file: ['%s', good.json]}]\n", c.name))
				r.write(c.name, good)
				r.write("good.json", `[{"targets": ["other"]}]`)
			}
			r.generate()
			r.write(c.name, c.text)
			if diff := cmp.Diff([]string{"g-kept", "g-other"}, names(r.generate())); diff != "" {
				t.Error(diff)
			}
			state := r.source.Targets().Sources[0]
			if got := strings.ReplaceAll(fmt.Sprint(state.Err), r.dir+"/", ""); got != c.want || state.Failures != 1 {
				t.Errorf("%d failures, got %q, want %q", state.Failures, got, c.want)
			}
		})
	}
}

func TestMissingFileIsAnError(t *testing.T) {
	r := newRig(t, "targets: [{name: g, probe: {httpGet: {}}, file: [none.json, 'none/*.json']}]\n")
	r.generate()
	sources := r.source.Targets().Sources
	if got := strings.ReplaceAll(fmt.Sprint(sources[0].Err), r.dir+"/", ""); got != "none.json: no such file or directory" || sources[1].Err != nil {
		t.Errorf("got %q and %v", got, sources[1].Err)
	}
}

func TestHTTPService(t *testing.T) {
	var answer atomic.Value // func(http.ResponseWriter, *http.Request)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer.Load().(func(http.ResponseWriter, *http.Request))(w, r)
	}))
	defer server.Close()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect to another host was followed") }))
	defer elsewhere.Close()
	r := newRig(t, fmt.Sprintf("targets: [{name: g, probe: {httpGet: {}}, http: [{url: '%s/sd?key=secret', bearerTokenFile: token, refresh: 20s}]}]\n", server.URL))
	r.write("token", "t0ken\n")
	answer.Store(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/moved" {
			http.Redirect(w, r, "/moved", http.StatusFound)
			return
		}
		if got := r.Header.Get("Authorization") + " " + r.Header.Get("X-Prometheus-Refresh-Interval-Seconds"); got != "Bearer t0ken 20" {
			t.Errorf("headers %q", got)
		}
		fmt.Fprint(w, `[{"targets": ["a", "b:1"], "labels": {"x": "y"}}]`)
	})
	if diff := cmp.Diff([]string{"g-a", "g-b-1"}, names(r.generate())); diff != "" {
		t.Fatal(diff)
	}
	source := "http " + server.URL + "/sd"
	if got := r.source.Targets().Items[0]; got.Source != source || got.Labels["x"] != "y" {
		t.Errorf("got %+v", got)
	}
	for _, c := range []struct {
		answer func(http.ResponseWriter, *http.Request)
		want   string
	}{
		{func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) }, `HTTP status "503 Service Unavailable"`},
		{func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "answer:1: invalid character '<' looking for beginning of value"},
		{func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) },
			`it redirects to another host, "` + elsewhere.URL + `", which is not followed`},
		{func(w http.ResponseWriter, _ *http.Request) { w.Write(bytes.Repeat([]byte("["), 33<<20)) }, "the answer has more than 32 MiB"},
		{func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		answer.Store(c.answer)
		if diff := cmp.Diff([]string{"g-a", "g-b-1"}, names(r.generate())); diff != "" {
			t.Errorf("%s: %s", c.want, diff)
		}
		if got := r.sourceNamed(source); fmt.Sprint(got.Err) != c.want {
			t.Errorf("got %q, want %q", got.Err, c.want)
		}
	}
	answer.Store(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") })
	if got := names(r.generate()); len(got) > 0 || r.sourceNamed(source).Err != nil || r.sourceNamed(source).Failures != 5 {
		t.Errorf("got %v, %+v", got, r.sourceNamed(source))
	}
}

func TestSourcesAreRefreshedAtTheirInterval(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `[{"targets": ["same", "n%d"]}]`, asked.Add(1))
	}))
	defer server.Close()
	r := newRig(t, fmt.Sprintf("targets: [{name: g, probe: {httpGet: {}}, http: [{url: '%s', refresh: 1s}]}]\n", server.URL))
	same := r.generate()["g-same"]
	r.run(func() bool { return asked.Load() > 1 && len(r.list()) == 3 })
	all, err := r.source.Generate(t.Context(), false, nil, r.check)
	if err != nil || len(all) != 2 || all[0] != same || all[1].Pod().Name != "g-n2" {
		t.Errorf("got %v, %v", r.list(), err)
	}
}

// A reload refreshes running sources, and waits for them.
func TestReloadRefreshesRunningSources(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `[{"targets": ["n%d"]}]`, asked.Add(1))
	}))
	defer server.Close()
	r := newRig(t, fmt.Sprintf("targets: [{name: g, probe: {httpGet: {}}, http: [{url: '%s', refresh: 24h}]}]\n", server.URL))
	r.generate()
	r.run(func() bool { // starts the source
		for asked.Load() < 100 {
			before := asked.Load()
			all, err := r.source.Generate(t.Context(), true, nil, r.check)
			if err != nil || asked.Load() != before+1 || len(all) != 1 || all[0].Pod().Name != fmt.Sprintf("g-n%d", before+1) {
				t.Errorf("got %v after %d requests, %v", r.list(), asked.Load(), err)
				break
			}
		}
		return true
	})
}

func TestHTTPServiceWithoutTokenIsNotAsked(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request without the token") }))
	defer server.Close()
	r := newRig(t, fmt.Sprintf("targets: [{name: g, probe: {httpGet: {}}, http: [{url: '%s', bearerTokenFile: token}]}]\n", server.URL))
	r.generate()
	if err := r.source.Targets().Sources[0].Err; err == nil || !strings.Contains(err.Error(), "token: no such file") {
		t.Errorf("got %v", err)
	}
}

func TestSlowServiceEndsAtItsTimeout(t *testing.T) {
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-stop }))
	defer server.Close()
	defer close(stop)
	r := newRig(t, fmt.Sprintf("targets: [{name: g, probe: {httpGet: {}}, http: [{url: '%s', timeout: 20ms}]}]\n", server.URL))
	r.generate()
	if err := r.source.Targets().Sources[0].Err; fmt.Sprint(err) != "no answer within 20ms" {
		t.Errorf("got %v", err)
	}
}

func TestCommand(t *testing.T) {
	t.Setenv("PROBER_TEST_SECRET", "x")
	r := newRig(t, "")
	config := func(script string) {
		r.write("prober.yaml", head+fmt.Sprintf("targets: [{name: g, probe: {httpGet: {}}, command: [{run: [/bin/sh, -c, %q], timeout: 5s}]}]\n", script))
	}
	config(`printf '[{"targets": ["%s"]}]' "$(env | cut -d= -f1 | grep -v -e ^PWD -e ^SHLVL -e ^_ -e ^OLDPWD | sort | tr '\n' .)end"; echo "$PWD" >&2`)
	if diff := cmp.Diff([]string{"g-lang-path-end"}, names(r.generate())); diff != "" {
		t.Fatalf("%s %+v", diff, r.source.Targets().Sources)
	}
	config(`echo "it is broken" >&2; exit 3`)
	r.generate()
	if err := r.source.Targets().Sources[0].Err; fmt.Sprint(err) != "exit code 3: it is broken" {
		t.Errorf("got %v", err)
	}
	r.write("prober.yaml", head+"targets: [{name: g, probe: {httpGet: {}}, command: [{run: [/bin/sh, -c, 'sleep 1000 & wait'], timeout: 50ms}, {run: [/no/such]}]}]\n")
	r.generate()
	sources := r.source.Targets().Sources
	if got := fmt.Sprint(sources[0].Err); got != "the command was killed after 50ms" || !strings.Contains(fmt.Sprint(sources[1].Err), "no such file") {
		t.Errorf("got %q and %v", got, sources[1].Err)
	}
}

func TestSRVRecords(t *testing.T) {
	server := newNameServer(t)
	r := newRig(t, fmt.Sprintf("targets: [{name: g, probe: {tcpSocket: {}}, dns: [{srv: _web._tcp.example.com, server: '%s'}]}]\n", server.address))
	server.set([]srv{{"b.example.com.", 81}, {"a.example.com.", 80}, {"b.example.com.", 81}})
	want := []string{"g-a-example-com-80", "g-b-example-com-81"}
	if diff := cmp.Diff(want, names(r.generate())); diff != "" {
		t.Fatalf("%s %+v", diff, r.source.Targets().Sources)
	}
	server.set(nil)
	if diff := cmp.Diff(want, names(r.generate())); diff != "" {
		t.Error(diff)
	}
	state := r.sourceNamed("dns _web._tcp.example.com")
	if fmt.Sprint(state.Err) != "no such host" || state.Probed != 2 || state.Failures != 1 || state.Refreshed.IsZero() {
		t.Errorf("got %+v", state)
	}
}

func TestSourcesOfRemovedGroupsEnd(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `[{"targets": ["a"]}]`)
	}))
	defer server.Close()
	r := newRig(t, fmt.Sprintf("targets: [{name: g, probe: {httpGet: {}}, http: [{url: '%s'}]}, {name: s, probe: {httpGet: {}}, static: [b]}]\n", server.URL))
	r.generate()
	r.write("prober.yaml", head+"targets: [{name: s, probe: {httpGet: {}}, static: [b]}]\n")
	if diff := cmp.Diff([]string{"s-b"}, names(r.generate())); diff != "" {
		t.Error(diff)
	}
	r.generate()
	if n := asked.Load(); n != 1 {
		t.Errorf("the service was asked %d times", n)
	}
	if got := r.list()[1]; got != "g a: gone g-a the group is no longer in prober.yaml" {
		t.Errorf("got %q", got)
	}
}

// nameServer answers queries for SRV records over UDP.
type nameServer struct {
	address string
	records atomic.Pointer[[]srv]
}

type srv struct {
	target string
	port   uint16
}

func (s *nameServer) set(records []srv) { s.records.Store(&records) }

func newNameServer(t *testing.T) *nameServer {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s := &nameServer{address: conn.LocalAddr().String()}
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			conn.WriteTo(s.answer(t, buf[:n]), from)
		}
	}()
	return s
}

// TestFailingServiceIsLoggedOnce has a service that resets each connection. The error of net/http contains the client's
// port, which differs each time.
func TestFailingServiceIsLoggedOnce(t *testing.T) {
	requests := make(chan struct{}, 100)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
		requests <- struct{}{}
	}))
	defer service.Close()
	r := newRig(t, "targets: [{name: web, probe: {tcpSocket: {}}, http: [{url: "+service.URL+", refresh: 1s}]}]\n")
	var log strings.Builder
	asked := 0
	source := targets.New(targets.Config{
		ConfigFile: r.path("prober.yaml"), Logger: slog.New(slog.NewTextHandler(&log, nil)), PollInterval: time.Millisecond,
	})
	if _, err := source.Generate(t.Context(), true, nil, r.check); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		source.Run(ctx, func(string) { asked++ })
	}()
	for range 5 {
		<-requests
	}
	cancel()
	<-ended
	if n := strings.Count(log.String(), "cannot be refreshed"); n != 1 || asked != 0 {
		t.Errorf("told %d times, and asked for %d rebuilds; want 1 and 0:\n%s", n, asked, log.String())
	}
}
