package browser

import "testing"

// TestMaintenanceIsNoFailure checks that the page counts a probe in a maintenance window apart from failures.
func TestMaintenanceIsNoFailure(t *testing.T) {
	a, w := startSwitched(t, "1")
	b := open(t, a.url(""), desktop)
	w.up.Store(false)
	b.wait(`document.querySelector(".tile[data-state=failure] strong").innerText === "1" && document.title === "(1) prober"`)
	a.prober("maintenance", "start", "shop/web", "--for", "2h", "--reason", "new disks")
	b.wait(`document.querySelector(".tile[data-state=maintenance]").checkVisibility() && document.querySelector(".tile[data-state=maintenance] strong").innerText === "1"`)
	b.wait(`document.querySelector(".tile[data-state=failure] strong").innerText === "0" && document.title === "prober"`)
	b.wait(`document.querySelector(".calm").innerText === "All probes succeed, 1 in maintenance."`)
	b.shot("maintenance")
	b = open(t, a.url("#/probe/default/shop/web/readiness"), desktop)
	b.wait(`/^failure[^]*maintenance until [^]*: new disks/.test(document.querySelector(".head-state").innerText)`)
	b.shot("maintenance-probe")
}
