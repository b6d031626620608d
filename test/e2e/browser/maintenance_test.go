package browser

import (
	"strings"
	"testing"
)

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

// TestWindowOfReceiverIsShown checks that the overview and the wall name a receiver that is in a maintenance window.
func TestWindowOfReceiverIsShown(t *testing.T) {
	w := newTargets(t)
	w.up.Store(true)
	a := runAgent(t, prepare(t, map[string]string{
		"pod.yaml":    strings.Replace(w.fill(switched), "SECONDS", "1", 1),
		"prober.yaml": "apiVersion: prober.dev/v1\nkind: AgentConfig\nnotify: {receivers: [{name: pager, exec: {command: [/bin/true]}}]}\n",
	}), "-f", "pod.yaml", "--config", "prober.yaml")
	a.prober("maintenance", "start", "--receiver", "pager", "--for", "2h", "--name", "site", "--reason", "on site")
	const text = `/^No notifications to pager about 2 probes: maintenance until [0-9: -]+: on site$/`
	for _, view := range []string{"", "#/wall"} {
		b := open(t, a.url(view), desktop)
		b.wait(`[...document.querySelectorAll("p.calm")].some((p) => p.checkVisibility() && ` + text + `.test(p.innerText)) && document.querySelector(".tile[data-state=success] strong").innerText === "2"`)
		b.shot("maintenance-receiver" + strings.TrimPrefix(view, "#/"))
	}
	a.prober("maintenance", "end", "site")
	b := open(t, a.url(""), desktop)
	b.wait(`document.querySelector(".calm").innerText === "All probes succeed." && !document.body.innerText.includes("No notifications")`)
}
