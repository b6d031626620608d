package agent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/internal/cli/clitest"
)

// targets maps pods to the targets that a view shows.
type targets map[string]string

// probed has the probes of the test, with their targets. All but the last fail.
var probed = []struct{ pod, probe, target string }{
	{"http", `httpGet: {path: "/x?token=${env:TOKEN}&a=b", port: 1, httpHeaders: [{name: Authorization, value: "${env:TOKEN}"}]}`, "GET http://127.0.0.1:1/x?token=[redacted]&a=b"},
	{"tcp", `tcpSocket: {port: 1}`, "tcp 127.0.0.1:1"},
	{"grpc", `grpc: {port: 1, service: shop.Health}`, "grpc 127.0.0.1:1 shop.Health"},
	{"exec", `exec: {command: [sh, -c, "exit 1"]}`, `exec sh -c "exit 1"`},
	{"long", `exec: {command: ["false", ` + strings.Repeat("x", 300) + `]}`, "exec false " + strings.Repeat("x", 242) + "…"},
	{"guest", `plugin: {name: guest, target: {port: 1}, config: {url: "https://user:${env:TOKEN}@db.example/x"}}`, "guest https://db.example/x"},
	{"own", `plugin: {name: guest, target: {port: 1}}`, "guest 127.0.0.1:1"},
	{"tester", `plugin: {name: tester, target: {host: db.example, port: 1}, config: {mode: warning, url: "/${env:TOKEN}"}}`, "tester db.example:1/[redacted]"},
	{"ok", `exec: {command: ["true"]}`, "exec true"},
}

// All views of probes show the same targets, and no secret.
func TestTargetIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-token"
	want, manifests := make(targets), ""
	for _, p := range probed {
		want[p.pod] = p.target
		manifests += fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata:
  name: %s
  annotations:
    prober.dev/probes: |
      web:
        readiness: {%s, period: 200ms, timeout: 2s, failureThreshold: 1, warningAs: failure}
spec:
  containers:
  - name: web
`, p.pod, p.probe)
	}
	told := make(chan targets, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var message struct {
			Title  string
			Probes []struct{ Pod, Target string }
		}
		_ = json.NewDecoder(r.Body).Decode(&message)
		all := make(targets)
		for _, p := range message.Probes {
			shown := p.Target[:min(len(p.Target), 50)] // titles are cut
			if all[p.Pod] = p.Target; len(message.Probes) == 1 && !strings.Contains(message.Title, shown) {
				all[p.Pod] = message.Title
			}
		}
		told <- all
	}))
	defer receiver.Close()
	folder, _ := processFolder(t)
	put(t, filepath.Join(folder, "guest.wasm"), guestSpec{text: "down", result: 2}.plugin("guest", "1.0.0"))
	r := start(t, manifests, func(c *agent.Config) {
		c.PluginDirs, c.StateDir, c.ConfigFile = []string{folder}, t.TempDir(), filepath.Join(t.TempDir(), "prober.yaml")
		write(t, c.ConfigFile, configHead+fmt.Sprintf("secrets: {allow: [\"env:*\"]}\nnotify: {receivers: [{name: ops, groupWait: 0s, states: [failure, warning, unknown], groupBy: [pod], maxPerMinute: 600, webhook: {url: %q}}]}\n", receiver.URL))
		c.LookupEnv = func(string) (string, bool) { return secret, true }
	})
	messages := make(targets)
	for deadline := time.After(patience); len(messages) < len(probed)-1; {
		select {
		case all := <-told:
			maps.Copy(messages, all)
		case <-deadline:
			t.Fatalf("messages of %v", slices.Collect(maps.Keys(messages)))
		}
	}
	views := map[string]targets{
		"the list": {}, "one probe": {}, "explanations": {}, "notifications": messages, "alerts": {}, "reports": {}, "events": {}, "histories": {},
		"the stream": targetsOf(r.streamed("full", len(probed))), "the page": targetsOf(r.streamed("summary", len(probed))),
	}
	var list api.ProbeList
	r.get("/api/v1/probes", &list)
	for i := range list.Items {
		p := &list.Items[i]
		views["the list"][p.Pod] = p.Target
		var one api.ProbeStatus
		var x api.Explanation
		var past api.ProbeHistory
		r.get(pathOfProbe(p), &one)
		r.get(pathOfProbe(p)+"/explain", &x)
		r.get(pathOfProbe(p)+"/history", &past)
		views["one probe"][p.Pod], views["explanations"][p.Pod], views["histories"][p.Pod] = one.Target, x.Probe.Target, past.Target
	}
	var receivers api.NotificationList
	r.get("/api/v1/notifications", &receivers)
	for _, a := range receivers.Items[0].Alerts {
		views["alerts"][a.Pod] = a.Target
	}
	var events v1.EventList
	r.get("/api/v1/events", &events)
	for _, e := range events.Items {
		views["events"][e.InvolvedObject.Name] = e.Annotations["prober.dev/target"]
	}
	var report api.Report
	r.get("/api/v1/report", &report)
	for _, i := range report.Items {
		views["reports"][i.Pod] = i.Target
	}
	for name, view := range views {
		if name == "notifications" || name == "alerts" || name == "events" {
			view["ok"] += want["ok"] // these views do not show it
		}
		if diff := cmp.Diff(want, view); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	r.checkCommands(want)
	r.lines.await(t, 0, `msg="result changed"`, "pod=ok", `target="exec true"`)
	r.lines.await(t, 0, "msg=event", "pod=tcp", `target="tcp 127.0.0.1:1"`)
	if r.lines.has(secret) {
		t.Error("the log has the secret")
	}
}

// streamed returns the probes in the first frames of a stream, by pod.
func (r *running) streamed(view string, probes int) map[string]api.ProbeSummary {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience/6)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", r.url+"/api/v1/stream?view="+view, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	seen := make(map[string]api.ProbeSummary)
	for lines := bufio.NewScanner(res.Body); len(seen) < probes && lines.Scan(); {
		text, ok := strings.CutPrefix(lines.Text(), "data: ")
		var p api.ProbeSummary
		if !ok || json.Unmarshal([]byte(text), &p) != nil || p.Kind == "" || p.Removed {
			continue
		}
		if _, again := seen[p.Pod]; !again {
			seen[p.Pod] = p
		}
	}
	return seen
}

func targetsOf(probes map[string]api.ProbeSummary) targets {
	all := make(targets)
	for pod, p := range probes {
		all[pod] = p.Target
	}
	return all
}

// checkCommands checks the output of the commands.
func (r *running) checkCommands(want targets) {
	r.t.Helper()
	run := func(args ...string) string {
		_, stdout, stderr := clitest.Run(nil, append(args, "--server", r.url)...)
		return stdout + stderr
	}
	wide, report := run("get", "probes", "-o", "wide"), run("report", "-o", "wide")
	for pod, target := range want {
		described, explained := run("describe", pod), run("explain", pod)
		for name, text := range map[string]string{"get -o wide": wide, "report -o wide": report, "describe": described, "explain": explained} {
			if !strings.Contains(text, target) {
				r.t.Errorf("%s of %s does not say %q:\n%s", name, pod, target, text)
			}
		}
	}
	if status := run("status"); !slices.ContainsFunc(slices.Collect(maps.Values(want)), func(target string) bool { return strings.Contains(status, " fails ("+target+"): ") }) {
		r.t.Errorf("status: %s", status)
	}
}
