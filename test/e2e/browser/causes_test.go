package browser

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// cause is a failure, and the way to it from the overview.
type cause struct {
	name   string
	link   string   // link in the overview
	second string   // selector of the second click; "" for none
	shows  []string // patterns of texts on the page
	probe  string   // probe whose summary must equal the summary of `prober explain`; "" for none
}

func ofProbe(container string, shows ...string) cause {
	return cause{name: container, link: "#/probe/default/shop/" + container + "/readiness", shows: shows, probe: container}
}

var causes = []cause{
	ofProbe("http", `HTTP probe failed with statuscode: 503`, `http_status`, `no \\x1b\[31mdatabase\\xff\\n`, `phase\s+connect`, `first byte`),
	ofProbe("web", `HTTP status 503, want 2xx`, `http_status`, `no .*database`),
	ofProbe("slow", `first byte`, `wait\s+http`, `no response headers`),
	ofProbe("tcp", `connection refused`, `connect_refused`, `connect`),
	ofProbe("grpc", `service unhealthy \(responded with "NOT_SERVING"\)`, `settings`),
	ofProbe("exec", `call\s+exec`, `exit code 3`),
	ofProbe("denied", `denied`, `10\.9\.8\.7:80`),
	ofProbe("spins", `wait\s+guest`, `computing`),
	ofProbe("traps", `out of order`, `not counted`, `3 attempts`),
	ofProbe("dies", `the process ended: exit status 2`),
	ofProbe("waits", `wait\s+probe`, `accepted the request`),
	ofProbe("check", `QUEUE CRITICAL: 9 waiting`, `check_queue`, `exit status 2`),
	ofProbe("later", `no attempts before the startup probe has succeeded`),
	{name: "container that crashes", link: "#/pod/default/shop", shows: []string{`crash`, `exit code 7`, `BackOff`, `Restarts`}},
	{name: "plugin that cannot be loaded", link: "#/plugins", shows: []string{`guest`, `running`, `magic|wasm: |WebAssembly`}},
	{name: "target that is dropped", link: "#/targets?state=dropped", shows: []string{`no-port-at-all`, `neither the address nor the probe has a port`}},
	{name: "secret that is missing", shows: []string{`reload`, `secret\.yaml`, `file:/no/such/file`}},
}

// TestFailingWorld tests the page of an agent whose probes fail in every way.
func TestFailingWorld(t *testing.T) {
	a := startWorld(t)
	t.Run("hostile texts are harmless", func(t *testing.T) { hostileTextsAreHarmless(t, a) })
	t.Run("axe-core finds nothing", func(t *testing.T) { axeFindsNothing(t, a) })
	t.Run("two clicks to the cause", func(t *testing.T) { twoClicksToTheCause(t, a) })
}

// twoClicksToTheCause checks that at most two clicks lead from the overview to each cause, and compares the
// summary with the client's.
func twoClicksToTheCause(t *testing.T, a *agent) {
	a.waitLine(`reason=Unhealthy .*spec.containers.waits`)
	write(t, a.dir+"/pods/secret.yaml", missingSecret)
	a.waitLine(`manifests cannot be used`)
	write(t, a.dir+"/plugins/guest/guest.wasm", "this is no module")
	for i, c := range causes {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			l := desktop
			l.dark = i%2 == 1
			b := open(t, a.url(""), l)
			if c.link != "" {
				b.click(fmt.Sprintf("a.item[href^=%s]", quote(c.link)))
			}
			if c.second != "" {
				b.click(c.second)
			}
			for _, pattern := range c.shows {
				b.wait(fmt.Sprintf("new RegExp(%s, 's').test(document.querySelector('main').innerText)", quote(pattern)))
			}
			if c.probe != "" {
				sameSummary(t, a, b, c.probe)
			}
			b.shot("cause-" + strings.ReplaceAll(c.name, " ", "-"))
		})
	}
}

var (
	duration = regexp.MustCompile(`\d+(\.\d+)?(h|m|s|ms|µs)(\d+(\.\d+)?(m|s))*`)
	number   = regexp.MustCompile(`\d+`)
)

// withoutTimes replaces the parts of a summary that change with time.
func withoutTimes(sentence string) string {
	return strings.TrimSpace(number.ReplaceAllString(duration.ReplaceAllString(sentence, "D"), "N"))
}

// sameSummary waits until the page and `prober explain` have the same summary. They may differ for a moment
// after a tick.
func sameSummary(t *testing.T, a *agent, b *tab, container string) {
	t.Helper()
	var page, client string
	for end := time.Now().Add(patience); ; {
		page = b.text("[data-part=summary]")
		if lines := strings.Split(a.prober("explain", "shop/"+container, "readiness"), "\n"); len(lines) > 1 {
			client = lines[1]
		}
		if page != "" && withoutTimes(page) == withoutTimes(client) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the page says   %s\nthe client says %s", page, client)
		}
		time.Sleep(200 * time.Millisecond)
	}
}
