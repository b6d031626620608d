package browser

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// remembered is a pod with a probe that fails and recovers, and with a hostile target.
const remembered = `
apiVersion: v1
kind: Pod
metadata: {name: shop}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: flaps
    command: [sleep, "600"]
    readinessProbe: {httpGet: {host: 127.0.0.1, port: WEBPORT, path: /switch}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 1}
  - name: shout
    command: [sleep, "600"]
    readinessProbe: {exec: {command: [sh, hostile.sh]}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 1}
`

// rememberedConfig has a target that never fails, and one that fails and recovers.
const rememberedConfig = `
apiVersion: prober.dev/v1
kind: AgentConfig
targets:
- name: steady
  probe: {httpGet: {path: /ok}, period: 1s, timeout: 30s}
  static: ["127.0.0.1:WEBPORT"]
- name: sites
  probe: {httpGet: {path: /switch}, period: 1s, timeout: 30s, failureThreshold: 1}
  static: ["127.0.0.1:WEBPORT"]
`

// patient is a further target with a high failure threshold.
const patient = `- name: patient
  probe: {httpGet: {path: /down}, period: 1s, timeout: 30s, failureThreshold: 1000}
  static: ["127.0.0.1:WEBPORT"]
`

// refusing is a config with failing targets and a receiver that refuses messages.
const refusing = `
apiVersion: prober.dev/v1
kind: AgentConfig
targets:
- name: hosts
  probe: {tcpSocket: {}, period: 1s, timeout: 30s}
  static: %s
notify:
  receivers:
  - {name: hook, groupWait: 1s, webhook: {url: %q}}
`

// message is a message to a receiver.
type message struct {
	Status string
	Probes []struct{ Container, Status, URL string }
}

// newReceiver starts a webhook that answers with a status. It returns its URL and the messages that it gets.
func newReceiver(t testing.TB, status int) (url string, messages <-chan message) {
	t.Helper()
	got := make(chan message, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m message
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Errorf("a message that is no JSON: %v", err)
		}
		w.WriteHeader(status)
		got <- m
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}

// waitURL waits for a message about a failing probe, and returns the link in it.
func waitURL(t testing.TB, messages <-chan message, container string) string {
	t.Helper()
	for limit := time.After(patience); ; {
		select {
		case m := <-messages:
			for _, p := range m.Probes {
				if p.Container == container && p.Status == "failing" {
					return p.URL
				}
			}
		case <-limit:
			t.Fatalf("no message about %s", container)
		}
	}
}

// report is the output of `prober report -o json`.
type report struct {
	Since, Until time.Time
	Items        []reportItem
}

type reportItem struct {
	Namespace, Pod, Container, Kind string
	Uptime                          *float64
	Seconds                         struct{ Success, Warning, Failure, Unknown float64 }
	IncidentCount                   int
	LongestSeconds                  float64
	Incidents                       []struct {
		Start, End      time.Time
		DurationSeconds float64
		Reason, Text    string
	}
}

func (a *agent) report(args ...string) (r report) {
	a.t.Helper()
	text := a.prober(append([]string{"report", "--incidents", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		a.t.Fatalf("prober report: %v\n%s", err, text)
	}
	return r
}

// waitIncident waits until a pod's container has count incidents, and the last of them is over or not.
func (a *agent) waitIncident(pod, container string, count int, over bool) {
	a.t.Helper()
	for end := time.Now().Add(patience); ; {
		for _, i := range a.report().Items {
			if strings.HasPrefix(i.Pod, pod) && i.Container == container && i.Uptime != nil && i.IncidentCount == count && (count == 0 || i.Incidents[0].End.IsZero() != over) {
				return
			}
		}
		if time.Now().After(end) {
			a.t.Fatalf("%s %s has not %d incidents, of which the last is over: %v\n%s", pod, container, count, over, a.prober("report", "--incidents"))
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// startRemembered starts an agent with a history of incidents before and after a restart. link is the link of
// a message.
func startRemembered(t *testing.T) (a *agent, link string) {
	w := newTargets(t)
	w.up.Store(true)
	url, messages := newReceiver(t, http.StatusOK)
	dir := prepare(t, map[string]string{
		"pods/pod.yaml": w.fill(remembered), "prober.yaml": w.fill(rememberedConfig), "hostile.sh": "cat hostile.txt; exit 1\n", "hostile.txt": hostile,
	})
	a = runAgent(t, dir, "-f", "pods", "--config", "prober.yaml", "--state-dir", "state")
	a.waitIncident("shop", "shout", 1, false)
	a.waitIncident("shop", "flaps", 0, true)
	a.waitIncident("sites", "target", 0, true)
	a.waitIncident("steady", "target", 0, true)
	w.up.Store(false)
	a.waitIncident("shop", "flaps", 1, false)
	a.waitIncident("sites", "target", 1, false)
	w.up.Store(true)
	a.waitIncident("shop", "flaps", 1, true)
	a.waitIncident("sites", "target", 1, true)
	a.stop()
	write(t, dir+"/prober.yaml", w.fill(rememberedConfig)+fmt.Sprintf("notify:\n  externalURL: http://%s/\n  receivers:\n  - {name: hook, groupWait: 1s, groupInterval: 1s, webhook: {url: %q}}\n", a.addr, url))
	w.up.Store(false)
	a.start()
	a.waitIncident("shop", "flaps", 2, false)
	a.waitIncident("sites", "target", 2, false)
	return a, waitURL(t, messages, "flaps")
}

// TestHistory tests the history of a real agent.
func TestHistory(t *testing.T) {
	a, link := startRemembered(t)
	t.Run("availability is that of prober report", func(t *testing.T) { availabilityMatchesReport(t, a) })
	t.Run("link of a message opens the probe", func(t *testing.T) { linkOpensTheProbe(t, a, link) })
	t.Run("hostile texts are harmless", func(t *testing.T) { hostileHistoryIsHarmless(t, a) })
}

// cells returns the expected cells of a line of the view.
func (i *reportItem) cells() []string {
	whole := func(seconds float64) string {
		switch s := int(seconds); {
		case seconds == 0:
			return "–"
		case s < 60:
			return fmt.Sprintf("%d s", s)
		case s < 600:
			return fmt.Sprintf("%d min %02d s", s/60, s%60)
		default:
			return fmt.Sprintf("%d min", s/60)
		}
	}
	uptime := "100 %"
	if *i.Uptime < 1 {
		uptime = fmt.Sprintf("%.3f %%", math.Floor(*i.Uptime*100_000)/1000)
	}
	name := i.Namespace + "/" + i.Pod
	if i.Container != "target" { // the name of a target's pod says all
		name += " " + i.Container
	}
	return []string{
		name + " " + i.Kind, uptime, whole(i.Seconds.Success + i.Seconds.Warning + i.Seconds.Failure), fmt.Sprint(i.IncidentCount),
		whole(i.Seconds.Failure), whole(i.LongestSeconds), whole(i.Seconds.Unknown),
	}
}

// availabilityMatchesReport compares the numbers of the view with the client's for the same time interval,
// which the request of the page has.
func availabilityMatchesReport(t *testing.T, a *agent) {
	b := open(t, a.url("#/"), desktop)
	answers := b.answers("api/v1/report")
	for _, since := range []string{"24h", "7d", "30d"} {
		b.eval(fmt.Sprintf(`(location.hash = "#/availability?since=%s", true)`, since), new(bool))
		var asked report
		if err := json.Unmarshal(waitAnswer(t, answers, "since="+since), &asked); err != nil {
			t.Fatal(err)
		}
		want := a.report("--since", asked.Since.Format(time.RFC3339Nano), "--until", asked.Until.Format(time.RFC3339Nano))
		if len(want.Items) != 4 {
			t.Fatalf("%d probes in %+v", len(want.Items), want)
		}
		for _, item := range want.Items {
			compareLine(t, b, &item)
		}
	}
	b.shot("availability-real")
}

// compareLine compares a line of the view with an item.
func compareLine(t *testing.T, b *tab, item *reportItem) {
	t.Helper()
	cells := item.cells()
	find := fmt.Sprintf(`[...document.querySelectorAll(".grid.availability .space .line")].find((l) => l.querySelector(".name").textContent === %s)`, quote(cells[0]))
	b.wait(fmt.Sprintf(`%s?.querySelectorAll(".cell")[1].textContent === %s`, find, quote(cells[1])))
	var got []string
	b.eval(fmt.Sprintf(`[...%s.querySelectorAll(".cell")].map((c) => c.innerText)`, find), &got)
	for i, want := range cells[1:] {
		if got[i+1] != want {
			t.Errorf("%s: %q, want %q", cells[0], got[i+1], want)
		}
	}
	last := got[len(got)-1]
	if len(item.Incidents) == 0 {
		if last != "" {
			t.Errorf("%s: incident %q", cells[0], last)
		}
		return
	}
	if i := item.Incidents[0]; !strings.Contains(last, i.Start.Format(time.TimeOnly)) || !strings.Contains(last, "lasts on: "+i.Reason+" ") ||
		item.Container != "shout" && !strings.HasSuffix(last, i.Text) {
		t.Errorf("%s: incident %q, want %+v", cells[0], last, i)
	}
}

// answered is a response that a page has received.
type answered struct {
	url  string
	body []byte
}

// answers returns a channel of the responses from URLs that contain part.
func (b *tab) answers(part string) <-chan answered {
	all := make(chan answered, 100)
	urls := map[network.RequestID]string{} // only used by the goroutine of the events
	chromedp.ListenTarget(b.ctx, func(event any) {
		switch e := event.(type) {
		case *network.EventResponseReceived:
			if strings.Contains(e.Response.URL, part) {
				urls[e.RequestID] = e.Response.URL
			}
		case *network.EventLoadingFinished:
			if url, ok := urls[e.RequestID]; ok {
				go func() {
					body, err := network.GetResponseBody(e.RequestID).Do(cdp.WithExecutor(b.ctx, chromedp.FromContext(b.ctx).Target))
					if err == nil {
						all <- answered{url, body}
					}
				}()
			}
		}
	})
	return all
}

// waitAnswer waits for a response from a URL that ends with suffix, and returns its body.
func waitAnswer(t testing.TB, answers <-chan answered, suffix string) []byte {
	t.Helper()
	for limit := time.After(patience); ; {
		select {
		case a := <-answers:
			if strings.HasSuffix(a.url, suffix) {
				return a.body
			}
		case <-limit:
			t.Fatalf("the page does not ask for %s", suffix)
		}
	}
}

// linkOpensTheProbe checks that the link of a message opens the page of the probe, with its history.
func linkOpensTheProbe(t *testing.T, a *agent, link string) {
	if want := a.url("#/probe/default/shop/flaps/readiness"); link != want {
		t.Errorf("the message links to %s, want %s", link, want)
	}
	b := open(t, link, desktop)
	const part = `document.querySelector("section[aria-label=History]")`
	b.wait(`document.querySelector("h1").innerText === "flaps readiness"`)
	answers := b.answers("/history?")
	for i, since := range []string{"7d", "30d", "24h"} {
		b.eval(fmt.Sprintf(`(%s.querySelectorAll(".chip")[%d].click(), true)`, part, (i+1)%3), new(bool))
		waitAnswer(t, answers, "since="+since)
		b.wait(part + `?.checkVisibility()`)
		b.wait(part + `.querySelectorAll("svg.chart rect.failure").length > 0`)
		b.wait(`/Uptime \d+\.\d{3} % · 2 incidents, down for [^·]+, the longest [^·]+ · since/.test(` + part + `.innerText)`)
		changes := `[...` + part + `.querySelectorAll(".changes li")].map((l) => l.querySelector(".badge").innerText).join(" ")`
		b.wait(changes + ` === "failure unknown absent success failure success unknown"`)
		b.wait(part + `.innerText.includes("http_status: HTTP probe failed with statuscode: 503")`)
	}
	b.wait(durationsOf + `.querySelectorAll("rect.heat-cell").length >= 4`)
	b.wait(`[...` + durationsOf + `.querySelectorAll(".percentiles tbody th")].map((e) => e.innerText).join() === "whole tick,connect,first byte,body"`)
	b.eval(fmt.Sprintf(`(%s.scrollIntoView(), true)`, part), new(bool))
	b.shot("history-real")
}

func hostileHistoryIsHarmless(t *testing.T, a *agent) {
	for _, l := range []view{desktop, phone} {
		for _, v := range []struct{ hash, in string }{
			{"#/availability", `document.querySelector("main")`}, {"#/probe/default/shop/shout/readiness", `document.querySelector("section[aria-label=History]")`},
		} {
			b := open(t, a.url(v.hash), l)
			b.wait(fmt.Sprintf(`%s?.innerText.includes("<script>alert(1)</script><img src=x onerror=alert(2)>␛[31mred")`, v.in))
			var bad bool
			b.eval(fmt.Sprintf(`Boolean(%s.querySelector("script, img, [onerror]") || /[\u202a-\u202e\u2066-\u2069\u001b]/.test(%s.textContent))`, v.in, v.in), &bad)
			if bad {
				t.Errorf("%s: the text of a target is more than text", v.hash)
			}
			b.check()
		}
	}
}

// TestNoHistory checks that without a state directory the view says how to enable the history, and a probe's
// page has no history.
func TestNoHistory(t *testing.T) {
	w := newTargets(t)
	a := runAgent(t, prepare(t, map[string]string{"prober.yaml": w.fill(rememberedConfig)}), "--config", "prober.yaml")
	b := open(t, a.url("#/availability"), desktop)
	b.wait(`document.querySelector(".note")?.innerText.includes("keeps no history") && document.querySelector(".note pre").innerText.includes("--state-dir")`)
	b.wait(`!document.querySelector(".grid.availability").checkVisibility()`)
	b.shot("availability-none")
	b = open(t, a.url("#/probe/targets/steady-127-0-0-1-"+w.webPort()+"/target/readiness"), desktop)
	b.wait(`document.querySelector(".ticks details")`)
	b.wait(`!document.querySelector("section[aria-label=History]").checkVisibility()`)
	b.wait(`!` + durationsOf + `.checkVisibility() && !` + compareOf + `.checkVisibility()`)
}

// TestRunsOfTicks checks that a tick shows the threshold while its run is below it.
func TestRunsOfTicks(t *testing.T) {
	w := newTargets(t)
	a := runAgent(t, prepare(t, map[string]string{"prober.yaml": w.fill(rememberedConfig + patient)}), "--config", "prober.yaml")
	for name, pattern := range map[string]string{"patient": `^failure \d+ of 1000$`, "sites": `^failure \d+(: unknown → failure|: failure → failure)?$`} {
		b := open(t, a.url("#/probe/targets/"+name+"-127-0-0-1-"+w.webPort()+"/target/readiness"), desktop)
		b.wait(`document.querySelectorAll(".ticks .counted").length > 2`)
		var texts []string
		b.eval(`[...document.querySelectorAll(".ticks .counted")].map((e) => e.innerText)`, &texts)
		for _, text := range texts {
			if !regexp.MustCompile(pattern).MatchString(text) {
				t.Errorf("%s: %q, want %s", name, text, pattern)
			}
		}
	}
}

// TestAgentProblemsAreShown checks that the wall and the overview show problems of the agent itself: a
// receiver that refuses messages, and a history that cannot be written. On the wall, which is not scrolled,
// many failures must not push them off the screen.
func TestAgentProblemsAreShown(t *testing.T) {
	var hosts []string
	for i := range 30 {
		hosts = append(hosts, fmt.Sprintf("127.0.1.%d:1", i+1))
	}
	list, err := json.Marshal(hosts)
	if err != nil {
		t.Fatal(err)
	}
	url, _ := newReceiver(t, http.StatusBadRequest)
	a := runAgent(t, prepare(t, map[string]string{
		"prober.yaml":   fmt.Sprintf(refusing, list, url),
		"state/history": "a file where the folder of the history must be",
	}), "--config", "prober.yaml", "--state-dir", "state")
	for _, hash := range []string{"#/wall", "#/"} {
		b := open(t, a.url(hash), view{1600, 900, true, false})
		b.wait(`[...document.querySelectorAll(".item")].some((i) => /receiver hook\s+agent[^]*not delivered since .*400/.test(i.innerText) && i.dataset.state === "warning")`)
		b.wait(`[...document.querySelectorAll(".item")].some((i) => /history\s+agent[^]*not a directory/.test(i.innerText) && i.dataset.state === "warning")`)
		b.wait(`proberCounts.failure === 30 && document.querySelectorAll(".item[data-state=failure]").length >= 14`)
		if hash == "#/wall" {
			b.wait(`[...document.querySelectorAll(".item[data-state=warning]")].every((i) => i.getBoundingClientRect().bottom < innerHeight)`)
		}
		b.shot("trouble" + strings.ReplaceAll(hash, "#/", "-"))
	}
}
