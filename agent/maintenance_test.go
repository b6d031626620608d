package agent_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/internal/cli/clitest"
)

// maintain runs a command below "prober maintenance" over the agent's socket, and returns its output.
func maintain(t *testing.T, socket string, args ...string) string {
	t.Helper()
	code, stdout, stderr := clitest.Run(nil, append([]string{"maintenance", "--server", "unix:" + socket}, args...)...)
	if code != 0 {
		t.Fatalf("%q: exit code %d, %s", args, code, stderr)
	}
	return stdout
}

func inMaintenance(p *api.ProbeStatus) bool    { return p.Maintenance != nil && p.State == "failure" }
func outOfMaintenance(p *api.ProbeStatus) bool { return p.Maintenance == nil && p.State == "failure" }

// A maintenance window is shown everywhere, notifies no receiver, outlives the agent, and its end notifies of
// what still fails.
func TestMaintenance(t *testing.T) {
	t.Parallel()
	target, stateDir, socket := newTarget(t), t.TempDir(), filepath.Join(shortDir(t), "s")
	begin := func(t *testing.T) (*running, <-chan event) {
		r := start(t, target.external("shop"), notifying(t, `{name: ops, groupWait: 0s, exec: {command: [/bin/true]}}`),
			func(c *agent.Config) { c.StateDir, c.Socket = stateDir, socket })
		return r, r.stream()
	}
	who := fmt.Sprintf("uid %d, with the socket", os.Geteuid())
	check := func(t *testing.T, r *running, p *api.ProbeStatus) {
		t.Helper()
		if m := p.Maintenance; m.Name != "move" || m.Reason != "new disks" || m.Until.IsZero() || p.Gate != "" || p.Paused {
			t.Errorf("the stream: %+v, %+v", m, p)
		}
		for command, want := range map[string]string{
			"get probes":                     "failure (maintenance)",
			"describe shop":                  "Maintenance:  ",
			"explain shop":                   "): failure (maintenance)\n",
			"get probes --state maintenance": "shop",
			"status":                         "1 probe: 0 success, 1 maintenance\n",
			"maintenance list":               " " + who + " ",
		} {
			if _, stdout, _ := clitest.Run(nil, append(strings.Fields(command), "--server", r.url)...); !strings.Contains(stdout, want) {
				t.Errorf("prober %s: no %q in\n%s", command, want, stdout)
			}
		}
		for _, words := range [][]string{{"prober_probe_state{", `state="failure"`, "} 1"}, {"prober_probe_maintenance{", `pod="shop"`, "} 1"}, {"prober_maintenance{", `window="move"`, "} 1"}} {
			if len(r.series(words...)) != 1 {
				t.Errorf("no series with %q", words)
			}
		}
		var told api.NotificationList
		r.get("/api/v1/notifications", &told)
		if a := told.Items[0].Alerts; told.Items[0].Pending+told.Items[0].Open > 0 || len(a) > 1 || len(a) == 1 && !a[0].Maintenance {
			t.Errorf("the receiver: %+v", told.Items)
		}
	}
	t.Run("first agent", func(t *testing.T) {
		r, events := begin(t)
		awaitProbe(t, events, "ready", ready)
		out := maintain(t, socket, "start", "shop", "--for", "2h", "--name", "move", "--reason", "new disks")
		if !regexp.MustCompile(`^maintenance move of 1 probe has begun, until 20[0-9T:+Z-]+\n$`).MatchString(out) {
			t.Errorf("start: %q", out)
		}
		target.status.Store(http.StatusServiceUnavailable)
		p := awaitEvent(t, events, "probe", "in maintenance", inMaintenance)
		check(t, r, &p)
		var list v1.EventList
		r.get("/api/v1/events?reason=MaintenanceBegan", &list)
		if len(list.Items) != 1 || !regexp.MustCompile(`^the maintenance window move has begun, until 20[0-9T:Z-]+, reason: new disks$`).MatchString(list.Items[0].Message) {
			t.Errorf("events: %+v", list.Items)
		}
		r.lines.await(t, 0, "msg=action action=maintain object=move result=ok")
	})
	t.Run("next agent", func(t *testing.T) {
		r, events := begin(t)
		p := awaitEvent(t, events, "probe", "in maintenance", inMaintenance)
		check(t, r, &p)
		if out := maintain(t, socket, "end", "move"); out != "maintenance move has ended\n" {
			t.Errorf("end: %q", out)
		}
		awaitEvent(t, events, "probe", "out of maintenance", outOfMaintenance)
		for {
			var told api.NotificationList
			if r.get("/api/v1/notifications", &told); told.Items[0].Open == 1 {
				break
			}
		}
		var list v1.EventList
		if r.get("/api/v1/events?reason=MaintenanceEnded", &list); len(list.Items) != 1 {
			t.Errorf("events: %+v", list.Items)
		}
		if len(r.series("prober_maintenance{")) > 0 || len(r.series("prober_probe_maintenance{")) > 0 {
			t.Error("the metrics show a window")
		}
	})
}

// In a window of one receiver the probe is in no maintenance, others get messages, and its end sends what lasts. It
// outlives the agent.
func TestMaintenanceOfOneReceiver(t *testing.T) {
	t.Parallel()
	target, stateDir, socket := newTarget(t), t.TempDir(), filepath.Join(shortDir(t), "s")
	const exec = "groupWait: 0s, exec: {command: [/bin/true]}"
	begin := func(t *testing.T) (*running, <-chan event) {
		r := start(t, target.external("shop"), notifying(t, "{name: pager, "+exec+"}, {name: mail, "+exec+"}"),
			func(c *agent.Config) { c.StateDir, c.Socket = stateDir, socket })
		return r, r.stream()
	}
	silent := func(t *testing.T, r *running) {
		t.Helper()
		var told api.NotificationList
		for r.get("/api/v1/notifications", &told); told.Items[1].Open == 0; r.get("/api/v1/notifications", &told) {
		}
		pager := told.Items[0]
		if m := pager.Maintenance; m == nil || m.Name != "site" || m.Reason != "on site" || pager.Open+pager.Pending > 0 || told.Items[1].Maintenance != nil {
			t.Errorf("receivers: %+v", told.Items)
		}
		if a := pager.Alerts; len(a) != 1 || !a[0].Maintenance {
			t.Errorf("alerts of the pager: %+v", a)
		}
		if s := r.series("prober_probe_maintenance{"); len(s) > 0 {
			t.Errorf("metrics: %q", s)
		}
	}
	t.Run("first agent", func(t *testing.T) {
		r, events := begin(t)
		awaitProbe(t, events, "ready", ready)
		out := maintain(t, socket, "start", "--receiver", "pager", "--for", "2h", "--name", "site", "--reason", "on site")
		if !strings.HasPrefix(out, "maintenance site of 1 probe for pager alone has begun, until 20") {
			t.Errorf("start: %q", out)
		}
		target.status.Store(http.StatusServiceUnavailable)
		awaitEvent(t, events, "probe", "failing", outOfMaintenance)
		silent(t, r)
	})
	t.Run("next agent", func(t *testing.T) {
		r, events := begin(t)
		awaitEvent(t, events, "probe", "failing", outOfMaintenance)
		silent(t, r)
		maintain(t, socket, "end", "site")
		var told api.NotificationList
		for r.get("/api/v1/notifications", &told); told.Items[0].Open == 0; r.get("/api/v1/notifications", &told) {
		}
		if told.Items[0].Maintenance != nil {
			t.Errorf("after the end: %+v", told.Items[0])
		}
	})
}

// Windows of prober.yaml begin and end with a reload, and select by labels that may change.
func TestMaintenanceOfConfigFile(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	target.status.Store(http.StatusServiceUnavailable)
	file := filepath.Join(t.TempDir(), "prober.yaml")
	write(t, file, configHead)
	labelled := func(tier string) string {
		return strings.Replace(target.external("shop"), "  annotations:\n", "  labels: {tier: "+tier+"}\n  annotations:\n", 1)
	}
	r := start(t, labelled("data"), func(c *agent.Config) { c.ConfigFile = file })
	events := r.stream()
	awaitEvent(t, events, "probe", "failing", outOfMaintenance)
	write(t, file, configHead+"maintenance: [{name: disks, match: [{labels: tier=data}], from: 2000-01-01T00:00, until: 2999-01-01T00:00}]\n")
	r.reload()
	awaitEvent(t, events, "probe", "in the window", inMaintenance)
	write(t, r.manifest, labelled("web"))
	r.reload()
	awaitEvent(t, events, "probe", "after another label", outOfMaintenance)
	write(t, r.manifest, labelled("data"))
	r.reload()
	awaitEvent(t, events, "probe", "after the label again", inMaintenance)
	if status, body := r.send(http.DefaultClient, "DELETE", "/api/v1/maintenance/disks"); status != http.StatusUnauthorized {
		t.Errorf("without rights: %d %s", status, body)
	}
	if status, body := r.overLocal("DELETE", "/api/v1/maintenance/disks", ""); status != http.StatusConflict || !strings.Contains(body, "part of prober.yaml") {
		t.Errorf("end of a window of prober.yaml: %d %s", status, body)
	}
	if status, body := r.overLocal("DELETE", "/api/v1/maintenance/none", ""); status != http.StatusNotFound {
		t.Errorf("end of no window: %d %s", status, body)
	}
	write(t, file, configHead)
	r.reload()
	awaitEvent(t, events, "probe", "after the end", outOfMaintenance)
}

// overLocal sends a request with a body over the agent's socket.
func (r *running) overLocal(method, path, body string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	res, err := r.local.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}
