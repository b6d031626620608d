package browser

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// cause is a failure, and where the page must lead from the overview.
type cause struct {
	name   string
	link   string   // of the overview
	second string   // what else is to be clicked; "" for nothing
	shows  []string // patterns of what the page then has
	probe  string   // its sentence must be that of `prober explain`; "" for none
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

// TestFailingWorld looks at one agent whose probes fail in every way.
func TestFailingWorld(t *testing.T) {
	a := startWorld(t)
	t.Run("hostile texts are harmless", func(t *testing.T) { hostileTextsAreHarmless(t, a) })
	t.Run("axe-core finds nothing", func(t *testing.T) { axeFindsNothing(t, a) })
	t.Run("two clicks to the cause", func(t *testing.T) { twoClicksToTheCause(t, a) })
}

// From the overview, at most two clicks lead to the cause. The sentence is compared with the one that
// the client prints.
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
				sameSentence(t, a, b, c.probe)
			}
			b.shot("cause-" + strings.ReplaceAll(c.name, " ", "-"))
		})
	}
}

var (
	duration = regexp.MustCompile(`\d+(\.\d+)?(h|m|s|ms|µs)(\d+(\.\d+)?(m|s))*`)
	number   = regexp.MustCompile(`\d+`)
)

// alike replaces what differs from one moment to the next.
func alike(sentence string) string {
	return strings.TrimSpace(number.ReplaceAllString(duration.ReplaceAllString(sentence, "D"), "N"))
}

// sameSentence waits until the page and `prober explain` say the same: a tick may come between them.
func sameSentence(t *testing.T, a *agent, b *tab, container string) {
	t.Helper()
	var page, client string
	for end := time.Now().Add(patience); ; {
		page = b.text("[data-part=summary]")
		if lines := strings.Split(a.prober("explain", "shop/"+container, "readiness"), "\n"); len(lines) > 1 {
			client = lines[1]
		}
		if page != "" && alike(page) == alike(client) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the page says   %s\nthe client says %s", page, client)
		}
		time.Sleep(200 * time.Millisecond)
	}
}
