package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"context"
)

// axe returns the source of axe-core, which test/e2e/run installs.
func axe(t *testing.T) string {
	t.Helper()
	path := os.Getenv("AXE")
	if path == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(cache, "prober/axe/node_modules/axe-core/axe.min.js")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("test/e2e/run installs axe-core: %v", err)
	}
	return string(text)
}

// audit runs axe-core in an isolated world, to which the content security policy of the page does not apply.
func (b *tab) audit(script, rules string) {
	b.t.Helper()
	var found []string
	b.run(chromedp.ActionFunc(func(ctx context.Context) error {
		tree, err := page.GetFrameTree().Do(ctx)
		if err != nil {
			return err
		}
		world, err := page.CreateIsolatedWorld(tree.Frame.ID).Do(ctx)
		if err != nil {
			return err
		}
		if _, exception, err := runtime.Evaluate(script + ";true").WithContextID(world).Do(ctx); err != nil || exception != nil {
			return fmt.Errorf("axe: %v %v", err, exception)
		}
		result, exception, err := runtime.Evaluate(`axe.run(document, {resultTypes: ["violations"]` + rules + `}).then((r) => r.violations.map((v) => v.id + ": " + v.nodes.slice(0, 4).map((n) => n.html + " " + n.failureSummary).join("; ")).join("\n"))`).
			WithContextID(world).WithAwaitPromise(true).WithReturnByValue(true).Do(ctx)
		if err != nil || exception != nil {
			return fmt.Errorf("axe: %v %v", err, exception)
		}
		text := strings.Trim(string(result.Value), `"`)
		if text != "" {
			found = append(found, text)
		}
		return nil
	}))
	for _, f := range found {
		b.t.Errorf("%s", f)
	}
}

// axeFindsNothing checks every view in both color schemes and two sizes: axe-core must find no problem, and
// nothing may be wider than the window.
func axeFindsNothing(t *testing.T, a *agent) {
	script := axe(t)
	a.waitLine(`reason=Unhealthy .*spec.containers.web`)
	a.waitLine(`reason=BackOff`)
	views := []struct{ hash, ready string }{
		{"#/", `document.querySelectorAll("a.item").length > 5 && document.querySelector(".foot").innerText.includes("agent")`},
		{"#/wall", `document.querySelectorAll("a.item").length > 5`},
		{"#/probes", `document.querySelectorAll(".space a.open").length > 5`},
		{"#/pods", `document.querySelector(".space a.open")`},
		{"#/pod/default/shop", `document.querySelector(".chart")`},
		{"#/targets", `document.querySelectorAll(".space a.open").length === 2`},
		{"#/plugins", `document.querySelectorAll(".card").length === 4`},
		{"#/events", `document.querySelectorAll(".space a.open").length > 5`},
		{"#/availability", `document.querySelector(".note")`},
		{"#/probe/default/shop/http/readiness", `document.querySelector("[data-part=cause] pre")`},
		{"#/probe/default/shop/good/readiness", `document.querySelector(".ticks details")`},
		{"#/nosuch", `document.querySelector(".note a")`},
		{"#/probe/default/shop/nosuch/readiness", `document.querySelector("[data-part=summary]").innerText.includes("containers with probes")`},
	}
	b := open(t, a.url("#/wall"), desktop)
	for _, l := range []view{desktop, {1280, 800, true, false}, phone, {360, 740, true, true}} {
		b.run(l.set())
		for _, v := range views {
			t.Run(fmt.Sprintf("%d,dark=%v,%s", l.width, l.dark, strings.ReplaceAll(v.hash, "/", ".")), func(t *testing.T) {
				b.t = t
				b.eval(fmt.Sprintf(`(location.hash = %s, true)`, quote(v.hash)), new(bool))
				b.wait(v.ready)
				rules := ""
				if l.dark { // only colors differ
					rules = `, runOnly: ["color-contrast"]`
				}
				b.audit(script, rules)
				var wide []string
				b.eval(`document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 120)).slice(0, 5)`, &wide)
				for _, w := range wide {
					t.Errorf("wider than %d: %s", l.width, w)
				}
				b.check()
				b.shot(fmt.Sprintf("view-%d-dark=%v-%s", l.width, l.dark, strings.Trim(strings.ReplaceAll(v.hash, "/", "."), "#.")))
			})
		}
	}
	b.t = t
}

// hostileTextsAreHarmless checks that the page shows the answer of a hostile target as text, without
// elements, control characters and changes of direction, and truncated.
func hostileTextsAreHarmless(t *testing.T, a *agent) {
	a.waitLine(`reason=Unhealthy .*spec.containers.hostile`)
	a.waitLine(`reason=Unhealthy .*spec.containers.shout`)
	b := open(t, a.url("#/probe/default/shop/hostile/readiness"), desktop)
	b.eval(`(globalThis.alert = () => violations.push("alert"), true)`, new(bool))
	for _, v := range []struct{ hash, ready string }{
		{"#/probe/default/shop/hostile/readiness", `document.querySelector("[data-part=cause]")?.innerText.includes("<script>alert(1)</script>")`},
		{"#/probe/default/shop/shout/readiness", `document.querySelector("[data-part=cause]")?.innerText.includes("<script>alert(1)</script>")`},
		{"#/", `[...document.querySelectorAll("a.item")].some((e) => e.innerText.includes("<script>"))`},
		{"#/wall", `[...document.querySelectorAll("a.item")].some((e) => e.innerText.includes("<script>"))`},
		{"#/probes?q=shout", `document.querySelector(".space .output")?.innerText.includes("<script>")`},
		{"#/events?q=shout", `[...document.querySelectorAll(".space .output")].some((e) => e.innerText.includes("<script>"))`},
		{"#/pod/default/shop", `document.querySelector(".events")?.innerText.includes("<script>")`},
		{"#/%3Cscript%3E/%E2%80%AE?q=%3Cimg%20src=x%3E", `document.querySelector(".note")?.innerText.includes("<script>")`},
		{"#/probe/%3Cimg%20src=x%20onerror=alert(1)%3E/b/c%E2%80%AE/readiness", `document.querySelector("[data-part=summary]")?.innerText.includes("there is no pod")`},
	} {
		b.eval(fmt.Sprintf(`(location.hash = %s, true)`, quote(v.hash)), new(bool))
		b.wait(v.ready)
		var found []string
		b.eval(`[
			...[...document.querySelectorAll("main script, main img, [onerror], a[href^='javascript']")].map((e) => "element " + e.outerHTML.slice(0, 100)),
			...(document.querySelector("main").textContent.match(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g) ?? []).map((c) => "character " + c.codePointAt(0).toString(16)),
			...(document.title.match(/[\u0000-\u001f\u202a-\u202e\u2066-\u2069]/g) ?? []).map((c) => "title " + c.codePointAt(0).toString(16)),
			...(document.querySelector("main").textContent.length > 100000 ? ["a text of " + document.querySelector("main").textContent.length] : []),
		]`, &found)
		for _, f := range found {
			t.Errorf("%s: %s", v.hash, f)
		}
		b.check()
	}
	b.shot("hostile")
}
