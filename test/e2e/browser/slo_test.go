package browser

import (
	"strings"
	"testing"
)

const sloConfig = `
apiVersion: prober.dev/v1
kind: AgentConfig
slo:
- {name: shop, match: [{pod: shop}], objective: 99.9}
- {name: other, match: [{pod: other}], objective: 95, window: 7d}
`

// TestErrorBudgets checks that the page of a probe has the SLOs that select it, and the tab of availability all.
func TestErrorBudgets(t *testing.T) {
	w := newTargets(t)
	w.up.Store(false)
	dir := prepare(t, map[string]string{"pod.yaml": strings.Replace(w.fill(switched), "SECONDS", "1", 1), "prober.yaml": sloConfig})
	a := runAgent(t, dir, "-f", "pod.yaml", "--config", "prober.yaml", "--state-dir", "state")
	b := open(t, a.url(""), desktop)
	b.wait(`document.querySelector(".tile[data-state=failure] strong").innerText === "1"`)
	b = open(t, a.url("#/probe/default/shop/web/readiness"), desktop)
	b.wait(`document.querySelectorAll("[data-slo]").length === 1 && /^\s*shop [^]*of 99.9 % in 30d/.test(document.querySelector("[data-slo]").innerText)`)
	b.wait(`document.querySelector("[data-slo=shop]").dataset.state === "failure" && /% of the budget left[^]*x in 5m[^]*1 of 1 probe fails/.test(document.querySelector("[data-slo=shop]").innerText)`)
	b.shot("slo-probe")
	b = open(t, a.url("#/availability"), desktop)
	b.wait(`document.querySelectorAll("[data-slo]").length === 2 && document.querySelector("[data-slo=other]").innerText.includes("nothing is measured yet")`)
	b.shot("slo-availability")
}
