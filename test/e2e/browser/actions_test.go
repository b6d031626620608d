package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp/kb"
)

// switched is a pod with a probe that the test switches, and one that succeeds.
const switched = `
apiVersion: v1
kind: Pod
metadata: {name: shop}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    command: [sleep, "600"]
    readinessProbe: {httpGet: {host: 127.0.0.1, port: WEBPORT, path: /switch}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 2}
  - name: cache
    command: [sleep, "600"]
    livenessProbe: {httpGet: {host: 127.0.0.1, port: WEBPORT, path: /ok}, periodSeconds: SECONDS, timeoutSeconds: 10}
`

// startSwitched starts an agent. The probe of the container cache has a period of seconds.
func startSwitched(t testing.TB, seconds string) (*agent, *targets) {
	t.Helper()
	w := newTargets(t)
	w.up.Store(true)
	return runAgent(t, prepare(t, map[string]string{"pod.yaml": strings.Replace(w.fill(switched), "SECONDS", seconds, 1)}), "-f", "pod.yaml"), w
}

// TestStatesChangeLive checks that the page shows a changed state without a reload: in the counts, the list,
// the title and the icon, and for screen readers.
func TestStatesChangeLive(t *testing.T) {
	a, w := startSwitched(t, "1")
	b := open(t, a.url(""), desktop)
	b.wait(`document.querySelector(".calm")?.checkVisibility() && document.title === "prober" && document.querySelector("#icon").href.endsWith("success.svg")`)
	w.up.Store(false)
	b.wait(`document.querySelector(".tile[data-state=failure] strong").innerText === "1"`)
	b.wait(`document.querySelector("a.item[data-state=failure]").innerText.includes("HTTP probe failed with statuscode: 503")`)
	b.wait(`document.title === "(1) prober" && document.querySelector("#icon").href.endsWith("failure.svg")`)
	b.wait(`document.querySelector("#live").textContent.includes("default/shop/web/readiness is now failure")`)
	b.shot("live-failure")
	w.up.Store(true)
	b.wait(`document.querySelector(".calm")?.checkVisibility() && document.title === "prober"`)
}

// probeOf returns the state of a container's probe as the agent reports it.
func (a *agent) probeOf(container, kind string) (p struct {
	Paused              bool
	PauseReason, Result string
	Last                struct{ Time string }
}) {
	a.t.Helper()
	response, err := http.Get(a.url("api/v1/probes/default/shop/" + container + "/" + kind))
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&p); err != nil {
		a.t.Fatal(err)
	}
	return p
}

// tabTo presses Tab until an element has the focus.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	var there bool
	for range 80 {
		b.eval(fmt.Sprintf("document.activeElement?.matches(%s) ?? false", quote(selector)), &there)
		if there {
			return
		}
		b.press(kb.Tab)
	}
	b.t.Fatalf("Tab does not come to %s", selector)
}

// TestActionsByKeyboard opens the link that the agent prints, and triggers, pauses and resumes a probe,
// without a mouse.
func TestActionsByKeyboard(t *testing.T) {
	a, _ := startSwitched(t, "3600")
	b := open(t, a.url("#token="+a.token), desktop)
	b.wait(`location.hash === "#/" && !location.href.includes("token")`)
	b.press("/")
	b.wait(`document.activeElement?.type === "search" && location.hash.startsWith("#/probes")`)
	b.press("c", "a", "c", "h", "e")
	b.wait(`location.hash.includes("q=cache") && document.querySelector(".summary").innerText === "1 of 2 probes"`)
	b.press(kb.Escape)
	b.tabTo(".grid a.open")
	b.press(kb.Enter)
	b.wait(`location.hash === "#/probe/default/shop/cache/liveness"`)
	b.wait(`document.querySelector(".actions")?.checkVisibility()`)

	before := a.probeOf("cache", "liveness").Last.Time
	b.tabTo(".actions button")
	b.press(kb.Enter)
	b.wait(`document.querySelector(".actions .result").innerText === "An attempt is made now."`)
	b.wait(fmt.Sprintf(`fetch("api/v1/probes/default/shop/cache/liveness").then((r) => r.json()).then((p) => p.last.time !== %s)`, quote(before)))

	b.tabTo(".actions button:nth-of-type(2)") // Pause…
	b.press(kb.Enter)
	b.wait(`document.activeElement?.matches(".pause input")`)
	b.press("1", "h", kb.Tab, "d", "b", " ", "m", "o", "v", "e", "s", kb.Enter)
	b.wait(`document.querySelector(".head-state").innerText.includes("db moves")`)
	if p := a.probeOf("cache", "liveness"); !p.Paused || p.PauseReason != "db moves" {
		t.Errorf("got %+v", p)
	}
	if text := b.text("[data-part=summary]"); !strings.HasPrefix(text, "paused by") {
		t.Errorf("the page says %q", text)
	}
	b.shot("paused")
	b.wait(`document.activeElement?.innerText === "Resume"`) // the new button has the focus
	b.press(kb.Enter)
	b.wait(`!document.querySelector(".head-state").innerText.includes("paused")`)
	if p := a.probeOf("cache", "liveness"); p.Paused {
		t.Errorf("got %+v", p)
	}
}

// TestActionsNeedToken checks that the buttons say that they need a token, and that the page shows the
// agent's error for a wrong one.
func TestActionsNeedToken(t *testing.T) {
	a, _ := startSwitched(t, "3600")
	b := open(t, a.url("#/probe/default/shop/cache/liveness"), desktop)
	b.wait(`document.querySelector(".actions button:disabled")?.checkVisibility()`)
	if text := b.text(".actions"); !strings.Contains(text, "Actions need the agent's token") {
		t.Errorf("the page says %q", text)
	}
	b.tabTo(".actions input[type=password]")
	b.press("w", "r", "o", "n", "g", kb.Enter)
	b.wait(`!document.querySelector(".actions button").disabled`)
	b.press(kb.Enter)
	b.wait(`document.querySelector(".actions .result").innerText.includes("token")`)
	b.wait(`document.querySelector(".actions button").disabled`)
	b.tabTo(".actions input[type=password]")
	b.press(strings.Split(a.token, "")...)
	b.press(kb.Enter, kb.Enter)
	b.wait(`document.querySelector(".actions .result").innerText === "An attempt is made now."`)
}

// TestReconnectsAfterRestart checks that the page reads a new stream after a restart of the agent.
func TestReconnectsAfterRestart(t *testing.T) {
	a, w := startSwitched(t, "1")
	b := open(t, a.url("#/probes"), desktop)
	b.wait(`document.querySelectorAll(".grid .space a.open[href]").length === 2 && document.querySelector("#link").dataset.link === "live"`)
	a.stop()
	b.wait(`document.querySelector("#link-text").innerText === "reconnecting" && document.title.includes("reconnecting")`)
	b.wait(`document.querySelector("#icon").href.endsWith("unknown.svg")`)
	b.shot("reconnecting")
	w.up.Store(false)
	a.start()
	b.wait(`document.querySelector("#link").dataset.link === "live"`)
	b.wait(`document.querySelector(".cell.state[data-state=failure]")?.innerText === "failure"`)
	b.wait(`proberCounts.failure === 1 && proberCounts.success === 1`)
}

// TestViewsHaveAddresses checks that each view has its own address, and that the back button works.
func TestViewsHaveAddresses(t *testing.T) {
	a, _ := startSwitched(t, "1")
	b := open(t, a.url("#/probes?q=shop&kind=liveness&sort=name"), desktop)
	b.wait(`document.querySelector(".summary")?.innerText === "1 of 2 probes"`)
	b.wait(`document.querySelector("input[type=search]").value === "shop" && document.querySelector("select").value === "liveness"`)
	b.click(`.chip[data-state=failure]`)
	b.wait(`location.hash.includes("state=failure") && document.querySelector(".frame .none").checkVisibility()`)
	b.eval(`(history.back(), true)`, new(bool))
	b.wait(`!location.hash.includes("state=") && document.querySelector(".summary").innerText === "1 of 2 probes"`)
	b.click(`.grid a.open`)
	b.wait(`document.querySelector("h1")?.innerText.startsWith("cache")`)
	b.eval(`(history.back(), true)`, new(bool))
	b.wait(`document.querySelector("input[type=search]")?.value === "shop" && document.querySelector(".summary").innerText === "1 of 2 probes"`)
	b.eval(`(history.forward(), true)`, new(bool))
	b.wait(`document.querySelector("h1")?.innerText.startsWith("cache")`)
	for _, key := range []struct{ key, title string }{{"p", "Probes"}, {"d", "Pods"}, {"t", "Targets"}, {"l", "Plugins"}, {"e", "Events"}, {"a", "Availability"}, {"w", "Wall"}} {
		b.press("g", key.key)
		b.wait(fmt.Sprintf(`document.title.includes(%s)`, quote(key.title)))
	}
	b.press("?")
	b.wait(`document.querySelector("dialog[open]")?.innerText.includes("search")`)
	b.press(kb.Escape)
	b.wait(`!document.querySelector("dialog[open]")`)
}

// TestHiddenTabDrawsNothing checks that a hidden tab draws nothing, and shows the current state when it
// becomes visible.
func TestHiddenTabDrawsNothing(t *testing.T) {
	a, w := startSwitched(t, "1")
	back := open(t, a.url("#/probes"), desktop)
	back.wait(`proberCounts.success === 2`)
	front := open(t, a.url(""), desktop)
	back.run(emulation.SetFocusEmulationEnabled(false))
	back.wait(`document.hidden`)
	back.eval(`(globalThis.drawn = 0, new MutationObserver((all) => drawn += all.length).observe(document.querySelector("main"), {subtree: true, childList: true, attributes: true, characterData: true}), true)`, new(bool))
	w.up.Store(false)
	back.wait(`proberCounts.failure === 1 && document.title.startsWith("(1)")`)
	var drawn int
	if back.eval(`drawn`, &drawn); drawn != 0 {
		t.Errorf("%d changes of a hidden page", drawn)
	}
	front.wait(`document.querySelector("a.item[data-state=failure]")`)
	back.run(page.BringToFront())
	back.wait(`!document.hidden && document.querySelector(".cell.state[data-state=failure]")`)
}
