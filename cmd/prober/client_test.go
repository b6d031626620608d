package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"unicode"
)

// clientPod has a probe whose server a test controls, and one that no test changes.
const clientPod = `
apiVersion: v1
kind: Pod
metadata: {name: shop, labels: {app: shop}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    command: [sleep, "600"]
    readinessProbe:
      httpGet: {host: 127.0.0.1, port: %s, path: /}
      periodSeconds: 1
      timeoutSeconds: 10 # of a machine that is busy
      failureThreshold: 1
  - name: idle
    command: [sleep, "600"]
    livenessProbe: {exec: {command: ["true"]}, periodSeconds: 1}
`

// clientRig is an agent and the server of its probe.
type clientRig struct {
	agent  *agentProcess
	broken atomic.Bool
}

// hostileText is the response of the server while it is broken.
const hostileText = "<b>\x1b[31mred\x07\r\n\xff"

func runClientRig(t *testing.T) *clientRig {
	t.Helper()
	r := new(clientRig)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if r.broken.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
		fmt.Fprint(w, hostileText)
	}))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	r.agent = runAgent(t, fmt.Sprintf(clientPod, at.Port()), t.TempDir())
	r.await(t, "success")
	return r
}

// await waits until the probe of the server has a decided result, and the other one success.
func (r *clientRig) await(t *testing.T, result string) {
	t.Helper()
	r.agent.await(t, result, func(s *state) string {
		if got := s.probes["web/readiness"].Result; got != result || s.probes["idle/liveness"].Last == nil {
			return "the result is " + got
		}
		return ""
	})
}

// run runs prober with arguments, and returns its exit code, stdout and stderr.
func (r *clientRig) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "prober", args...)
	cmd.Env = append(os.Environ(), "PROBER_SERVER=unix:"+r.agent.socket)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// times matches the changing words of a table.
var times = regexp.MustCompile(`\b[0-9.]+(ns|µs|ms|s|m)\b|\b[0-9]+\b`)

// shape returns the lines of a table with single spaces, and # for each number.
func shape(table string) string {
	var lines []string
	for l := range strings.Lines(table) {
		lines = append(lines, strings.Join(strings.Fields(times.ReplaceAllString(l, "#")), " "))
	}
	return strings.Join(lines, "\n")
}

func TestClientShowsWhatTheAgentHas(t *testing.T) {
	t.Parallel()
	r := runClientRig(t)
	for _, c := range []struct {
		args string
		code int
		want string // the shape of stdout
		err  string // in stderr
	}{
		{"get probes", 0, "NAMESPACE POD CONTAINER KIND HANDLER STATE LAST RUN AGE\n" +
			"default shop idle liveness exec success success # #\ndefault shop web readiness http success success # #", ""},
		{"get probe shop/web readiness -n default --no-headers", 0, "shop web readiness http success success # #", ""},
		{"get probes -l app=shop,!x --handler http -o name", 0, "probe/shop/web/readiness", ""},
		{"get probes -l app!=shop", 0, "", "no probes found"},
		{"get probes --state failure", 0, "", "no probes found"},
		{"get probes --result failure", 0, "", "no probes found"},
		{"get probes shop/db", 1, "", "prober: error: no probe of shop/db\nprober: hint: did you mean shop"},
		{"get probes shop/web web -o name", 1, "probe/shop/web/readiness", "prober: error: no probe of web\nprober: hint: prober get probes lists them"},
		{"get probes -l a=b=c", 64, "", "--selector"},
		{"get probes --result good", 64, "", `unknown word "good"; known: success, warning, failure, unknown, paused`},
		{"get pods", 0, "NAMESPACE NAME READY STATUS RESTARTS AGE\ndefault shop #/# Running # #", ""},
		{"get po shop nothere -o name", 1, "pod/shop", "prober: error: pods not found: nothere"},
		{"get pods -o jsonpath={.items[*].metadata.labels.app}", 0, "shop", ""},
		{"get probes -o jsonpath={.items[?(@.run>0)].kind}", 0, "liveness readiness", ""},
		{"get pods -o jsonpath={.items", 64, "", "-o jsonpath: "},
		{"get pods -o xml", 64, "", `unknown format "xml"; known: table, wide, json, yaml, name, jsonpath=TEMPLATE`},
		{"get plugins", 0, "", "no plugins found"},
		{"get nothing", 64, "", "known: certificates, endpoints, events, incidents, notifications, plugins, pods, probes"},
		{"status", 0, "# probes: # success", ""},
		{"status -n elsewhere", 0, "# probes: # success", ""},
		{"describe shop/db", 1, "", "no probe of shop/db"},
		{"reload", 0, "reloaded", ""},
		{"trigger shop/web", 0, "default/shop/web readiness triggered", ""},
		{"trigger", 64, "", "prober trigger: a name of probes, -l or --all is required"},
		{"trigger sh*/web -l app=shop", 0, "default/shop/web readiness triggered", ""},
		{"status shop/web", 0, "# probe: # success", ""},
		{"status shop nosuch", 1, "", "no probe of nosuch"},
		{"status --server 127.0.0.1:1", 3, "", "connection refused\nprober: hint: set --server to the address of the agent"},
	} {
		code, stdout, stderr := r.run(t, strings.Fields(c.args)...)
		if got := shape(stdout); code != c.code || got != c.want || !strings.Contains(stderr, c.err) || c.err == "" && stderr != "" {
			t.Errorf("%s: exit code %d\n%s\n%s", c.args, code, got, stderr)
		}
	}
	if _, stdout, _ := r.run(t, "get", "events"); !strings.HasPrefix(shape(stdout), "NAMESPACE LAST SEEN TYPE REASON OBJECT MESSAGE\ndefault # Normal Created pod/shop/web Container created") {
		t.Errorf("events:\n%s", stdout)
	}
	var list struct {
		Kind  string
		Items []struct{ Metadata struct{ Name string } }
	}
	_, stdout, _ := r.run(t, "get", "pods", "-o", "json")
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || list.Kind != "PodList" || len(list.Items) != 1 || list.Items[0].Metadata.Name != "shop" {
		t.Errorf("pods: %v, %s", err, stdout)
	}
	_, stdout, _ = r.run(t, "__complete", "describe", "")
	if want := "incident\tShow an incident with its probes\nshop\nshop/idle\nshop/web\n"; !strings.HasPrefix(stdout, want) {
		t.Errorf("completion: %s", stdout)
	}
	for _, words := range []string{"get probes -n", "describe --namespace", "status -n"} {
		if _, stdout, _ = r.run(t, append(append([]string{"__complete"}, strings.Fields(words)...), "def")...); strings.Fields(stdout)[0] != "default" {
			t.Errorf("completion of %s: %s", words, stdout)
		}
	}
}

func TestClientShowsFailuresHarmlessly(t *testing.T) {
	t.Parallel()
	r := runClientRig(t)
	r.broken.Store(true)
	r.await(t, "failure")
	if code, stdout, _ := r.run(t, "status"); code != 1 ||
		!strings.HasPrefix(stdout, "2 probes: 1 success, 1 failure; default/shop/web readiness fails (GET http://") ||
		!strings.HasSuffix(stdout, "): HTTP probe failed with statuscode: 500\n") {
		t.Errorf("status: %d, %s", code, stdout)
	}
	r.broken.Store(false)
	r.await(t, "success") // with the hostile text as its output
	for _, args := range []string{"get probes -o wide", "describe shop/web readiness", "get events"} {
		_, stdout, _ := r.run(t, strings.Fields(args)...)
		if i := strings.IndexFunc(stdout, func(c rune) bool { return c != '\n' && unicode.IsControl(c) }); i >= 0 {
			t.Errorf("%s: %q", args, stdout)
		}
		if args != "get events" && !strings.Contains(stdout, "<b> [31mred") {
			t.Errorf("%s: %s", args, stdout)
		}
	}
}

func TestClientPausesAndResumes(t *testing.T) {
	t.Parallel()
	r := runClientRig(t)
	paused := func() bool {
		_, stdout, _ := r.run(t, "get", "probes", "shop/web", "-o", "jsonpath={.items[0].paused}")
		return stdout == "true\n"
	}
	if code, stdout, stderr := r.run(t, "pause", "shop/web"); code != 0 || stdout != "default/shop/web readiness paused\n" || !paused() {
		t.Errorf("pause: %d, %s, %s", code, stdout, stderr)
	}
	if code, stdout, stderr := r.run(t, "resume", "shop"); code != 0 || stdout != "default/shop/idle liveness resumed\ndefault/shop/web readiness resumed\n" || paused() {
		t.Errorf("resume: %d, %s, %s", code, stdout, stderr)
	}
	if code, _, stderr := r.run(t, "pause", "shop/web", "--for", "1h30m", "--reason", "a move"); code != 0 {
		t.Fatalf("pause --for: %d, %s", code, stderr)
	}
	if _, stdout, _ := r.run(t, "get", "probes", "shop/web", "-o", "wide"); !regexp.MustCompile(`paused until \d{4}-.*: a move  `).MatchString(stdout) {
		t.Errorf("get probes:\n%s", stdout)
	}
	_, stdout, _ := r.run(t, "describe", "shop/web")
	for _, want := range []string{"a move", "Paused by:  uid ", "Resumes:    in 1h"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("describe has no %q:\n%s", want, stdout)
		}
	}
	if code, _, stderr := r.run(t, "pause", "shop/web", "--for", "1ms"); code != 64 || !strings.Contains(stderr, "--for 1ms: must be at least 1s") {
		t.Errorf("pause --for 1ms: %d, %s", code, stderr)
	}
	if code, _, stderr := r.run(t, "pause", "shop/web", "--reason", "a\nb"); code != 1 || !strings.Contains(stderr, "reason must be one line") {
		t.Errorf("pause with a reason on two lines: %d, %s", code, stderr)
	}
}

func TestClientWatches(t *testing.T) {
	t.Parallel()
	r := runClientRig(t)
	cmd := exec.CommandContext(t.Context(), "prober", "get", "probes", "--handler", "http", "-w", "--no-headers", "--server", "unix:"+r.agent.socket)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func(want string) {
		t.Helper()
		for lines.Scan() {
			const head, tail = "default shop web readiness http ", " # #"
			switch shape(lines.Text()) {
			case head + want + tail:
				return
			case head + "success failure" + tail, head + "failure success" + tail: // within a tick, the result comes first
			default:
				t.Errorf("got %q, want %s", lines.Text(), want)
				return
			}
		}
		t.Errorf("got the end, want %s", want)
	}
	next("success success")
	r.broken.Store(true)
	next("failure failure")
	r.broken.Store(false)
	next("success success")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("interrupted: %v", err)
	}
}
