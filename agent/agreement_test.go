package agent_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/internal/cli/clitest"
)

// life simulates probes that tick when they are triggered, and the responses of their targets.
type life struct {
	*running
	events   <-chan event
	port     int
	commands string // folder of the commands of exec probes
	steps    int
	again    map[string]bool   // pods that were removed and created again
	alerted  map[string]string // states of the alerts after the last step, by pod

	mu      sync.Mutex
	answers map[string]int // HTTP status by path
	pods    map[string]string
}

// serve responds with the status that the test has set. A redirect to another host is a warning.
func (l *life) serve(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.Header().Set("Location", "http://elsewhere.example/")
	w.WriteHeader(l.answers[r.URL.Path])
}

// pod returns the manifest of a pod with one probe, whose period is an hour.
func (l *life) pod(name, kind, action string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
  annotations:
    prober.dev/probes: |
      web:
        %s: {%s, period: 1h, timeout: 5s, failureThreshold: 1}
spec:
  containers:
  - name: web
`, name, kind, action)
}

func (l *life) http(name, kind string) string {
	return l.pod(name, kind, fmt.Sprintf("httpGet: {path: /%s, port: %d}", name, l.port))
}

func (l *life) exec(name string) string {
	return l.pod(name, "readiness", fmt.Sprintf("exec: {command: [%q]}", filepath.Join(l.commands, name)))
}

func (l *life) manifest() {
	var all []string
	for _, pod := range l.pods {
		all = append(all, pod)
	}
	write(l.t, l.running.manifest, strings.Join(all, "---\n"))
	l.reload()
	l.settle()
}

// settle waits until the probes match the manifest. Removed pods end first.
func (l *life) settle() {
	l.t.Helper()
	for until := time.Now().Add(patience); len(l.list("")) != len(l.pods); {
		if time.Now().After(until) {
			l.t.Fatalf("%d probes of %d pods", len(l.list("")), len(l.pods))
		}
	}
}

// answer sets the next result of a pod's probe: "success", "warning", "failure", or "error" for no verdict.
func (l *life) answer(pod, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers["/"+pod] = map[string]int{"success": 200, "warning": 302, "failure": 503, "error": 503}[what]
	path := filepath.Join(l.commands, pod)
	if what == "error" {
		_ = os.Remove(path)
		return
	}
	write(l.t, path, map[string]string{"success": "#!/bin/sh\n", "warning": "#!/bin/sh\n", "failure": "#!/bin/sh\nexit 1\n"}[what])
	if err := os.Chmod(path, 0o700); err != nil {
		l.t.Fatal(err)
	}
}

func (l *life) act(p *api.ProbeStatus, action string) {
	l.t.Helper()
	if status, body := l.do("POST", pathOfProbe(p)+"/"+action); status != http.StatusOK {
		l.t.Fatalf("%s of %s: %d %s", action, p.Pod, status, body)
	}
}

func pathOfProbe(p *api.ProbeStatus) string {
	return "/api/v1/probes/" + strings.Join([]string{p.Namespace, p.Pod, p.Container, p.Kind}, "/")
}

// tick triggers a tick of a probe, and waits for it.
func (l *life) tick(p *api.ProbeStatus, action string) {
	l.t.Helper()
	var before time.Time
	if p.Last != nil {
		before = p.Last.Time
	}
	l.act(p, action)
	awaitEvent(l.t, l.events, "probe", action+" of "+p.Pod, func(s *api.ProbeStatus) bool {
		return s.Pod == p.Pod && (s.Gate != "" && s.Gate != "paused" && !isForced(s.Gate) || s.Last != nil && s.Last.Time.After(before))
	})
}

func isForced(gate string) bool { return gate == "drained" || strings.HasPrefix(gate, "forced ") }

// settleForced waits until the state is the forced one, which a tick without attempts sets.
func (l *life) settleForced(pod string) {
	l.t.Helper()
	for until := time.Now().Add(patience); ; {
		p := l.list("?pod=" + pod)[0]
		if want := map[string]string{"up": "success", "down": "failure"}[p.Forced]; !isForced(p.Gate) || want == "" || p.State == want {
			return
		}
		if time.Now().After(until) {
			l.t.Fatalf("%s is %s, forced %s", pod, p.State, p.Forced)
		}
	}
}

func (l *life) list(query string) []api.ProbeStatus {
	l.t.Helper()
	var list api.ProbeList
	l.get("/api/v1/probes"+query, &list)
	return list.Items
}

// step makes a random change to a probe.
func (l *life) step(random *rand.Rand, p *api.ProbeStatus) {
	switch {
	case p.Paused && random.IntN(2) == 0:
		l.answer(p.Pod, "success")
		if p.Gate == "paused" || p.Forced != "" && isForced(p.Gate) {
			l.tick(p, "resume")
		} else {
			l.act(p, "resume")
		}
	case p.Paused:
	case random.IntN(6) == 0:
		l.act(p, "pause")
	case random.IntN(6) == 0:
		l.turnWindow(p)
	case random.IntN(5) == 0 && p.Kind == "readiness":
		l.act(p, "force?state="+[]string{"up", "down", "drained"}[random.IntN(3)]+"&for=1h&reason=drill")
		l.settleForced(p.Pod)
	case random.IntN(10) == 0 && p.Pod != "process" && p.Pod != "asleep": // a process ends slowly, and only a tick finds the gate of a new probe
		gone := l.pods[p.Pod]
		delete(l.pods, p.Pod)
		l.manifest()
		l.pods[p.Pod], l.again[p.Pod] = gone, true
		if random.IntN(2) == 0 {
			l.manifest()
		}
	case p.Gate == "": // otherwise it is on hold, or its container restarts
		l.answer(p.Pod, []string{"success", "warning", "failure", "error"}[random.IntN(4)])
		for range 1 + random.IntN(4) {
			if now := l.list("?pod=" + p.Pod); len(now) == 1 && now[0].Gate == "" {
				l.tick(&now[0], "trigger")
			}
		}
	}
}

// turnWindow begins a maintenance window of a probe's pod, or ends it, and waits until the agent has passed it on.
func (l *life) turnWindow(p *api.ProbeStatus) {
	l.t.Helper()
	const path = "/api/v1/maintenance"
	var status int
	var body string
	began := p.Maintenance == nil
	if began {
		status, body = l.overLocal("POST", path, fmt.Sprintf(`{"name":%q,"for":"1h","match":[{"pod":%[1]q}]}`, p.Pod))
	} else {
		status, body = l.overLocal("DELETE", path+"/"+p.Pod, "")
	}
	if status != http.StatusOK {
		l.t.Fatalf("window of %s: %d %s", p.Pod, status, body)
	}
	awaitEvent(l.t, l.events, "probe", "window of "+p.Pod, func(s *api.ProbeStatus) bool { return s.Pod == p.Pod && (s.Maintenance != nil) == began })
}

// counts has the number of probes by state, without zeros.
type counts map[string]int

func (c counts) add(word string, n int) {
	if n > 0 {
		c[word] += n
	}
}

// summaries returns the counts of the status page.
func (l *life) summaries(probes int) counts {
	l.t.Helper()
	all := make(counts)
	for _, p := range l.streamed("summary", probes) {
		switch {
		case p.Paused:
			p.State = "paused"
		case p.Maintenance != nil:
			p.State = "maintenance"
		}
		all.add(p.State, 1)
	}
	return all
}

// summary returns the single probe as the status page gets it.
func (l *life) summary() (p api.ProbeSummary) {
	l.t.Helper()
	for _, p = range l.streamed("summary", 1) {
	}
	return p
}

// scraped returns the counts of the metrics.
func (l *life) scraped() counts {
	all, paused := make(counts), make(map[string]bool)
	pod := regexp.MustCompile(`pod="([^"]*)"`)
	for _, line := range append(l.series("prober_paused{"), l.series("prober_probe_gate{", `gate="paused"`)...) {
		paused[pod.FindStringSubmatch(line)[1]] = true // probes that a manifest pauses only have the gate
	}
	all.add("paused", len(paused))
	maintained := make(map[string]bool)
	for _, line := range l.series("prober_probe_maintenance{") {
		if name := pod.FindStringSubmatch(line)[1]; !paused[name] {
			maintained[name] = true
		}
	}
	all.add("maintenance", len(maintained))
	state := regexp.MustCompile(`state="([a-z]*)"} 1$`)
	for _, line := range l.series("prober_probe_state{") {
		if is := state.FindStringSubmatch(line); is != nil && !paused[pod.FindStringSubmatch(line)[1]] && !maintained[pod.FindStringSubmatch(line)[1]] {
			all.add(is[1], 1)
		}
	}
	return all
}

// printed returns the counts that "prober status" prints.
func (l *life) printed() counts {
	all := make(counts)
	_, stdout, _ := clitest.Run(nil, "status", "--server", l.url)
	head, _, _ := strings.Cut(strings.TrimSpace(stdout), ";")
	_, list, _ := strings.Cut(head, ": ")
	for part := range strings.SplitSeq(list, ", ") {
		n, word, _ := strings.Cut(part, " ")
		number, err := strconv.Atoi(n)
		if err != nil {
			l.t.Fatalf("status: %q", stdout)
		}
		all.add(word, number)
	}
	return all
}

// checkAlerts checks that notifications have the states of probes that are not well, and which of them are in
// maintenance.
func (l *life) checkAlerts(items []api.ProbeStatus) error {
	var list api.NotificationList
	l.get("/api/v1/notifications", &list)
	alerts, withheld := make(map[string]string), make(map[string]bool)
	for _, a := range list.Items[0].Alerts {
		if a.State != "success" {
			alerts[a.Pod], withheld[a.Pod] = a.State, a.Maintenance
		}
	}
	for i := range items {
		if p := &items[i]; alerts[p.Pod] != "" && !l.again[p.Pod] && withheld[p.Pod] != (p.Maintenance != nil) {
			return fmt.Errorf("%s is in maintenance: %t, the alert: %t", p.Pod, p.Maintenance != nil, withheld[p.Pod])
		}
	}
	for i := range items {
		switch p, alert := &items[i], alerts[items[i].Pod]; {
		case p.Forced != "": // the alert is about the attempts before it
			if alert != l.alerted[p.Pod] {
				return fmt.Errorf("%s is forced %s, the alert was %q and is %q", p.Pod, p.Forced, l.alerted[p.Pod], alert)
			}
		case p.State == "success" && alert != "", (p.State == "warning" || p.State == "failure") && alert != p.State:
			return fmt.Errorf("%s is %s, the alert %q", p.Pod, p.State, alert)
		case p.State != "unknown":
		case !p.StateSince.IsZero() && alert != "unknown" && alert != "failure":
			return fmt.Errorf("%s is unknown, the alert %q", p.Pod, alert)
		case p.StateSince.IsZero() && alert != "" && !l.again[p.Pod]: // otherwise the previous incident continues
			return fmt.Errorf("%s was never decided, the alert %q", p.Pod, alert)
		}
	}
	l.alerted = alerts
	return nil
}

// checkHistory checks that the last states in the history are right.
func (l *life) checkHistory(items []api.ProbeStatus) error {
	for i := range items {
		var h api.ProbeHistory
		if items[i].Forced != "" {
			continue // its time counts as the state of before
		}
		if l.get(pathOfProbe(&items[i])+"/history", &h); len(h.Transitions) == 0 || h.Transitions[0].To != items[i].State {
			return fmt.Errorf("%s is %s, its history %+v", items[i].Pod, items[i].State, h.Transitions)
		}
	}
	return nil
}

// await calls check until it succeeds or the list changes, as the agent writes a moment later.
func (l *life) await(check func([]api.ProbeStatus) error, items []api.ProbeStatus) error {
	for until := time.Now().Add(patience / 6); ; {
		err := check(items)
		if err == nil || time.Now().After(until) || !sameStates(items, l.list("")) {
			return err
		}
	}
}

func sameStates(a, b []api.ProbeStatus) bool {
	return slices.EqualFunc(a, b, func(x, y api.ProbeStatus) bool {
		return x.Pod == y.Pod && x.State == y.State && x.Paused == y.Paused && (x.Maintenance == nil) == (y.Maintenance == nil) && x.StateSince.Equal(y.StateSince)
	})
}

// agree compares all counts of probes by state, while no probe changes.
func (l *life) agree(when string) {
	l.t.Helper()
	for until := time.Now().Add(patience); ; {
		items := l.list("")
		differences := l.differences(items)
		if sameStates(items, l.list("")) {
			l.steps++
			for _, d := range differences {
				l.t.Errorf("%s: %s", when, d)
			}
			if l.t.Failed() {
				l.t.FailNow()
			}
			break
		}
		if time.Now().After(until) {
			l.t.Fatalf("%s: the probes do not come to rest", when)
		}
	}
}

// differences returns a message for each view whose counts differ from items.
func (l *life) differences(items []api.ProbeStatus) (all []string) {
	want := make(counts)
	for i := range items {
		want.add(items[i].Counted(), 1)
	}
	compare := func(who string, got counts) {
		if diff := cmp.Diff(want, got); diff != "" {
			all = append(all, fmt.Sprintf("the list and %s (-list +other):\n%s", who, diff))
		}
	}
	filtered, selected, older := make(counts), make(counts), make(counts)
	for _, state := range api.States {
		filtered.add(state, len(l.list("?state="+state)))
		for flag, into := range map[string]counts{"--state": selected, "--result": older} {
			_, stdout, _ := clitest.Run(nil, "get", "probes", flag, state, "-o", "name", "--server", l.url)
			into.add(state, strings.Count(stdout, "\n"))
		}
	}
	compare("the filter state", filtered)
	compare("prober get --state", selected)
	compare("prober get --result", older)
	compare("prober status", l.printed())
	compare("the page", l.summaries(len(items)))
	compare("the metrics", l.scraped())
	for _, check := range []func([]api.ProbeStatus) error{l.checkAlerts, l.checkHistory} {
		if err := l.await(check, items); err != nil {
			all = append(all, err.Error())
		}
	}
	p := &items[l.steps%len(items)] // one probe per step
	_, explained, _ := clitest.Run(nil, "explain", p.Pod, "--server", l.url)
	_, described, _ := clitest.Run(nil, "describe", p.Pod, "--server", l.url)
	word := p.Word()
	if !strings.Contains(explained, "): "+word+"\n") || !regexp.MustCompile(`State: +`+p.State+`\b`).MatchString(described) {
		all = append(all, fmt.Sprintf("%s is %s:\n%s\n%s", p.Pod, word, explained, described))
	}
	return all
}

// All views of probe states agree after random changes.
func TestStatesAgree(t *testing.T) {
	t.Parallel()
	l := &life{running: &running{t: t}, commands: t.TempDir(), answers: make(map[string]int), again: make(map[string]bool), pods: make(map[string]string)}
	server := httptest.NewServer(http.HandlerFunc(l.serve))
	defer server.Close()
	l.port = server.Listener.Addr().(*net.TCPAddr).Port
	for i := range 3 {
		name := fmt.Sprint("http-", i)
		l.pods[name] = l.http(name, "readiness")
	}
	for i := range 3 {
		name := fmt.Sprint("exec-", i)
		l.pods[name] = l.exec(name)
	}
	l.pods["live"] = l.http("live", "liveness")
	l.pods["process"] = l.http("process", "liveness") + "    command: [sleep, \"1000\"]\n"
	l.pods["asleep"] = strings.Replace(l.http("asleep", "readiness"), "failureThreshold: 1", "failureThreshold: 1, paused: true", 1)
	var all []string
	for name, pod := range l.pods {
		all = append(all, pod)

		l.answer(name, "success")
	}
	stateDir := t.TempDir()
	l.running = start(t, strings.Join(all, "---\n"), notifying(t, `{name: ops, groupWait: 0s, states: [failure, warning, unknown], exec: {command: [/bin/true]}}`), func(c *agent.Config) { c.StateDir = stateDir })
	l.events = l.stream()
	awaitEvent(t, l.events, "probe", "a probe", func(*api.ProbeStatus) bool { return true })
	l.settle()
	l.act(&l.list("?pod=asleep")[0], "trigger") // finds the gate
	l.agree("at the start")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 30 {
		items := l.list("")
		if len(items) < len(l.pods) && random.IntN(3) == 0 {
			l.manifest()
			items = l.list("")
		}
		p := &items[random.IntN(len(items))]
		was := fmt.Sprintf("step %d: %s, which was %s", i, p.Pod, p.Word())
		l.step(random, p)
		l.agree(was)
	}
}

// All views agree on the cause of a state, also after a success that does not end a failure.
func TestCausesAgree(t *testing.T) {
	t.Parallel()
	l := &life{running: &running{t: t}, commands: t.TempDir(), answers: make(map[string]int)}
	server := httptest.NewServer(http.HandlerFunc(l.serve))
	defer server.Close()
	l.port = server.Listener.Addr().(*net.TCPAddr).Port
	l.answer("web", "failure")
	manifest := strings.Replace(l.http("web", "readiness"), "failureThreshold: 1", "failureThreshold: 1, successThreshold: 2", 1)
	l.running = start(t, manifest, notifying(t, `{name: ops, groupWait: 0s, exec: {command: [/bin/true]}}`))
	l.events = l.stream()
	awaitEvent(t, l.events, "probe", "a probe", func(*api.ProbeStatus) bool { return true })
	l.tick(&l.list("")[0], "trigger")
	l.answer("web", "success")
	l.tick(&l.list("")[0], "trigger")
	const cause = "HTTP probe failed with statuscode: 503"
	p := l.list("")[0]
	if p.State != "failure" || p.Last.Result != "success" || p.Cause != cause {
		t.Errorf("the list: %s by %q, last %s", p.State, p.Cause, p.Last.Result)
	}
	if _, stdout, _ := clitest.Run(nil, "status", "--server", l.url); !strings.HasSuffix(stdout, "/web): "+cause+"\n") {
		t.Errorf("prober status: %q", stdout)
	}
	if s := l.summary(); s.Cause != cause {
		t.Errorf("the page: %+v", s)
	}
	told := func([]api.ProbeStatus) error {
		var list api.NotificationList
		if l.get("/api/v1/notifications", &list); len(list.Items[0].Alerts) != 1 || list.Items[0].Alerts[0].Text != cause {
			return fmt.Errorf("the alerts: %+v", list.Items[0].Alerts)
		}
		return nil
	}
	if err := l.await(told, l.list("")); err != nil {
		t.Error(err)
	}
	l.answer("web", "failure")
	l.tick(&p, "trigger")
	if s := l.summary(); s.Cause != "" || s.Last.Text != cause {
		t.Errorf("the page has the cause twice: %+v, %+v", s, s.Last)
	}
	l.answer("web", "success")
	for range 2 {
		l.tick(&l.list("")[0], "trigger")
	}
	if p := l.list("")[0]; p.State != "success" || p.Cause != "" {
		t.Errorf("at the end: %s by %q", p.State, p.Cause)
	}
}
