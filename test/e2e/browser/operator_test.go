package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// TestOverviewLeadsWithNames checks the rows of the overview: the name of the target or pod, its target,
// the duration and the cause, on one line at 1440 pixels.
func TestOverviewLeadsWithNames(t *testing.T) {
	f := startFake(t)
	f.probe("shop", "sites-checkout", "target", "readiness", "http", "failure", 47*time.Minute, 0.1, "HTTP probe failed with statuscode: 503")["target"] = "GET https://checkout.shop.example/healthz"
	b := open(t, f.server.URL+"/", view{1440, 900, false, false})
	b.wait(`document.querySelectorAll(".rows a.item").length === 6`)
	type row struct {
		Bold, Text string
		Height     float64
	}
	rows := map[string]row{}
	var text string
	b.eval(`JSON.stringify(Object.fromEntries([...document.querySelectorAll(".rows a.item")].map((r) => [r.querySelector("b").textContent,
		{Bold: [...r.querySelectorAll("b, strong")].map((n) => n.textContent).join(), Text: [...r.children].map((n) => n.innerText.trim()).filter(Boolean).join(" | "), Height: r.getBoundingClientRect().height}])))`, &text)
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"sites-checkout": "failure | shop/sites-checkout | GET https://checkout.shop.example/healthz | 47 min | HTTP probe failed with statuscode: 503",
		"invoices":       "warning | billing/invoices worker | liveness · nagios-queue | 17 min | QUEUE WARNING: 412 waiting, limit 400",
	} {
		if got := rows[name]; got.Text != want || got.Bold != name {
			t.Errorf("%s: %q, bold %q; want %q", name, got.Text, got.Bold, want)
		}
	}
	for name, r := range rows {
		if r.Height > 40 {
			t.Errorf("the row of %s is %v pixels high: its texts wrap", name, r.Height)
		}
	}
	b.shot("overview-rows")
}

// manySites adds probes of targets that succeed, with durations that grow.
func (f *fake) manySites(n int) {
	for i := range n {
		p := f.probe("targets", fmt.Sprintf("many-%03d", i), "target", "readiness", "http", "success", time.Duration(i+1)*time.Hour, 0.001*float64(i+1), "ok")
		p["target"] = fmt.Sprintf("GET https://many-%03d.example/", i)
	}
}

// names is an expression with the names of the rows on the screen, from top to bottom.
const names = `[...document.querySelectorAll(".space > .line:not([hidden])")].sort((a, b) => a.getAttribute("aria-rowindex") - b.getAttribute("aria-rowindex")).map((l) => l.querySelector("b").textContent).join()`

// TestHeadersSort clicks on headers. The order must be in the address, and undone by the back button.
func TestHeadersSort(t *testing.T) {
	f := startFake(t)
	f.manySites(9)
	b := open(t, f.server.URL+"/#/probes?q=many", desktop)
	up, down := "many-000,many-001,many-002,many-003,many-004,many-005,many-006,many-007,many-008", "many-008,many-007,many-006,many-005,many-004,many-003,many-002,many-001,many-000"
	ordered := func(address, sort, want string) {
		t.Helper()
		b.wait(names + ` === ` + quote(want))
		b.wait(`location.hash.includes(` + quote(address) + `) && [...document.querySelectorAll("[aria-sort]")].map((n) => n.innerText + " " + n.getAttribute("aria-sort")).join() === ` + quote(sort))
	}
	ordered("#/probes?q=many", "State ascending", up)
	b.click(".head .took .order")
	ordered("sort=duration", "Took descending", down)
	b.click(".head .took .order")
	ordered("sort=-duration", "Took ascending", up)
	b.click(".head .probe .order")
	b.click(".head .probe .order")
	ordered("sort=-name", "Probe descending", down)
	b.eval(`(history.back(), history.back(), history.back(), true)`, new(bool))
	ordered("sort=duration", "Took descending", down)
}

// TestListsHoldStill changes the state of a probe while the pointer is on a row: rows must stay in their places
// until the pointer leaves.
func TestListsHoldStill(t *testing.T) {
	f := startFake(t)
	f.manySites(9)
	fail := func(i int) {
		p := maps.Clone(f.probes[len(f.probes)-9+i])
		p["state"], p["result"] = "failure", "failure"
		f.later <- frame{"probe", p}
	}
	at := func(b *tab, selector string) chromedp.Action {
		b.wait(`document.querySelector(` + quote(selector) + `)`)
		var x, y float64
		b.eval(`document.querySelector(`+quote(selector)+`).getBoundingClientRect().x + 20`, &x)
		b.eval(`document.querySelector(`+quote(selector)+`).getBoundingClientRect().y + 10`, &y)
		return chromedp.MouseEvent(input.MouseMoved, x, y)
	}
	b := open(t, f.server.URL+"/#/probes?q=many", desktop)
	b.wait(names + `.startsWith("many-000,many-001")`)
	b.run(at(b, ".space > .line:not([hidden])"))
	fail(5)
	b.wait(`proberCounts.failure === 3 && document.querySelector(".space .cell.state[data-state=failure]")`)
	b.wait(names + `.startsWith("many-000,many-001")`)
	b.run(at(b, ".brand"))
	b.wait(names + `.startsWith("many-005,many-000")`)

	b.eval(`(location.hash = "#/", true)`, new(bool))
	failing := `[...document.querySelectorAll(".rows")[0].querySelectorAll("b")].map((n) => n.textContent).join()`
	b.wait(failing + ` === "ledger,checkout,many-005"`)
	b.run(at(b, ".rows a.item"))
	fail(0)
	b.wait(failing + ` === "ledger,checkout,many-005,many-000"`)
	b.run(at(b, ".brand"))
	b.wait(failing + ` === "ledger,checkout,many-000,many-005"`)
}

// TestListKeepsPlace opens a row far below, and goes back.
func TestListKeepsPlace(t *testing.T) {
	f := startFake(t)
	f.manySites(300)
	b := open(t, f.server.URL+"/#/probes?q=many&sort=name", desktop)
	b.wait(names + `.startsWith("many-000")`)
	b.eval(`(document.querySelector(".scroll").scrollTop = 5000, true)`, new(bool))
	b.wait(names + `.includes("many-150")`)
	b.eval(`(document.activeElement.blur(), document.querySelector('a.open[href*="many-150"]').focus({preventScroll: true}), document.activeElement.click(), true)`, new(bool))
	b.wait(`document.querySelector(".probe-view")`)
	b.eval(`(history.back(), true)`, new(bool))
	b.wait(`document.querySelector(".scroll")?.scrollTop === 5000 && document.activeElement.href?.includes("many-150")`)
	b.click(`nav a[data-name=pods]`)
	b.click(`nav a[data-name=probes]`)
	b.wait(`location.hash === "#/probes" && document.querySelector(".scroll").scrollTop === 0`)
}

// TestPrintHasAllRows prints a table of which the screen has a part.
func TestPrintHasAllRows(t *testing.T) {
	f := startFake(t)
	f.manySites(300)
	b := open(t, f.server.URL+"/#/probes?q=many&sort=name", desktop)
	b.wait(names + `.startsWith("many-000") && document.querySelector(".summary").innerText === "300 of 322 probes"`)
	var before, after int
	b.eval(`document.querySelectorAll(".space > .line").length`, &before)
	b.eval(`(addEventListener("afterprint", () => { window.printed = true; }), addEventListener("beforeprint", () => { window.onPaper = [...document.querySelectorAll(".space > .line:not([hidden]) b")].map((n) => n.textContent).join(); }), true)`, new(bool))
	var pages int
	b.run(chromedp.ActionFunc(func(ctx context.Context) error {
		pdf, _, err := page.PrintToPDF().Do(ctx)
		pages = len(regexp.MustCompile(`/Type\s*/Page\b`).FindAll(pdf, -1))
		return err
	}))
	b.wait(`window.printed`)
	var want []string
	for i := range 300 {
		want = append(want, fmt.Sprintf("many-%03d", i))
	}
	var got string
	if b.eval(`window.onPaper`, &got); got != strings.Join(want, ",") {
		t.Errorf("%d rows are printed, in this order: %s", 1+strings.Count(got, ","), got)
	}
	if pages < 5 { // of about 55 rows each
		t.Errorf("300 rows are printed on %d pages", pages)
	}
	if b.eval(`document.querySelectorAll(".space > .line").length`, &after); after > before+24 {
		t.Errorf("%d rows exist after printing, %d before", after, before)
	}
}

// TestSearchesAndGroupsByLabel types selectors as kubectl has them, and groups by a label.
func TestSearchesAndGroupsByLabel(t *testing.T) {
	f := startFake(t)
	for _, p := range f.pods {
		switch p["namespace"] {
		case "shop":
			p["labels"] = object{"team": "shop", "tier": map[bool]string{true: "front", false: "back"}[strings.HasPrefix(p["name"].(string), "web")]}
		case "billing":
			p["labels"] = object{"team": "money"}
		}
	}
	b := open(t, f.server.URL+"/#/probes?q=team%3Dshop", desktop)
	for query, want := range map[string]int{
		"team=shop": 12, "team==money": 4, "team=shop,tier=back": 3, "tier in (front, back) nginx": 6, "tier in (front,back)": 12, "team notin (shop)": 10, "!team": 6, "label:team": 16, "label:team=shop tier!=back": 9,
		"checkout": 2, "team=shop 503": 1, "team=nobody": 0,
	} {
		b.eval(`(location.hash = "#/probes?q=" + encodeURIComponent(`+quote(query)+`), true)`, new(bool))
		shown := fmt.Sprintf("%d of 22 probes", want)
		b.wait(`document.querySelector("input[type=search]").value === ` + quote(query) + ` && document.querySelector(".summary").innerText === ` + quote(shown))
	}
	b.eval(`(location.hash = "#/probes?q=label:team", true)`, new(bool))
	b.wait(`document.querySelector("select[aria-label=Groups]").innerText.includes("by team")`)
	b.eval(`(() => { const s = document.querySelector("select[aria-label=Groups]"); s.value = "team"; s.dispatchEvent(new Event("change")); return true; })()`, new(bool))
	groups := `[...document.querySelectorAll(".space > .line.group")].sort((a, b) => a.getAttribute("aria-rowindex") - b.getAttribute("aria-rowindex")).map((n) => n.querySelector(".group-name").innerText).join("|")`
	b.wait(`location.hash.includes("group=team") && ` + groups + ` === "team=money · 1 of 4 probes fail|team=shop · 1 of 12 probes fail"`)
	b.shot("groups")
	b.click(".space > .line.group a.open[href*='team%3Dshop']")
	b.wait(`document.querySelector(".summary").innerText === "12 of 22 probes" && !document.querySelector(".space > .line.group:not([hidden])")`)

	for _, view := range []string{"pods", "availability"} {
		b.eval(fmt.Sprintf(`(location.hash = "#/%s?q=team%%3Dmoney", true)`, view), new(bool))
		b.wait(`document.querySelectorAll(".space > .line:not([hidden])").length === ` + map[string]string{"pods": "3", "availability": "4"}[view])
	}
	b.eval(`(location.hash = "#/pod/billing/ledger", true)`, new(bool))
	b.wait(`document.querySelector(".labels a")?.getAttribute("href") === "#/probes?q=team%3Dmoney"`)
}

// TestDeadAgentIsUnmistakable stops the agent: each view must say so once, and keep its data.
func TestDeadAgentIsUnmistakable(t *testing.T) {
	a, _ := startSwitched(t, "1")
	b := open(t, a.url("#/wall"), desktop)
	b.wait(live + ` && proberCounts.success === 2`)
	_ = a.cmd.Process.Kill() // an agent that is stopped tells of the end of its probes first
	_ = a.cmd.Wait()
	for _, hash := range []string{"#/wall", "#/", "#/probes", "#/probe/default/shop/web/readiness", "#/pods", "#/plugins", "#/targets", "#/availability"} {
		b.eval(`(location.hash = `+quote(hash)+`, true)`, new(bool))
		b.wait(`/^The agent does not answer. This is what it said until \d\d:\d\d:\d\d. The page tries again.$/.test(document.querySelector("#lost").innerText)`)
		b.wait(`document.querySelector("#lost").checkVisibility() && getComputedStyle(document.querySelector("main")).filter === "grayscale(1)"`)
		b.shot("dead-" + strings.Trim(strings.ReplaceAll(hash, "/", "."), "#."))
	}
	for _, hash := range []string{"#/probes", "#/wall"} {
		b.eval(`(location.hash = `+quote(hash)+`, true)`, new(bool))
		b.wait(`document.body.innerText.match(/does not answer|reconnecting/g).join() === "reconnecting,does not answer" && document.body.innerText.includes(` + quote(map[string]string{"#/wall": "All probes succeed", "#/probes": "2 probes"}[hash]) + `)`)
	}
	a.start()
	b.wait(live + ` && document.querySelector("#lost").hidden && getComputedStyle(document.querySelector("main")).filter === "none"`)
}

// TestEmptyAndWrongAddresses opens a page without probes, and an address without a view.
func TestEmptyAndWrongAddresses(t *testing.T) {
	f := startFake(t)
	f.probes, f.pods, f.events = nil, nil, nil
	b := open(t, f.server.URL+"/", desktop)
	b.wait(`document.querySelector(".calm").innerText === "This agent has no probes yet: give it pods with probes, or targets in prober.yaml."`)
	for hash, want := range map[string]string{"#/probes?q=x": "This agent has no probes yet.", "#/pods": "This agent has no pods yet.", "#/events": "This agent has no events yet."} {
		b.eval(`(location.hash = `+quote(hash)+`, true)`, new(bool))
		b.wait(`document.querySelector(".frame .none")?.innerText === ` + quote(want))
	}
	b.eval(`(location.hash = "#/prbes", true)`, new(bool))
	b.wait(`document.querySelector("h1").innerText === "There is no such view" && document.querySelector(".note").innerText.includes("#/prbes") && document.title.startsWith("Not found")`)
	b.click(`.note a[href="#/probes"]`)
	b.wait(`document.querySelector(".grid.probes")`)
}

// TestAvailabilityWeighsKnownTime has a probe that is known for two minutes, all of which it failed. Longer
// failures must be above it, and days must have bars.
func TestAvailabilityWeighsKnownTime(t *testing.T) {
	f := startFake(t)
	f.probe("shop", "young", "app", "readiness", "http", "failure", 2*time.Minute, 0.1, "no")
	f.reported = map[string]object{"young": {"uptime": 0.0, "seconds": object{"failure": 120}, "longestSeconds": 120, "incidentCount": 1, "parts": append(make([]any, 29), 0.0)}}
	b := open(t, f.server.URL+"/#/availability?since=30d", desktop)
	b.wait(`document.querySelectorAll(".space > .line:not([hidden])").length > 10`)
	row := func(name string) string {
		return `[...document.querySelectorAll(".space > .line")].find((l) => l.querySelector(".name").textContent === ` + quote(name) + `)`
	}
	b.wait(`[...` + row("shop/young app readiness") + `.querySelectorAll(".cell.num")].map((c) => c.innerText).join() === "0.000 %,2 min 00 s,1,2 min 00 s,2 min 00 s,–"`)
	b.wait(`Number(` + row("shop/young app readiness") + `.getAttribute("aria-rowindex")) > Number(` + row("billing/ledger db readiness") + `.getAttribute("aria-rowindex"))`)
	b.wait(row("billing/ledger db readiness") + `.querySelector(".known").innerText === "30 d 0 h"`)
	for name, want := range map[string]string{"shop/young app readiness": "29 unknown,1 failure", "billing/ledger db readiness": "3 unknown,26 success,1 failure"} {
		b.wait(`(() => { const of = [...` + row(name) + `.querySelectorAll(".bars i")].map((i) => i.dataset.state); return [...new Set(of)].map((s) => of.filter((o) => o === s).length + " " + s).join(); })() === ` + quote(want))
	}
	b.wait(row("billing/ledger db readiness") + `.querySelector(".bars").getAttribute("aria-label") === "1 of 30 days with incidents"`)
	b.shot("availability-bars")
}

// TestTargetsHaveTheirNames opens the pages of a target and of its pod: neither is called "target".
func TestTargetsHaveTheirNames(t *testing.T) {
	f := startFake(t)
	f.probe("shop", "sites-checkout", "target", "readiness", "http", "failure", 47*time.Minute, 0.1, "no")["target"] = "GET https://checkout.shop.example/healthz"
	f.pod("shop", "sites-checkout", false, running("target", 0, day))
	b := open(t, f.server.URL+"/#/probe/shop/sites-checkout/target/readiness", desktop)
	b.wait(`document.querySelector("h1").innerText === "sites-checkout readiness" && document.title.includes("sites-checkout readiness · prober")`)
	b.eval(`(location.hash = "#/pod/shop/sites-checkout", true)`, new(bool))
	b.wait(`document.querySelector(".pod-view a.item b")?.innerText === "GET https://checkout.shop.example/healthz"`)
	b.wait(`!document.querySelector("section[aria-label=Containers]").checkVisibility()`)
}
