package simulatecmd_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/internal/cli/clitest"
)

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// serve runs an agent with targets shop-0, shop-1 … of the group shop, one port each, and these changes.
func serve(t testing.TB, targets int, changes []api.StateChange) (server string) {
	var probes api.ProbeList
	var list api.TargetList
	for i := range targets {
		pod := fmt.Sprint("shop-", i)
		probes.Items = append(probes.Items, api.ProbeStatus{
			Namespace: "targets", Pod: pod, Container: "target", Kind: "readiness", Handler: "tcp", Target: "tcp 127.0.0.1:80",
			Spec: api.SpecStatus{Period: "10s", Timeout: "1s", SuccessThreshold: 1, FailureThreshold: 3},
		})
		list.Items = append(list.Items, api.Target{Group: "shop", Name: fmt.Sprint("127.0.0.1:", 1000+i), Address: fmt.Sprint("127.0.0.1:", 1000+i), Namespace: "targets", Pod: pod, State: "probed", Labels: map[string]string{"team": "shop team"}})
	}
	answers := map[string]any{"/api/v1/probes": probes, "/api/v1/targets": list, "/api/v1/pods": json.RawMessage(`{"items": [
		{"metadata": {"namespace": "targets", "name": "shop-0", "labels": {"stage": "prod"}}}, {"metadata": {"namespace": "targets", "name": "shop-1"}}]}`)}
	if changes != nil {
		answers["/api/v1/changes"] = api.StateChanges{Since: begin, Until: begin.Add(30 * 24 * time.Hour), Items: changes}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = map[string]string{"message": "the agent keeps no history: --state-dir is not set"}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// file writes a prober.yaml with the group shop and a receiver ops.
func file(t testing.TB, failureThreshold int, receiver string, more ...string) string {
	path := filepath.Join(t.TempDir(), "prober.yaml")
	text := fmt.Sprintf(`apiVersion: prober.dev/v1
kind: AgentConfig
targets:
- name: shop
  probe: {tcpSocket: {}, period: 10s, failureThreshold: %d}
  static: ["127.0.0.1:1000"]
notify:
  receivers:
  - {name: ops, exec: {command: [/bin/true]}%s}
`, failureThreshold, receiver) + strings.Join(more, "")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func change(at time.Duration, pod, from, to, text string) api.StateChange {
	return api.StateChange{Namespace: "targets", Pod: pod, Container: "target", Kind: "readiness", Handler: "tcp", Transition: api.Transition{Time: begin.Add(at), From: from, To: to, Text: text}}
}

// history has a failure of a minute after 10 min, and one of 20 min after an hour.
func history() []api.StateChange {
	return []api.StateChange{
		change(0, "shop-0", "absent", "unknown", ""),
		change(time.Second, "shop-0", "unknown", "success", ""),
		change(10*time.Minute, "shop-0", "success", "failure", "refused"),
		change(11*time.Minute, "shop-0", "failure", "success", ""),
		change(time.Hour, "shop-0", "success", "failure", "503"),
		change(80*time.Minute, "shop-0", "failure", "success", ""),
	}
}

func TestSimulate(t *testing.T) {
	agent, empty := serve(t, 2, history()), serve(t, 2, nil)
	for _, c := range []struct {
		name string
		args []string
		code int
		want []string // regular expressions
	}{
		{"history", []string{"--config", file(t, 3, ""), "--server", agent}, 0, []string{
			`: 6 changes of probes from .*, 2 failures\n`, `\nops +4 +2 +0 +2 `, `\ntargets/shop-0/target/readiness +4\n`,
		}},
		{"longer for", []string{"--config", file(t, 3, ", for: 5m"), "--server", agent, "--messages"}, 0, []string{`\nops +2 +1 +0 +1 `, `\n2026-03-01 \d\d:05:10 +ops +`}},
		{"larger threshold", []string{"--config", file(t, 9, ""), "--server", agent}, 0, []string{`: 4 changes of probes`, `1 failure\n`, `\nops +2 +1 +0 +1 `}},
		{"smaller threshold", []string{"--config", file(t, 2, ""), "--server", agent}, 0, []string{`, 2 failures`, `: group shop has a smaller threshold or period than the agent: failures that were too short for the agent are missing here\n`}},
		{"comparison", []string{"--config", file(t, 9, ""), "--compare", file(t, 3, ""), "--server", agent}, 0, []string{`, 1 failure\n(.*\n)+.*, 2 failures\n`}},
		{"outage", []string{"--config", file(t, 3, ""), "--server", empty, "--outage", "shop-*", "--lasts", "9h", "--messages"}, 0, []string{`\nops +4 +3 +2 +1 `, `\ntargets/shop-0/target/readiness +4\ntargets/shop-1/`}},
		{"outage of an address", []string{"--config", file(t, 3, ""), "--server", empty, "--outage", "127.0.0.1:1001"}, 0, []string{`\nops +2 +1 +0 +1 `, `\nPROBE +IN MESSAGES\ntargets/shop-1/target/readiness +2\n$`}},
		{"outage of probes with labels", []string{"--config", file(t, 3, ", match: [{labels: 'stage=prod,team'}]"), "--server", empty, "--outage", "shop-*"}, 0, []string{`\nops +2 +1 +0 +1 `, `\nPROBE +IN MESSAGES\ntargets/shop-0/target/readiness +2\n$`}},
		{"outage of a group", []string{"--config", file(t, 3, ""), "--server", empty, "--outage", "shop"}, 0, []string{`\nops +2 +1 +0 +1 `, `\ntargets/shop-0/target/readiness +2\ntargets/shop-1/`}},
		{"outage of nothing", []string{"--config", file(t, 3, ""), "--server", empty, "--outage", "web-*"}, 1, []string{`--outage "web-\*": the agent has no such probe\n`}},
		{"no history", []string{"--config", file(t, 3, ""), "--server", empty}, 1, []string{`the agent keeps no history: --state-dir is not set`}},
		{"maintenance", []string{"--config", file(t, 3, "", "maintenance:\n- {name: move, from: 2026-03-01T13:00:00Z, until: 2026-03-01T13:30:00Z, match: [{labels: team}]}\n"), "--server", agent}, 0, []string{`\nops +2 +1 +0 +1 `}},
		{"other maintenance", []string{"--config", file(t, 3, "", "maintenance:\n- {name: move, from: 2026-03-01T13:00:00Z, until: 2026-03-01T13:30:00Z, match: [{labels: '!team'}]}\n"), "--server", agent}, 0, []string{`\nops +4 +2 +0 +2 `}},
		{"long maintenance", []string{"--config", file(t, 3, "", "maintenance:\n- {name: move, schedule: '59 12 * * *', duration: 15m}\n"), "--server", agent, "--messages"}, 0, []string{`\nops +4 +2 +0 +2 `, `\n2026-03-01 \d\d:14:10 +ops +`}},
		{"local date", []string{"--config", file(t, 3, ""), "--server", agent, "--since", "2026-03-01"}, 0, []string{`, 2 failures`}},
		{"no date", []string{"--config", file(t, 3, ""), "--server", agent, "--since", "soon"}, 64, []string{`--since .*soon`}},
		{"no file", []string{"--server", agent}, 64, []string{`--config is required: the prober.yaml to try\n`}},
		{"error in the file", []string{"--config", file(t, 3, ", groupBy: [team]"), "--server", agent}, 1, []string{`prober.yaml:9: notify.receivers\[0\].groupBy`}},
		{"no agent", []string{"--config", file(t, 3, ""), "--server", "unix:" + filepath.Join(t.TempDir(), "none")}, 3, nil},
	} {
		code, out, errs := clitest.Run(nil, append([]string{"simulate"}, c.args...)...)
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d: %s%s", c.name, code, c.code, out, errs)
		}
		for _, want := range c.want {
			if !regexp.MustCompile(want).MatchString(out + errs) {
				t.Errorf("%s: no %q in\n%s%s", c.name, want, out, errs)
			}
		}
	}
}

func TestSimulateJSON(t *testing.T) {
	code, out, errs := clitest.Run(nil, "simulate", "--config", file(t, 3, ""), "--server", serve(t, 1, history()), "-o", "json")
	var got struct {
		Files []struct {
			Failures  int
			Receivers []struct{ Messages, BusiestHour int }
			Messages  []struct {
				Time   time.Time
				Probes []struct{ Text string }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || len(got.Files) != 1 {
		t.Fatalf("%d %v %s%s", code, err, out, errs)
	}
	f := got.Files[0]
	if f.Failures != 2 || f.Receivers[0].Messages != 4 || f.Receivers[0].BusiestHour != 2 || len(f.Messages) != 4 || f.Messages[2].Probes[0].Text != "503" || !f.Messages[2].Time.After(begin.Add(time.Hour)) {
		t.Errorf("%+v", f)
	}
}

// BenchmarkSimulate replays a month of 2,000 targets, of which each fails once a day.
func BenchmarkSimulate(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var changes []api.StateChange
	const targets = 2000
	for i := range targets {
		pod := fmt.Sprint("shop-", i)
		changes = append(changes, change(0, pod, "absent", "success", ""))
		for day := range 30 {
			at := time.Duration(day)*24*time.Hour + time.Duration(r.IntN(20*3600))*time.Second
			changes = append(changes, change(at, pod, "success", "failure", "refused"), change(at+time.Duration(30+r.IntN(3600))*time.Second, pod, "failure", "success", ""))
		}
	}
	agent := serve(b, targets, changes)
	path := file(b, 4, ", groupBy: [pod], maxPerMinute: 600")
	for b.Loop() {
		if code, out, errs := clitest.Run(nil, "simulate", "--config", path, "--server", agent); code != 0 || !strings.Contains(out, "ops") {
			b.Fatal(code, out, errs)
		}
	}
	b.ReportMetric(float64(len(changes)), "changes/op")
}
