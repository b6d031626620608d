package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// counted is a proxy of an agent that counts streams.
type counted struct {
	url  string
	open atomic.Int64
	all  atomic.Int64
}

// count starts a proxy of the agent.
func count(t testing.TB, a *agent) *counted {
	t.Helper()
	to, err := url.Parse(a.url(""))
	if err != nil {
		t.Fatal(err)
	}
	c := new(counted)
	forward := httputil.NewSingleHostReverseProxy(to)
	forward.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/v1/stream") {
			c.open.Add(1)
			c.all.Add(1)
			defer c.open.Add(-1)
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c.url = server.URL + "/"
	return c
}

// await waits until open streams are open.
func (c *counted) await(t testing.TB, open int64) {
	t.Helper()
	for end := time.Now().Add(patience); c.open.Load() != open; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d streams are open, want %d", c.open.Load(), open)
		}
	}
}

const live = `document.querySelector("#link").dataset.link === "live"`

// TestTabsShareOneStream opens eight visible tabs. A browser opens at most six connections to a host over
// HTTP/1.1, so the tabs must share a stream.
func TestTabsShareOneStream(t *testing.T) {
	a, w := startSwitched(t, "1")
	c := count(t, a)
	var tabs []*tab
	for i := range 8 {
		b := open(t, c.url+[]string{"", "#/probes", "#/probe/default/shop/web/readiness"}[i%3], desktop)
		b.wait(live + ` && proberCounts.success === 2`)
		tabs = append(tabs, b)
	}
	if got := c.open.Load(); got != 1 {
		t.Errorf("%d streams for eight tabs", got)
	}
	changes := func(tabs []*tab) {
		t.Helper()
		for _, up := range []bool{false, true} {
			w.up.Store(up)
			for _, b := range tabs {
				b.wait(fmt.Sprintf(live+` && proberCounts.failure === %d`, map[bool]int{false: 1, true: 0}[up]))
			}
		}
	}
	changes(tabs)

	tabs[0].run(chromedp.Navigate("about:blank")) // the tab that reads the stream for all
	changes(tabs[1:])
	c.await(t, 1)

	a.stop()
	for _, b := range tabs[1:] {
		b.wait(`document.querySelector("#link").dataset.link === "reconnecting"`)
	}
	a.start()
	for _, b := range tabs[1:] {
		b.wait(live)
	}
	changes(tabs[1:])
	c.await(t, 1)
}

// TestHiddenTabEndsStream hides the tab that reads the stream: a visible tab must read it instead, and the
// stream must end if there is none.
func TestHiddenTabEndsStream(t *testing.T) {
	a, w := startSwitched(t, "1")
	c := count(t, a)
	first := open(t, c.url, desktop)
	first.wait(live)
	second := open(t, c.url, desktop)
	second.wait(live + ` && proberCounts.success === 2`)
	first.run(emulation.SetFocusEmulationEnabled(false))
	first.wait(`document.hidden`)
	for c.all.Load() < 2 { // until the second tab reads
		second.wait(live)
	}
	c.await(t, 1)
	w.up.Store(false)
	second.wait(`proberCounts.failure === 1`)
	first.wait(`proberCounts.failure === 1`) // its title shows it

	open(t, "about:blank", desktop)
	second.run(emulation.SetFocusEmulationEnabled(false))
	second.wait(`document.hidden`)
	c.await(t, 0)
	for _, b := range []*tab{first, second} {
		b.wait(`document.querySelector("#link").dataset.link === "paused"`)
	}
	w.up.Store(true)
	first.run(page.BringToFront())
	first.wait(live + ` && proberCounts.failure === 0`)
	c.await(t, 1)
}
