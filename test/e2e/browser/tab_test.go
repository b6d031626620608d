package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// chrome is the one browser of all tests.
var chrome context.Context

func TestMain(m *testing.M) {
	path := "/usr/bin/chromium"
	if set := os.Getenv("CHROMIUM"); set != "" {
		path = set
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("js-flags", "--expose-gc"), chromedp.Flag("enable-precise-memory-info", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	var stop context.CancelFunc
	chrome, stop = chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {})) // newer versions send unknown events
	code := 1
	if err := chromedp.Run(chrome); err != nil {
		fmt.Fprintf(os.Stderr, "%s does not run; test/e2e/run installs it: %v\n", path, err)
	} else {
		code = m.Run()
	}
	stop()
	end()
	os.Exit(code)
}

// tab is a tab of the browser. Faults of its page fail the test.
type tab struct {
	t    testing.TB
	ctx  context.Context
	host string

	mu     sync.Mutex
	wrong  []string // errors, policy violations, requests to other hosts
	status []string // failed requests, which tests may expect
}

// watcher records violations of the content security policy. It runs before any script of the page.
const watcher = `
window.violations = [];
document.addEventListener("securitypolicyviolation", (e) => violations.push(e.violatedDirective + " " + e.blockedURI + " " + e.sample));
window.longTasks = [];
new PerformanceObserver((list) => { for (const e of list.getEntries()) longTasks.push(e.duration); }).observe({ type: "longtask", buffered: true });
`

// view is the size and the color scheme of a tab.
type view struct {
	width, height int64
	dark, touch   bool
}

var desktop, phone = view{1280, 800, false, false}, view{360, 740, false, true}

// open opens a tab with an address.
func open(t testing.TB, address string, l view) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chrome)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	b := &tab{t: t, ctx: ctx, host: u.Host}
	t.Cleanup(func() {
		b.check()
		cancel()
	})
	chromedp.ListenTarget(ctx, b.handleEvent)
	b.run(
		network.Enable(), cdplog.Enable(), runtime.Enable(), emulation.SetTimezoneOverride("UTC"),
		chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := page.AddScriptToEvaluateOnNewDocument(watcher).Do(ctx)
			return err
		}),
		emulation.SetFocusEmulationEnabled(true), page.BringToFront(), l.set(), chromedp.Navigate(address))
	return b
}

// set returns the actions that apply the size and the color scheme.
func (l view) set() chromedp.Tasks {
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	return chromedp.Tasks{
		emulation.SetDeviceMetricsOverride(l.width, l.height, 1, l.touch),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}),
	}
}

// handleEvent records faults of the page. chromedp calls it in the goroutine that delivers events.
func (b *tab) handleEvent(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, "exception: "+e.ExceptionDetails.Text+" "+describe(e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			b.wrong = append(b.wrong, fmt.Sprintf("console: %s", e.Args[0].Value))
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level != cdplog.LevelError {
			return
		}
		if e.Entry.Source == cdplog.SourceNetwork {
			b.status = append(b.status, e.Entry.Text+" "+e.Entry.URL)
			return
		}
		b.wrong = append(b.wrong, "log: "+e.Entry.Text)
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil || u.Host != b.host {
			b.wrong = append(b.wrong, "request to "+e.Request.URL)
		}
	}
}

func describe(d *runtime.ExceptionDetails) string {
	if d.Exception == nil {
		return ""
	}
	return d.Exception.Description
}

// check fails the test if the page had faults.
func (b *tab) check() {
	b.t.Helper()
	var violations []string
	if b.ctx.Err() == nil {
		b.eval(`window.violations`, &violations)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range append(violations, b.wrong...) {
		b.t.Errorf("the page: %s", w)
	}
	b.wrong = nil
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	// A tab's first call must have the tab's own context.
	ended := make(chan error, 1)
	go func() { ended <- chromedp.Run(b.ctx, actions...) }()
	select {
	case err := <-ended:
		if err != nil {
			b.t.Fatalf("browser: %v", err)
		}
	case <-time.After(patience):
		b.t.Fatal("the browser does not answer")
	}
}

// eval evaluates an expression, and awaits it if it is a promise.
func (b *tab) eval(expression string, into any) {
	b.t.Helper()
	b.run(chromedp.Evaluate(expression, into, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
}

// wait waits until an expression is true.
func (b *tab) wait(expression string) {
	b.t.Helper()
	var done bool
	for end := time.Now().Add(patience); ; {
		b.eval("Boolean("+expression+")", &done)
		if done {
			return
		}
		if time.Now().After(end) {
			b.shot("failed-" + strings.ReplaceAll(b.t.Name(), "/", "-"))
			b.t.Fatalf("this does not become true: %s\nthe page has: %.3000s", expression, b.text("body"))
		}
		time.Sleep(30 * time.Millisecond)
	}
}

// text returns the visible text of an element; "" if there is none.
func (b *tab) text(selector string) (text string) {
	b.t.Helper()
	b.eval(fmt.Sprintf("(document.querySelector(%s)?.innerText ?? '')", quote(selector)), &text)
	return text
}

// click clicks the middle of an element.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.wait(fmt.Sprintf("document.querySelector(%s)?.checkVisibility()", quote(selector)))
	b.eval(fmt.Sprintf("(document.querySelector(%s).scrollIntoView({block: 'center'}), true)", quote(selector)), new(bool))
	b.run(chromedp.Click(selector, chromedp.ByQuery))
}

// press presses keys, such as "Tab" and "a".
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		b.run(chromedp.KeyEvent(k))
	}
}

// shots is the folder for screenshots.
const shots = root + "/bin/browser"

// shot takes a screenshot, and saves it in shots.
func (b *tab) shot(name string) []byte {
	b.t.Helper()
	var picture []byte
	b.run(chromedp.CaptureScreenshot(&picture))
	if err := os.MkdirAll(shots, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(shots, name+".png"), picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
	return picture
}

// quote returns text as a JavaScript string.
func quote(text string) string {
	quoted, _ := json.Marshal(text) // cannot fail
	return string(quoted)
}
