package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// publicProbes are the probes of a public page: names and states.
var publicProbes = [][2]string{
	{"Checkout", "failure"}, {"Search", "success"}, {"Accounts", "warning"}, {"Mail", "unknown"}, {"Archive", "maintenance"},
	{"<script>alert(1)</script><img src=x onerror=alert(2)>", "failure"}, {strings.Repeat("a-very-long-name-", 12), "success"}, {"\u202egnp.exe 日本語", "success"},
}

// publicAgent answers like an agent with a history of 70 days. Its probes are targets with names.
func publicAgent(t *testing.T) *httptest.Server {
	now := time.Now().UTC()
	var probes, pods, targets, whole, parts, incidents []object
	for i, p := range publicProbes {
		pod := fmt.Sprint("pod-", i)
		of := func(more object) object {
			o := object{"namespace": "targets", "pod": pod, "container": "target", "kind": "readiness"}
			for k, v := range more {
				o[k] = v
			}
			return o
		}
		probe := of(object{"handler": "http", "state": p[1], "stateSince": now.Add(-time.Hour), "result": "success", "cause": hostile})
		if p[1] == "maintenance" {
			probe["state"], probe["maintenance"] = "success", object{"name": "w", "until": now.Add(time.Hour)}
		}
		probes = append(probes, probe)
		pods = append(pods, object{"metadata": object{"namespace": "targets", "name": pod, "labels": object{"prober.dev/target-group": "web", "team": []string{"Shop", "Office", ""}[i%3]}}})
		targets = append(targets, object{"group": "web", "name": p[0], "address": "10.0.0.1:80", "state": "probed", "namespace": "targets", "pod": pod})
		var days []any
		for day := range 89 {
			switch {
			case day < 20:
				days = append(days, nil)
			case i%2 == 0 && day%17 == i:
				days = append(days, 0.4)
			case day%23 == i:
				days = append(days, 0.98)
			default:
				days = append(days, 1)
			}
		}
		parts = append(parts, of(object{"parts": days}))
		whole = append(whole, of(object{"seconds": object{"success": 1e6, "failure": 1000 * i}, "uptime": 1}))
		part := of(object{"since": now.Add(-time.Duration(i+1) * 26 * time.Hour), "cause": hostile})
		if i%2 == 0 {
			part["until"] = now.Add(-time.Duration(i+1) * 25 * time.Hour)
		}
		incidents = append(incidents, object{"id": fmt.Sprint(i), "cause": "connection refused", "parts": []object{part}, "notes": []object{{"time": now, "text": hostile}}})
	}
	items := map[string]any{"incidents": incidents, "probes": probes, "pods": pods, "targets": targets, "maintenance": []object{
		{"name": "w", "active": true, "from": now.Add(-time.Hour), "until": now.Add(time.Hour), "match": []object{{"pod": "pod-4"}}},
		{"name": "x", "from": now.Add(48 * time.Hour), "until": now.Add(50 * time.Hour), "reason": "new disks"},
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all, known := items[filepath.Base(r.URL.Path)]
		if !known {
			if all = whole; r.FormValue("parts") != "" {
				all = parts
			}
		}
		_ = json.NewEncoder(w).Encode(object{"since": now.Add(-70 * day), "until": now, "items": all})
	}))
	t.Cleanup(server.Close)
	return server
}

// TestPublicPage exports a public page. A browser must accept its policy, axe-core must find no problem in both color
// schemes, two sizes and on paper, and nothing may be wider than the window.
func TestPublicPage(t *testing.T) {
	script := axe(t)
	dir := filepath.Join(t.TempDir(), "status")
	text, err := exec.Command(filepath.Join(root, "bin/prober"), "page", "export", dir, "--server", publicAgent(t).URL, "--all", "--group-by", "label:team",
		"--title", "Shop status", "--show-causes", "--show-reasons", "--show-notes", "--footer-url", "https://shop.example/", "--footer-text", "The shop").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	b := open(t, server.URL+"/index.html", desktop)
	for _, l := range []view{desktop, {1280, 800, true, false}, phone, {360, 740, true, true}} {
		t.Run(fmt.Sprintf("%d,dark=%v", l.width, l.dark), func(t *testing.T) {
			b.t = t
			b.run(l.set(), chromedp.Navigate(server.URL+"/index.html"))
			b.wait(fmt.Sprintf(`document.querySelectorAll(".probe").length === %d && document.querySelector(".sum").innerText.includes("8 probes")`, len(publicProbes)))
			b.wait(`getComputedStyle(document.querySelector(".bars")).height === "28px"`) // the policy allows the style
			b.audit(script, "")
			b.eval(`(document.querySelectorAll("details").forEach((d) => d.open = true), true)`, new(bool))
			b.audit(script, "")
			var wide []string
			b.eval(`[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 120)).slice(0, 5)`, &wide)
			for _, w := range wide {
				t.Errorf("wider than %d: %s", l.width, w)
			}
			b.shot(fmt.Sprintf("public-%d-dark=%v", l.width, l.dark))
			b.check()
		})
	}
	b.t = t
	b.run(desktop.set(), emulation.SetEmulatedMedia().WithMedia("print"), chromedp.Navigate(server.URL+"/index.html"))
	b.wait(`document.querySelector(".tail li").checkVisibility({contentVisibilityAuto: true}) && !document.querySelector(".tail a").checkVisibility()`)
	b.shot("public-print")
	var badge string
	b.eval(`document.querySelector(".tail a").href`, &badge)
	b.run(chromedp.Navigate(badge))
	b.shot("public-badge")
}

// TestOldPublicPage exports a page, and stops its agent: axe-core must find no problem in the page that says so.
func TestOldPublicPage(t *testing.T) {
	script, a := axe(t), publicAgent(t)
	dir := filepath.Join(t.TempDir(), "status")
	export := exec.Command(filepath.Join(root, "bin/prober"), "page", "export", dir, "--server", a.URL, "--all", "--every", "1s")
	if err := export.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	t.Cleanup(func() {
		if !ended {
			_ = export.Process.Kill() // the test has failed
			_ = export.Wait()
		}
	})
	await := func(words string) {
		t.Helper()
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			text, _ := os.ReadFile(filepath.Join(dir, "index.html")) // it may not exist yet
			if strings.Contains(string(text), words) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the page never has %q:\n%s", words, text)
			}
		}
	}
	await("8 probes")
	a.Close()
	await("The data is old")
	if err := export.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	ended = true
	if err := export.Wait(); err != nil {
		t.Errorf("the export: %v", err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	b := open(t, server.URL+"/index.html", desktop)
	for _, l := range []view{desktop, {360, 740, true, true}} {
		b.run(l.set(), chromedp.Navigate(server.URL+"/index.html"))
		b.wait(`document.querySelector(".old").checkVisibility() && getComputedStyle(document.querySelector("main")).filter === "grayscale(1)"`)
		b.audit(script, "")
		b.shot(fmt.Sprintf("public-old-%d", l.width))
	}
}
