package browser

import (
	"testing"
)

const (
	durationsOf = `document.querySelector("section[aria-label=Durations]")`
	compareOf   = `document.querySelector("section[aria-label='Compare with another probe']")`
)

// TestCardShowsDurations checks the heat map of a probe's page and its tables.
func TestCardShowsDurations(t *testing.T) {
	f := startFake(t)
	script := axe(t)
	for _, look := range []struct {
		name string
		view view
	}{{"light", view{1280, 900, false, false}}, {"dark", view{1280, 900, true, false}}, {"phone", view{390, 844, false, true}}} {
		t.Run(look.name, func(t *testing.T) {
			b := open(t, f.server.URL+"/#/probe/shop/checkout/app/readiness?since=7d", look.view)
			b.wait(durationsOf + `?.querySelectorAll("rect.heat-cell").length > 6 * 150`)
			b.wait(`[...` + durationsOf + `.querySelectorAll(".percentiles tbody th")].map((e) => e.innerText).join() === "whole tick,dns,connect,tls,first byte,body"`)
			b.wait(durationsOf + `.querySelector(".percentiles tbody tr").innerText.split(/\s+/).join(" ") === "whole tick 43 ms 91 ms 340 ms 116,640"`)
			b.eval(`(`+durationsOf+`.querySelector("details").open = true)`, new(bool))
			b.wait(`document.documentElement.scrollWidth <= innerWidth`)
			b.audit(script, "")
			b.eval(`(scrollTo(0, `+durationsOf+`.getBoundingClientRect().top + scrollY - 60), true)`, new(bool))
			b.shot("card-durations-" + look.name)
			b.eval(`(`+durationsOf+`.querySelectorAll("[aria-label=Percentile] button")[2].click(), true)`, new(bool))
			b.wait(durationsOf + `.querySelector("details").open && ` + durationsOf + `.querySelector("summary").innerText === "p99 of each hour as a table"`)
			b.check()
		})
	}
}

// TestCardNamesOwnerAndRunbook checks that the labels that messages use are on the page, and that only a web address is a
// link.
func TestCardNamesOwnerAndRunbook(t *testing.T) {
	f := startFake(t)
	for _, p := range f.pods {
		switch p["name"] {
		case "web-0":
			p["labels"] = object{"team": "payments", "runbook_url": "https://wiki.example.com/web"}
		case "web-1":
			p["labels"] = object{"owner": "ada", "team": "payments", "runbook": "javascript:alert(1)"}
		}
	}
	facts := func(pod, owner, runbook string, linked bool) {
		b := open(t, f.server.URL+"/#/probe/shop/"+pod+"/nginx/readiness", desktop)
		b.wait(`[...document.querySelectorAll("section[aria-label=Probe] dt")].map((e) => e.innerText + "=" + e.nextSibling.innerText).join("; ").includes(` + quote("Owner="+owner+"; Runbook="+runbook+"; Labels=") + `)`)
		var got bool
		if b.eval(`[...document.querySelectorAll("section[aria-label=Probe] dd a")].some((e) => e.innerText === `+quote(runbook)+`)`, &got); got != linked {
			t.Errorf("%s: a link is %v, want %v", runbook, got, linked)
		}
		b.check()
	}
	facts("web-0", "payments", "https://wiki.example.com/web", true)
	facts("web-1", "ada", "javascript:alert(1)", false)
}

// TestCardCompares checks that a probe that is found by its name is compared, and that the address has it.
func TestCardCompares(t *testing.T) {
	f := startFake(t)
	script := axe(t)
	b := open(t, f.server.URL+"/#/probe/shop/checkout/app/readiness", view{1280, 900, false, false})
	b.wait(compareOf + `?.checkVisibility() && !` + compareOf + `.querySelector("table")`)
	b.wait(`proberCounts.failure > 0`)
	search := func(text string) {
		b.eval(`((i) => { i.focus(); i.value = `+quote(text)+`; i.dispatchEvent(new Event("input")); i.form.requestSubmit(); return true; })(`+compareOf+`.querySelector("input"))`, new(bool))
	}
	search("no such probe")
	b.wait(compareOf + `.querySelector("[role=status]").innerText === "No probe matches."`)
	search("LEDGER/db r")
	b.wait(`location.hash.endsWith("?with=billing%2Fledger%2Fdb%2Freadiness")`)
	b.wait(compareOf + `.querySelector("input").value === "billing/ledger/db readiness"`)
	rows := func(want string) {
		b.wait(`[...` + compareOf + `.querySelectorAll("tbody tr")].map((e) => e.innerText.split(/\s+/).join(" ")).join("; ").startsWith(` + quote(want) + `)`)
	}
	b.wait(compareOf + `.querySelectorAll("path.duration").length === 2`)
	rows("Uptime ")
	b.wait(compareOf + `.innerText.includes("p50\t43 ms\t1.0 s") && ` + compareOf + `.innerText.includes("first byte p90\t62 ms\t1.4 s")`)
	b.audit(script, "")
	b.eval(`(`+compareOf+`.scrollIntoView(), true)`, new(bool))
	b.shot("card-compare")
	other := open(t, f.server.URL+"/#/probe/shop/checkout/app/readiness?since=30d&with=billing%2Fledger%2Fdb%2Freadiness", view{390, 844, true, true})
	other.wait(compareOf + `?.querySelectorAll("path.duration").length === 2`)
	other.wait(`document.documentElement.scrollWidth <= innerWidth`)
	other.wait(`[...document.querySelectorAll("[aria-label=Time]")].every((e) => e.querySelector("[aria-pressed=true]").innerText === "30 days")`)
	other.eval(`(`+compareOf+`.scrollIntoView(), true)`, new(bool))
	other.shot("card-compare-phone")
	b.eval(`(history.back(), true)`, new(bool))
	b.wait(`!location.hash.includes("with=") && ` + compareOf + `.querySelector("input").value === "" && !` + compareOf + `.querySelector("table").checkVisibility()`)
	for _, hash := range []string{"with=a%2Fb", "with=%25zz%2Fa%2Fb%2Fc", "with=no%2Fsuch%2Fprobe%2Freadiness"} { // texts that name no probe
		b = open(t, f.server.URL+"/#/probe/shop/checkout/app/readiness?"+hash, view{1280, 900, false, false})
		b.wait(durationsOf + `?.querySelectorAll("rect.heat-cell").length > 6 && !` + compareOf + `.querySelector("table")`)
		b.check()
	}
}
