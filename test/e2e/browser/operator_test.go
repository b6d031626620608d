package browser

import (
	"encoding/json"
	"testing"
	"time"
)

// TestOverviewLeadsWithNames checks the rows of the overview: the name of the target or pod first, what is
// probed, for how long and why, on one line at 1440 pixels.
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
