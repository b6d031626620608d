package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
)

// shopConfig has an endpoint with three checks, one of which is a push, and an endpoint with a check that does
// not exist.
const shopConfig = `
apiVersion: prober.dev/v1
kind: AgentConfig
targets:
- name: web
  probe: {httpGet: {path: /switch}, periodSeconds: 1, timeoutSeconds: 10}
  static: ["127.0.0.1:WEBPORT"]
- name: cache
  probe: {httpGet: {path: /ok}, periodSeconds: 1, timeoutSeconds: 10}
  static: ["127.0.0.1:WEBPORT"]
push:
- {name: backup, ttl: 25h, tokenFile: backup.token}
endpoints:
- name: shop
  atLeast: {min: 3, of: [web, cache, {check: backup, weight: 2}]}
- {name: either, any: [web, targets/gone]}
`

const (
	pushToken = "push-of-the-browser-tests"
	shopPage  = "#/probe/targets/shop/endpoint/readiness"
)

// push sends a report to the push.
func (a *agent) push(what string) {
	a.t.Helper()
	response, err := http.Post(a.url("push/"+pushToken+what), "", nil)
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		a.t.Fatalf("%s: %s", what, response.Status)
	}
}

// checkText returns an expression for the visible text of the row of a check.
func checkText(name string) string {
	return fmt.Sprintf(`([...document.querySelectorAll(".checks li")].find((e) => e.querySelector("b").innerText === %s)?.innerText ?? "").replace(/\s+/g, " ")`, quote(name))
}

// TestEndpointShowsItsChecks checks that the page of an endpoint has its rule and its checks, follows their
// states, and leads to the pages of its checks and back.
func TestEndpointShowsItsChecks(t *testing.T) {
	w := newTargets(t)
	w.up.Store(true)
	a := runAgent(t, prepare(t, map[string]string{"prober.yaml": w.fill(shopConfig), "backup.token": pushToken + "\n"}), "--config", "prober.yaml")
	b := open(t, a.url(""), desktop)
	b.wait(`proberCounts.success === 3 && proberCounts.unknown === 2`)
	var asked int
	if b.eval(`performance.getEntriesByType("resource").filter((e) => e.name.includes("/endpoints")).length`, &asked); asked != 0 {
		t.Errorf("the overview requests the endpoints %d times", asked)
	}
	b.click(fmt.Sprintf("a.item[href=%s]", quote(shopPage)))
	b.wait(`document.querySelectorAll(".checks li").length === 3 && document.querySelector("h1").innerText === "shop endpoint"`)
	b.wait(`document.querySelector(".checks p").innerText === "at least 3 of web, cache, backup (weight 2) must pass"`)
	b.wait(checkText("backup") + `.startsWith("backup unknown · weight 2 · decides")`)
	b.wait(checkText("cache") + `.startsWith("cache success") && !` + checkText("cache") + `.includes("decides")`)

	a.push("?result=failure&message=disk+full")
	b.wait(checkText("backup") + `.startsWith("backup failure · weight 2 · decides") && ` + checkText("backup") + `.endsWith("disk full")`)
	if cause := a.prober("get", "endpoints", "backup"); !strings.Contains(cause, "disk full") {
		t.Errorf("the client says %s", cause)
	}
	b.wait(`document.querySelector("[data-part=cause]").innerText.includes("1 of 3 checks fail: backup: disk full")`)
	b.shot("endpoint")
	t.Run("push", func(t *testing.T) { pushShowsItsReports(t, a, b) })
	t.Run("missing", func(t *testing.T) { missingCheckIsShown(t, a, b) })
	t.Run("accessible", func(t *testing.T) { entriesAreAccessible(t, b) })
}

// pushShowsItsReports comes from the page of the endpoint, by the keyboard.
func pushShowsItsReports(t *testing.T, a *agent, b *tab) {
	b.t = t
	b.tabTo(`.checks a[href*="/backup/"]`)
	b.press(kb.Enter)
	b.wait(`location.hash === "#/probe/targets/backup/push/readiness" && document.querySelector("h1").innerText === "backup push"`)
	const facts = `document.querySelector("section[aria-label=Reports] .facts")`
	b.wait(facts + `?.checkVisibility() && /Last report\s+\d+ s ago\s+Due\s+in 1 d 0 h\s+Message\s+disk full/.test(` + facts + `.innerText)`)
	b.wait(`/^\d\d:\d\d:\d\d$/.test(` + facts + `.querySelector("time").title)`)
	a.push("/start")
	b.wait(`/Run\s+started \d+ s ago/.test(` + facts + `.innerText)`)
	b.shot("push")
	b.tabTo(`.facts a[href*="/shop/endpoint/"]`)
	b.press(kb.Enter)
	b.wait(`document.querySelector("h1").innerText === "shop endpoint" && document.querySelectorAll(".checks li").length === 3`)
}

// missingCheckIsShown ends on the page of a check of two endpoints.
func missingCheckIsShown(t *testing.T, a *agent, b *tab) {
	b.t = t
	b.eval(`(location.hash = "#/probe/targets/either/endpoint/readiness", true)`, new(bool))
	b.wait(checkText("targets/gone") + ` === "targets/gone missing"`)
	b.click(".checks a.item")
	b.wait(`[...document.querySelectorAll(".facts dt")].find((e) => e.innerText === "Part of")?.nextSibling.innerText === "shop, either"`)
	b.wait(`!document.querySelector(".checks").checkVisibility()`)
}

// entriesAreAccessible runs axe-core on the pages of an endpoint and a push.
func entriesAreAccessible(t *testing.T, b *tab) {
	script := axe(t)
	for _, l := range []view{desktop, {1280, 800, true, false}, phone} {
		b.run(l.set())
		for _, v := range []struct{ hash, ready string }{
			{shopPage, `document.querySelectorAll(".checks li").length === 3`},
			{"#/probe/targets/backup/push/readiness", `document.querySelector("section[aria-label=Reports]").checkVisibility()`},
		} {
			b.t = t
			b.eval(fmt.Sprintf(`(location.hash = %s, true)`, quote(v.hash)), new(bool))
			b.wait(v.ready)
			b.audit(script, "")
			var wide bool
			if b.eval(`document.documentElement.scrollWidth > innerWidth`, &wide); wide {
				t.Errorf("%s is wider than %d", v.hash, l.width)
			}
			b.shot(fmt.Sprintf("entry-%d-dark=%v-%s", l.width, l.dark, strings.Split(v.hash, "/")[3]))
		}
	}
}

// TestManyChecksAreBounded checks the page of an endpoint of 1,000 checks: the checks that decide come first,
// few are shown before a button is pressed, and never more than 200.
func TestManyChecksAreBounded(t *testing.T) {
	f := startFake(t)
	f.probe("targets", "fleet", "endpoint", "readiness", "endpoint", "failure", time.Minute, 0, "1 of 1000 checks fail: host-990: down")
	var checks []object
	for i := range 1000 {
		state := "success"
		if i == 990 {
			state = "failure"
		}
		checks = append(checks, object{
			"name": fmt.Sprintf("host-%03d", i), "namespace": "targets", "pod": fmt.Sprint("host-", i), "container": "target", "kind": "readiness", "weight": 1, "decides": i == 990, "state": state,
		})
	}
	asked := make(chan string, 100)
	f.server.Config.Handler = withEndpoints(f.server.Config.Handler, asked, object{"namespace": "targets", "name": "fleet", "type": "endpoint", "state": "failure", "rule": "all of hosts", "checks": checks, "dependsOn": []string{"db", "network"}})
	b := open(t, f.server.URL+"/#/probe/targets/fleet/endpoint/readiness", desktop)
	b.wait(`document.querySelectorAll(".checks li").length === 12 && document.querySelector(".checks li b").innerText === "host-990"`)
	b.wait(`[...document.querySelectorAll(".checks p")].some((e) => e.innerText === "Depends on: db, network" && e.querySelector("a").getAttribute("href") === "#/probes?q=db")`)
	const button = `document.querySelector(".checks button")`
	b.wait(button + `.innerText === "200 of 1,000 checks" && ` + button + `.getAttribute("aria-expanded") === "false" && document.querySelector(".checks .more").innerText.endsWith("and 988 more")`)
	b.tabTo(".checks button")
	b.press(kb.Enter)
	b.wait(`document.querySelectorAll(".checks li").length === 200 && ` + button + `.getAttribute("aria-expanded") === "true" && document.querySelector(".checks .more").innerText.endsWith("and 800 more")`)
	b.shot("many-checks")
	b.press(kb.Enter)
	b.wait(`document.querySelectorAll(".checks li").length === 12 && document.activeElement === ` + button)
	if query := <-asked; query != "name=fleet&namespace=targets&type=endpoint" || len(asked) > 0 {
		t.Errorf("the page asked for %s, and %d times more", query, len(asked))
	}
}

// withEndpoints answers requests for endpoints, and tells their queries.
func withEndpoints(next http.Handler, asked chan<- string, items ...object) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("GET /api/v1/endpoints", func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Query().Encode()
		answer(w, object{"items": items})
	})
	return mux
}
