package browser

import (
	"testing"

	"github.com/chromedp/chromedp/kb"
)

const incidentConfig = `
apiVersion: prober.dev/v1
kind: AgentConfig
targets:
- name: web
  probe: {httpGet: {path: /switch}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 1}
  static: ["127.0.0.1:WEBPORT", "localhost:WEBPORT"]
`

// TestIncidentLeadsTheOverview checks that two probes with one cause are an incident above the failures, whose
// probes are listed on request, and that it goes when they recover.
func TestIncidentLeadsTheOverview(t *testing.T) {
	w := newTargets(t)
	w.up.Store(true)
	a := runAgent(t, prepare(t, map[string]string{"prober.yaml": w.fill(incidentConfig)}), "--config", "prober.yaml")
	b := open(t, a.url(""), desktop)
	const section = `document.querySelector("section.incidents")`
	b.wait(`proberCounts.success === 2 && ` + section + `.hidden`)
	w.up.Store(false)
	b.wait(`!` + section + `.hidden && ` + section + `.querySelector("h2").innerText === "1 incident"`)
	b.wait(`/2 probes\s+HTTP 503 .*\d+ s$/s.test(` + section + `.querySelector("summary").innerText)`)
	b.wait(section + `.compareDocumentPosition(document.querySelector("section[aria-label='Failing now']")) === Node.DOCUMENT_POSITION_FOLLOWING`)
	script := axe(t)
	for _, l := range []view{desktop, {1280, 800, true, false}, phone} {
		b.run(l.set())
		b.audit(script, "")
		var wide bool
		if b.eval(`document.documentElement.scrollWidth > innerWidth`, &wide); wide {
			t.Errorf("the page is wider than %d", l.width)
		}
		b.shot("incident-" + map[bool]string{true: "phone", false: "desktop"}[l.width == phone.width] + map[bool]string{true: "-dark"}[l.dark])
	}
	b.run(desktop.set())
	b.tabTo(".incidents summary")
	b.press(kb.Enter)
	b.wait(`[...document.querySelectorAll(".parts a")].filter((e) => e.checkVisibility() && /^targets\/web-(127-0-0-1|localhost)-\d+ target readiness$/.test(e.innerText)).length === 2`)
	b.shot("incident-open")
	a.prober("maintenance", "start", "web", "--name", "disks", "--for", "1h")
	b.wait(`/2 probes \(maintenance\)/.test(` + section + `.querySelector("summary").innerText) && ` + section + `.querySelector("summary").dataset.state === "maintenance"`)
	b.wait(`[...document.querySelectorAll(".parts li")].filter((e) => /\(maintenance\)$/.test(e.innerText)).length === 2`)
	b.shot("incident-maintenance")
	a.prober("maintenance", "end", "disks")
	b.wait(section + `.querySelector("summary").dataset.state === "failure"`)
	b.click(".parts a")
	b.wait(`location.hash.startsWith("#/probe/targets/web-")`)
	w.up.Store(true)
	b.eval(`(location.hash = "#/", true)`, new(bool))
	b.wait(`proberCounts.success === 2 && ` + section + `.hidden`)
}
