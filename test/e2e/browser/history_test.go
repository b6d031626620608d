package browser

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"context"
)

// remembered has a pod whose probe fails and recovers, one that never fails, and a hostile one.
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

// receiver is a webhook. It keeps the messages that it is sent.
func receiver(t testing.TB, status int) (url string, messages <-chan message) {
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

// message is what a receiver gets.
type message struct {
	Status string
	Probes []struct{ Pod, Container, Status, URL string }
}

// waitURL waits for a message that a probe fails, and returns the link in it.
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

// report is what `prober report -o json` prints.
type report struct {
	Since, Until time.Time
	Items        []struct {
		Namespace, Pod, Container, Kind string
		Uptime                          *float64
		Seconds                         struct{ Failure, Unknown float64 }
		IncidentCount                   int
		LongestSeconds                  float64
		Incidents                       []struct {
			Start, End      time.Time
			DurationSeconds float64
			Reason, Text    string
		}
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

// waitIncident waits until so many incidents of a container are known, of which the last lasts on or is over.
func (a *agent) waitIncident(container string, count int, over bool) {
	a.t.Helper()
	for end := time.Now().Add(patience); ; {
		for _, i := range a.report().Items {
			if i.Container == container && i.IncidentCount == count && i.Incidents[0].End.IsZero() != over {
				return
			}
		}
		if time.Now().After(end) {
			a.t.Fatalf("%s has not %d incidents, the last over: %v\n%s", container, count, over, a.prober("report", "--incidents"))
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// startRemembered starts an agent that has a history of incidents, of before a restart and after it, and
// returns the link of a message.
func startRemembered(t *testing.T) (a *agent, link string) {
	w := newTargets(t)
	w.up.Store(true)
	url, messages := receiver(t, http.StatusOK)
	dir := prepare(t, map[string]string{
		"pods/pod.yaml": w.fill(remembered), "prober.yaml": w.fill(rememberedConfig), "hostile.sh": "cat hostile.txt; exit 1\n", "hostile.txt": hostile,
	})
	a = runAgent(t, dir, "-f", "pods", "--config", "prober.yaml", "--state-dir", "state")
	a.waitIncident("shout", 1, false)
	a.waitLine(`steady`)
	w.up.Store(false)
	a.waitIncident("flaps", 1, false)
	a.waitIncident("target", 1, false)
	w.up.Store(true)
	a.waitIncident("flaps", 1, true)
	a.waitIncident("target", 1, true)
	a.stop()
	write(t, dir+"/prober.yaml", w.fill(rememberedConfig)+fmt.Sprintf("notify:\n  externalURL: http://%s/\n  receivers:\n  - {name: hook, groupWait: 1s, groupInterval: 1s, webhook: {url: %q}}\n", a.addr, url))
	a.start()
	w.up.Store(false)
	a.waitIncident("flaps", 2, false)
	a.waitIncident("target", 2, false)
	return a, waitURL(t, messages, "flaps")
}

// TestHistory looks at what a real agent has kept.
func TestHistory(t *testing.T) {
	a, link := startRemembered(t)
	t.Run("availability is that of the report", func(t *testing.T) { availabilityIsThatOfTheReport(t, a) })
	t.Run("link of a message", func(t *testing.T) { linkOfAMessage(t, a, link) })
	for i, r := range []string{"24 hours", "7 days", "30 days"} {
		b := open(t, a.url("#/probe/default/shop/flaps/readiness"), desktop)
		b.wait(`document.querySelector("section[aria-label=History]")?.checkVisibility()`)
		b.eval(fmt.Sprintf(`([...document.querySelectorAll("section[aria-label=History] .chip")][%d].click(), true)`, i), new(bool))
		time.Sleep(time.Second)
		b.eval(`(document.querySelector("section[aria-label=History]").scrollIntoView(), true)`, new(bool))
		b.shot("x-history-" + strings.ReplaceAll(r, " ", ""))
		fmt.Println(b.text("section[aria-label=History]"))
	}
}

func linkOfAMessage(t *testing.T, a *agent, link string) {
	b := open(t, link, desktop)
	b.wait(`document.querySelector("h1").innerText === "flaps readiness"`)
}

// replies returns the bodies of what a tab gets from a path, as they come.
func (b *tab) replies(path string) <-chan []byte {
	bodies := make(chan []byte, 100)
	chromedp.ListenTarget(b.ctx, func(event any) {
		e, ok := event.(*network.EventResponseReceived)
		_ = e
		_ = ok
	})
	return bodies
}

func availabilityIsThatOfTheReport(t *testing.T, a *agent) {
	b := open(t, a.url("#/availability"), desktop)
	b.wait(`document.querySelectorAll(".space a.open[href]").length >= 4`)
	b.shot("x-availability")
	fmt.Println(b.text("main"))
	fmt.Println(a.prober("report", "-o", "wide"))
	fmt.Println(a.prober("report", "--incidents"))
	fmt.Println(a.prober("get", "probes", "shop/flaps", "-o", "json"))
}

var _ = cdp.WithExecutor
var _ = math.Floor
var _ = context.Background
