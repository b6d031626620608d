package agent_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/internal/cli/clitest"
)

// A forced state is shown everywhere with who, why and until when, tells no receiver, outlives the agent, and
// ends with the state of the attempts.
func TestForcedState(t *testing.T) {
	t.Parallel()
	target, stateDir, socket := newTarget(t), t.TempDir(), filepath.Join(shortDir(t), "s")
	begin := func(t *testing.T) (*running, <-chan event) {
		r := start(t, target.external("shop"), notifying(t, `{name: ops, groupWait: 0s, states: [failure, warning, unknown], exec: {command: [/bin/true]}}`),
			func(c *agent.Config) { c.StateDir, c.Socket = stateDir, socket })
		return r, r.stream()
	}
	who := fmt.Sprintf("uid %d, with the socket", os.Geteuid())
	check := func(t *testing.T, r *running, p *api.ProbeStatus) {
		t.Helper()
		if p.State != "failure" || p.Forced != "down" || p.Gate != "forced down" || p.PausedBy != who || p.PauseReason != "a drill" ||
			p.PausedUntil.IsZero() || p.Cause != "forced down by "+who+" (a drill)" {
			t.Errorf("the stream: %+v", p)
		}
		for command, want := range map[string]string{
			"get probes":                "failure (forced down)",
			"get probes -o wide":        ": a drill",
			"describe shop":             "Forced by:  ",
			"explain shop":              "forced down by " + who + " (a drill): the result is failure until that ends in ",
			"get probes --state paused": "shop",
			"status":                    "1 paused",
		} {
			if _, stdout, _ := clitest.Run(nil, append(strings.Fields(command), "--server", r.url)...); !strings.Contains(stdout, want) {
				t.Errorf("prober %s: no %q in\n%s", command, want, stdout)
			}
		}
		for _, words := range [][]string{{"prober_probe_state{", `state="failure"`, "} 1"}, {"prober_probe_gate{", `gate="forced_down"`, "} 1"}, {"prober_paused{"}} {
			if len(r.series(words...)) != 1 {
				t.Errorf("no series with %q", words)
			}
		}
		var told api.NotificationList
		if r.get("/api/v1/notifications", &told); len(told.Items) != 1 || len(told.Items[0].Alerts) > 0 {
			t.Errorf("the receiver: %+v", told.Items)
		}
	}
	forced := func(p *api.ProbeStatus) bool { return p.Forced == "down" && p.State == "failure" }
	t.Run("first agent", func(t *testing.T) {
		r, events := begin(t)
		awaitProbe(t, events, "ready", ready)
		force := strings.Replace(pausePath, "/pause", "/force", 1)
		if status, body := r.do("POST", force+"?state=down&for=1h&reason=a+drill"); status != http.StatusOK || !strings.Contains(body, `"forced":"down"`) {
			t.Fatalf("force: %d %s", status, body)
		}
		p := awaitEvent(t, events, "probe", "forced", forced)
		check(t, r, &p)
		var list v1.EventList
		if r.get("/api/v1/events?reason=ProbeForced", &list); len(list.Items) != 1 || !strings.Contains(list.Items[0].Message, "forced down, for 1h0m0s, reason: a drill") {
			t.Errorf("events: %+v", list.Items)
		}
		if status, body := r.do("POST", force+"?state=sideways"); status != http.StatusBadRequest {
			t.Errorf("a wrong state: %d %s", status, body)
		}
	})
	t.Run("next agent", func(t *testing.T) {
		r, events := begin(t)
		p := awaitEvent(t, events, "probe", "forced", forced)
		check(t, r, &p)
		for _, args := range [][]string{{"force", "shop", "up", "--reason", "works"}, {"unforce", "shop"}} {
			if code, stdout, stderr := clitest.Run(nil, append(args, "--server", "unix:"+socket)...); code != 0 {
				t.Fatalf("prober %v: %d %s%s", args, code, stdout, stderr)
			}
			if args[0] == "force" {
				awaitEvent(t, events, "probe", "forced up", func(p *api.ProbeStatus) bool { return p.Forced == "up" && p.State == "success" })
			}
		}
		awaitEvent(t, events, "probe", "attempts again", func(p *api.ProbeStatus) bool {
			return !p.Paused && p.State == "success" && p.Last != nil && p.Result == "success"
		})
		var h api.ProbeHistory
		r.get("/api/v1/probes/default/shop/web/readiness/history", &h)
		for _, x := range h.Transitions {
			if x.To == "failure" {
				t.Errorf("the history has a failure: %+v", h.Transitions)
			}
		}
	})
}
