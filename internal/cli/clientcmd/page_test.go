package clientcmd_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/internal/cli/clitest"
	"github.com/daeace23/prober/internal/publicpage"
)

type object = map[string]any

// site is a fake agent with a history. Its fields may change while mu is held.
type site struct {
	url     string
	asked   chan struct{} // is sent to at each list of probes, unless it is nil
	mu      sync.Mutex
	down    bool
	since   time.Time // begin of the history
	probes  []api.ProbeStatus
	labels  map[string]object // by pod
	targets []api.Target
	windows []api.MaintenanceWindow
	seconds map[string]api.StateSeconds // by pod
	days    map[string][]*float64       // by pod, the last one is the present day
	past    []api.IncidentStatus
}

func newSite(t *testing.T) *site {
	s := &site{labels: make(map[string]object), seconds: make(map[string]api.StateSeconds), days: make(map[string][]*float64)}
	s.since = time.Now().Add(-200 * 24 * time.Hour)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// add adds a probe of a pod that always succeeded.
func (s *site) add(namespace, pod, container, state string) *api.ProbeStatus {
	s.probes = append(s.probes, api.ProbeStatus{
		Namespace: namespace, Pod: pod, Container: container, Kind: "readiness", Handler: "http", Target: "GET http://10.1.2.3/secret-target",
		CurrentState: api.CurrentState{State: state, StateSince: time.Now().Add(-time.Hour), Cause: "secret-cause"}, Result: "success",
	})
	s.seconds[pod] = api.StateSeconds{Success: 1000}
	s.days[pod] = slices.Repeat([]*float64{new(1.0)}, publicpage.Days)
	return &s.probes[len(s.probes)-1]
}

// addTarget adds a target. Its pod is named after its address.
func (s *site) addTarget(group, name, address, state string) {
	pod := group + "-" + strings.NewReplacer(".", "-", ":", "-").Replace(address)
	s.add("targets", pod, "target", state)
	s.labels[pod] = object{"prober.dev/target-group": group, "team": "secret-label-" + group}
	s.targets = append(s.targets, api.Target{Group: group, Name: name, Address: address, State: "probed", Namespace: "targets", Pod: pod})
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.asked != nil && r.URL.Path == "/api/v1/probes" {
		s.asked <- struct{}{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		panic(http.ErrAbortHandler)
	}
	send := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	switch r.URL.Path {
	case "/api/v1/probes":
		send(api.ProbeList{Items: s.probes})
	case "/api/v1/targets":
		send(api.TargetList{Items: s.targets})
	case "/api/v1/incidents":
		send(api.IncidentList{Items: s.past})
	case "/api/v1/maintenance":
		send(api.MaintenanceList{Items: s.windows})
	case "/api/v1/pods":
		var items []object
		for _, p := range s.probes {
			items = append(items, object{"metadata": object{"namespace": p.Namespace, "name": p.Pod, "labels": s.labels[p.Pod]}})
		}
		send(object{"items": items})
	case "/api/v1/report":
		send(s.report(r))
	default:
		http.NotFound(w, r)
	}
}

// report returns the report of a request, as an agent does.
func (s *site) report(r *http.Request) api.Report {
	parts, _ := strconv.Atoi(r.FormValue("parts"))
	since, _ := time.Parse(time.RFC3339Nano, r.FormValue("since"))
	report := api.Report{Since: since, Until: time.Now().UTC(), Items: []api.ReportItem{}}
	if since.Before(s.since) {
		report.Since = s.since
	}
	for _, p := range s.probes {
		i := api.ReportItem{Namespace: p.Namespace, Pod: p.Pod, Container: p.Container, Kind: p.Kind, Seconds: s.seconds[p.Pod]}
		days := s.days[p.Pod]
		if i.Uptime = days[len(days)-1]; parts > 0 {
			i.Parts = days[len(days)-1-parts : len(days)-1]
		}
		report.Items = append(report.Items, i)
	}
	report.Items = append(report.Items, api.ReportItem{Pod: "gone"})
	return report
}

// export runs page export into a new folder, and returns the folder.
func export(t *testing.T, s *site, args ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "status")
	if code, _, stderr := prober(s.url, append([]string{"page", "export", dir}, args...)...); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	return dir
}

func fileOf(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// contentOf returns all files of a folder, and their names.
func contentOf(t *testing.T, dir string) (text string, names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
		text += e.Name() + "\n" + fileOf(t, dir, e.Name())
	}
	return text, names
}

// shop has a target with a name, targets without, a pod, and what must not be public.
func shop(t *testing.T) *site {
	s := newSite(t)
	s.addTarget("checkout", "Checkout", "10.1.2.4:443", "failure")
	s.addTarget("api", "10.1.2.5:443", "10.1.2.5:443", "success")
	s.addTarget("db", "10.1.2.6:443", "10.1.2.6:443", "success")
	s.addTarget("db", "10.1.2.7:443", "10.1.2.7:443", "success")
	s.add("secret-namespace", "cart", "web", "success").Kind = "liveness"
	s.labels["cart"] = object{"team": "front"}
	now := time.Now().UTC()
	checkout := func(from, until time.Duration) api.IncidentPart {
		p := api.IncidentPart{Namespace: "targets", Pod: "checkout-10-1-2-4-443", Container: "target", Kind: "readiness", Target: "secret-target", Since: now.Add(-from), Cause: "secret-text: dial db.internal"}
		if until != 0 {
			p.Until = now.Add(-until)
		}
		return p
	}
	cart := api.IncidentPart{Namespace: "secret-namespace", Pod: "cart", Container: "web", Kind: "liveness", Since: now.Add(-50 * time.Hour), Until: now.Add(-48 * time.Hour)}
	s.past = []api.IncidentStatus{
		{ID: "1", Cause: "secret-shared", Parts: []api.IncidentPart{checkout(50*time.Hour, 49*time.Hour), cart, {Pod: "secret-pod", Since: now.Add(-60 * time.Hour)}}},
		{ID: "2", Cause: "secret-shared", Parts: []api.IncidentPart{checkout(90*time.Minute, 0)}, Notes: []api.IncidentNote{{Time: now, By: "secret-author", Text: "secret-note"}}},
		{ID: "3", Parts: []api.IncidentPart{checkout(40*24*time.Hour, 39*24*time.Hour)}},
		{ID: "4", Parts: []api.IncidentPart{{Pod: "secret-pod", Since: now.Add(-60 * time.Hour)}}},
	}
	s.seconds["checkout-10-1-2-4-443"] = api.StateSeconds{Success: 999, Failure: 1}
	days := s.days["checkout-10-1-2-4-443"]
	days[0], days[87], days[89] = nil, new(0.97), new(0.5)
	s.windows = []api.MaintenanceWindow{
		{Name: "secret-window", Active: true, From: now.Add(-time.Hour), Until: now.Add(time.Hour), Reason: "secret-window-reason", Match: []api.ProbeMatch{{Pod: "car*"}}},
		{Name: "later", From: now.Add(48 * time.Hour), Until: now.Add(49 * time.Hour), Match: []api.ProbeMatch{{Labels: "team=front"}}},
		{Name: "far", From: now.Add(60 * 24 * time.Hour), Until: now.Add(61 * 24 * time.Hour)},
		{Name: "others", Active: true, From: now, Until: now.Add(time.Hour), Match: []api.ProbeMatch{{Namespace: "none"}}},
		{Name: "over"},
		{Name: "silent", Active: true, From: now, Until: now.Add(time.Hour), Receivers: []string{"secret-receiver"}},
	}
	return s
}

func TestPageExportPublishesOnlyNames(t *testing.T) {
	dir := export(t, shop(t), "--all")
	text, names := contentOf(t, dir)
	if found := regexp.MustCompile(`secret|10[.-]1[.-]2|internal|team`).FindAllString(text, -1); found != nil {
		t.Errorf("%q is public", found)
	}
	page := fileOf(t, dir, "index.html")
	for _, want := range []string{
		"<bdi>Checkout</bdi>", "<bdi>api</bdi>", "<bdi>cart/web liveness</bdi>", "<b>99.900%</b> uptime", `<strong class="failure">failure</strong> since <time`,
		"<strong>5 probes: 4 success, 1 failure</strong>", "<strong>In maintenance</strong> from", "<strong>Planned</strong> from",
		"<bdi>Checkout fails</bdi>", "<bdi>Checkout, cart/web liveness failed</bdi>", "<b>2 h</b>", "<bdi>Checkout</bdi> recovered after 1 h", ", continues: <b>1 h 30 min</b>",
		`aria-label="2 of 90 days with incidents"`, ": 97.000%</li>", ": 50.000%</li>", ": not known</li>", "Data from <time",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if n := strings.Count(page, "<section class=\"windows\""); n != 1 || strings.Count(page, "<strong>Planned") != 1 || strings.Contains(page, "39 d") {
		t.Errorf("other windows or old incidents are in\n%s", page)
	}
	if got := regexp.MustCompile(`<bdi>db(?: \(2\))?</bdi></h3>`).FindAllString(page, -1); len(got) != 2 || got[0] == got[1] {
		t.Errorf("the nameless targets are %q", got)
	}
	badge := regexp.MustCompile(`href="(badge-checkout-[0-9a-f]{16}\.svg)"`).FindStringSubmatch(page)
	if badge == nil || !slices.Contains(names, badge[1]) || !strings.Contains(fileOf(t, dir, badge[1]), `aria-label="Checkout: failure 99.900%"`) {
		t.Errorf("no badge among %q", names)
	}
}

func TestPageExportPublishesByChoice(t *testing.T) {
	dir := export(t, shop(t), "--all", "--show-causes", "--show-targets", "--show-reasons", "--show-notes", "--group-by", "label:team", "--title", "Shop",
		"--url", "https://status.example", "--footer-url", "https://shop.example/", "--footer-text", "The shop")
	page := fileOf(t, dir, "index.html")
	for _, want := range []string{
		"secret-cause", "secret-text: dial db.internal", "secret-target", "secret-window-reason", "<bdi>10.1.2.5:443</bdi>", "<bdi>secret-label-db</bdi></h2>",
		"secret-shared", "</time>: <bdi>secret-note</bdi>", `<a href="https://shop.example/">The shop</a>`, "<title>Shop</title>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	var feed struct {
		XMLName xml.Name `xml:"http://www.w3.org/2005/Atom feed"`
		ID      string   `xml:"id"`
		Entries []struct {
			ID      string `xml:"id"`
			Title   string `xml:"title"`
			Content string `xml:"content"`
		} `xml:"entry"`
	}
	if err := xml.Unmarshal([]byte(fileOf(t, dir, "feed.xml")), &feed); err != nil || len(feed.Entries) != 2 || !strings.HasPrefix(feed.ID, "urn:uuid:") {
		t.Errorf("%v, %+v", err, feed)
	}
	if e := feed.Entries[0]; e.Title != "Checkout fails" || !strings.Contains(e.Content, "secret-text") || !strings.Contains(e.Content, "secret-note") || strings.Contains(e.Content, "author") || feed.Entries[1].ID == e.ID {
		t.Errorf("%+v", feed.Entries)
	}
}

// hostile are texts of authors of pods.
var hostile = []string{
	"Other", "", // the name of the group of probes without a label, and such a probe
	"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "../../etc/passwd", "</title><svg/onload=x>", "\u202egnp.exe", "a\x00b\x1b[31m\ufffe", "}}{{.}}", "index.html", "𝒳 ÄÖ日本",
	strings.Repeat("x", 5000), "--><!--", "javascript:alert(1)", "%2e%2e%2f", "CON",
}

func TestPageExportEscapesHostileTexts(t *testing.T) {
	s := newSite(t)
	for i, text := range hostile {
		p := s.add("default", text, "web", "failure")
		p.Cause, p.Target, p.State = text, text, hostile[i%3]
		s.labels[text] = object{"team": text, "index": strconv.Itoa(i)}
		s.past = append(s.past, api.IncidentStatus{
			ID: text, Cause: text, Notes: []api.IncidentNote{{Time: time.Now(), Text: text}},
			Parts: []api.IncidentPart{{Namespace: "default", Pod: text, Container: "web", Kind: "readiness", Since: time.Now().Add(-time.Hour), Cause: text}},
		})
	}
	s.windows = []api.MaintenanceWindow{{Active: true, From: time.Now(), Until: time.Now().Add(time.Hour), Reason: hostile[0]}}
	dir := export(t, s, "--all", "--show-causes", "--show-targets", "--show-reasons", "--show-notes", "--group-by", "label:team", "--title", hostile[2])
	_, names := contentOf(t, dir)
	pages, badges := 0, 0
	for _, name := range names {
		switch text := fileOf(t, dir, name); {
		case name == ".prober-page":
		case !regexp.MustCompile(`^[a-z0-9-]{1,80}\.(html|svg|xml)$`).MatchString(name):
			t.Errorf("the file name %q", name)
		case strings.HasSuffix(name, ".html"):
			pages++
			checkHTML(t, name, text)
		default:
			badges++
			checkXML(t, name, text)
		}
	}
	if pages == 0 || badges < 2*len(hostile) {
		t.Errorf("%d pages, %d badges", pages, badges)
	}
}

// checkXML fails the test if a document is not well-formed, or runs a script.
func checkXML(t *testing.T, name, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict = true
	for {
		token, err := d.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			return
		}
		if e, ok := token.(xml.StartElement); ok && (e.Name.Local == "script" || e.Name.Local == "img") {
			t.Errorf("%s has %v", name, e.Name)
		}
	}
}

// void are the elements without an end.
var void = []string{"meta", "link"}

// checkHTML fails the test if a page is not what the parser of another project makes of it: if elements are not
// closed, an ID is used twice, or there is anything that runs or loads.
func checkHTML(t *testing.T, name, text string) {
	t.Helper()
	z := html.NewTokenizer(strings.NewReader(text))
	var open []string
	ids := make(map[string]bool)
	for {
		switch z.Next() {
		case html.ErrorToken:
			if z.Err() != io.EOF || len(open) > 0 {
				t.Errorf("%s: %v, open: %q", name, z.Err(), open)
			}
			return
		case html.StartTagToken:
			token := z.Token()
			checkElement(t, name, token, ids)
			if !slices.Contains(void, token.Data) {
				open = append(open, token.Data)
			}
		case html.SelfClosingTagToken:
			checkElement(t, name, z.Token(), ids)
		case html.EndTagToken:
			token := z.Token()
			if len(open) == 0 || open[len(open)-1] != token.Data {
				t.Fatalf("%s: </%s> ends %q", name, token.Data, open)
			}
			open = open[:len(open)-1]
		case html.TextToken:
			if bad := regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\ufffe]").FindString(z.Token().Data); bad != "" {
				t.Errorf("%s has the character %q", name, bad)
			}
		}
	}
}

func checkElement(t *testing.T, name string, token html.Token, ids map[string]bool) {
	t.Helper()
	if slices.Contains([]string{"script", "img", "iframe", "object", "embed", "form", "base"}, token.Data) {
		t.Errorf("%s has %s", name, token)
	}
	for _, a := range token.Attr {
		switch {
		case strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "src":
			t.Errorf("%s has %s", name, token)
		case a.Key == "id" && ids[a.Val]:
			t.Errorf("%s has the ID %s twice", name, a.Val)
		case a.Key == "id":
			ids[a.Val] = true
		case a.Key == "href" && !regexp.MustCompile(`^(#m-[a-z]+|[a-z0-9-]+\.(html|svg|xml))$`).MatchString(a.Val):
			t.Errorf("%s links to %q", name, a.Val)
		}
	}
}

func TestPageExportSplitsLargePages(t *testing.T) {
	s := newSite(t)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 600 {
		name := fmt.Sprintf("target-%04d.example", i)
		s.addTarget("web", name, fmt.Sprintf("10.0.%d.%d:443", i/256, i%256), "success")
		pod := s.targets[i].Pod
		s.labels[pod]["team"] = []string{"large", "large", "large", "small"}[i%4]
		s.days[pod] = nil
		for range publicpage.Days {
			s.days[pod] = append(s.days[pod], new(random.Float64()))
		}
	}
	for range 400 {
		n := api.IncidentStatus{ID: strconv.Itoa(random.Int()), Cause: strings.Repeat("<", 200)}
		for i := range 50 {
			at := time.Now().Add(-time.Duration(i) * time.Hour)
			n.Parts = append(n.Parts, api.IncidentPart{Namespace: "targets", Pod: s.probes[i].Pod, Container: "target", Kind: "readiness", Since: at, Cause: strings.Repeat("<", 200)})
		}
		for range 20 {
			n.Notes = append(n.Notes, api.IncidentNote{Time: time.Now(), Text: strings.Repeat("<", 256)})
		}
		s.past = append(s.past, n)
	}
	begun := time.Now()
	dir := export(t, s, "--all", "--group-by", "label:team", "--show-causes", "--show-notes")
	took := time.Since(begun)
	_, names := contentOf(t, dir)
	total, pages, rows := 0, 0, 0
	links := make(map[string]bool)
	for _, name := range names {
		text := fileOf(t, dir, name)
		total += len(text)
		if !strings.HasSuffix(name, ".html") {
			continue
		}
		if pages++; len(text) > publicpage.MaxPage {
			t.Errorf("%s has %d bytes", name, len(text))
		}
		rows += strings.Count(text, `<li class="probe">`)
		if pages < 4 {
			checkHTML(t, name, text)
		}
		for _, l := range regexp.MustCompile(`href="((?:group|index)[a-z0-9-]*\.html)"`).FindAllStringSubmatch(text, -1) {
			links[l[1]] = true
		}
	}
	if rows != 600 || pages < 5 || pages != len(links) {
		t.Errorf("%d probes on %d pages, of which %d are linked", rows, pages, len(links))
	}
	t.Logf("%d pages, %d files, %d bytes, %v", pages, len(names), total, took)
}

func TestPageExportOfSteadyProbesIsOnePage(t *testing.T) {
	s := newSite(t)
	for i := range 300 {
		s.addTarget("web", fmt.Sprintf("target-%04d.example", i), fmt.Sprintf("10.0.%d.%d:443", i/256, i%256), "success")
	}
	dir := export(t, s, "--all")
	if pages, _ := filepath.Glob(dir + "/*.html"); len(pages) != 1 {
		t.Errorf("the pages %q", pages)
	}
	if page := fileOf(t, dir, "index.html"); !strings.Contains(page, "<strong>All probes succeed</strong>") || !strings.Contains(page, "No incidents.") {
		t.Error(page[:5000])
	}
}

func TestPageExportWithShortHistory(t *testing.T) {
	s := shop(t)
	s.since = time.Now().Add(-50 * time.Hour).UTC()
	page := fileOf(t, export(t, s, "cart"), "index.html")
	for _, want := range []string{"Data from <time datetime=\"" + s.since.Format(time.RFC3339)} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if strings.Contains(page, "Checkout") {
		t.Errorf("a probe that is not selected is public:\n%s", page)
	}
}

func TestPageExportFailureKeepsOldFiles(t *testing.T) {
	s := shop(t)
	dir := export(t, s, "--all")
	before, names := contentOf(t, dir)
	for _, c := range []struct {
		prepare func()
		code    int
		stderr  string
	}{
		{func() { s.down = true }, 3, "EOF"},
		{func() { s.down, s.probes = false, nil }, 1, "no probe of the agent"},
		{func() { _ = os.WriteFile(filepath.Join(dir, "foreign.html"), nil, 0o600) }, 1, `has files that are not of a public page: "foreign.html"`},
	} {
		s.mu.Lock()
		c.prepare()
		s.mu.Unlock()
		code, stdout, stderr := prober(s.url, "page", "export", dir, "--all")
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.stderr) {
			t.Errorf("exit code %d, %s%s", code, stdout, stderr)
		}
	}
	if err := os.Remove(filepath.Join(dir, "foreign.html")); err != nil {
		t.Fatal(err)
	}
	if after, _ := contentOf(t, dir); after != before {
		t.Errorf("the files %q have changed", names)
	}
}

func TestPageExportRemovesOldFiles(t *testing.T) {
	s := shop(t)
	dir := export(t, s, "--all", "--group-by", "label:team")
	if code, stdout, stderr := prober(s.url, "page", "export", dir, "cart", "nosuch"); code != 1 || stdout != "1 probe exported to "+dir+"\n" || !strings.Contains(stderr, "no probe of nosuch") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	_, names := contentOf(t, dir)
	slices.Sort(names)
	for i, want := range []string{`\.prober-page`, `badge-cart-web-liveness-[0-9a-f]{16}\.svg`, `badge\.svg`, `feed\.xml`, `icon\.svg`, `index\.html`} {
		if i >= len(names) || !regexp.MustCompile("^"+want+"$").MatchString(names[i]) || len(names) != 6 {
			t.Fatalf("the files are %q", names)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "index.html"))
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestPageExportEverySaysHowOldDataIs(t *testing.T) {
	s := shop(t)
	s.asked = make(chan struct{})
	dir := filepath.Join(t.TempDir(), "status")
	signals, ended := make(chan os.Signal, 1), make(chan string, 1)
	go func() {
		code, stdout, stderr := clitest.Run(signals, "page", "export", dir, "--server", s.url, "--all", "--every", "1s")
		ended <- fmt.Sprint(code, stdout, stderr)
	}()
	after := func(down bool) (page, badge string) { // an export that begins with the agent up or down
		s.mu.Lock()
		s.down = down
		s.mu.Unlock()
		<-s.asked
		<-s.asked // the export before has ended
		if down { // the page must not change any more in its contents
			<-s.asked
		}
		return fileOf(t, dir, "index.html"), fileOf(t, dir, "badge.svg")
	}
	const old = "The data is old: it ends at <time"
	if page, badge := after(false); strings.Contains(page, old) || !strings.Contains(badge, "Status: failure") {
		t.Error(page, badge)
	}
	page, badge := after(true)
	if !strings.Contains(page, old) || !strings.Contains(page, "<bdi>Checkout</bdi>") || !strings.Contains(badge, "Status: unknown") {
		t.Error(page, badge)
	}
	times := regexp.MustCompile(`Data from .*? to (<time.*?)\. Exported at (<time.*?)\.`).FindStringSubmatch(page)
	if times == nil || times[1] == times[2] || !strings.Contains(page, "it ends at "+times[1]) {
		t.Errorf("the times %q", times)
	}
	if page, _ := after(false); strings.Contains(page, old) {
		t.Error(page)
	}
	signals <- os.Interrupt
	go func() {
		for range s.asked { // an export may have begun
		}
	}()
	got := <-ended
	close(s.asked)
	if !regexp.MustCompile(`^0(prober: warning: .*\n)+prober: the export works again\n$`).MatchString(got) {
		t.Errorf("%q", got)
	}
}

func TestPageExportUsage(t *testing.T) {
	for _, c := range []struct{ args, stderr string }{
		{"", "a folder is required"},
		{"out", "a name of probes, -l or --all is required\nprober: hint: prober page export out shop/web"},
		{"out --all --group-by team", `--group-by unknown value "team"; known: container, handler, kind, label:team, namespace, pod`},
		{"out --all --every 10ms", "--every 10ms: must be at least 1s, or 0"},
		{"out --all --url status.example", `--url "status.example" must be a URL with http, https`},
		{"out --all --footer-url javascript:alert(1)", `--footer-url "javascript:alert(1)" must be a URL with http, https, mailto`},
	} {
		if code, stdout, stderr := prober("127.0.0.1:1", append([]string{"page", "export"}, strings.Fields(c.args)...)...); code != 64 || stdout != "" || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: exit code %d, %s%s", c.args, code, stdout, stderr)
		}
	}
}

// The cause of an incident is published if all of its probes are, since it may name any of them.
func TestPageExportPublishesCausesOfPublicIncidents(t *testing.T) {
	s := shop(t)
	s.past[0].Cause, s.past[1].Cause = "hidden-cause", "public-cause" // the first one has a pod that is not selected
	text, _ := contentOf(t, export(t, s, "--all", "--show-causes"))
	if strings.Contains(text, "hidden-cause") || !strings.Contains(text, "public-cause") {
		t.Errorf("the causes are wrong in\n%s", text)
	}
}

// A pod that is named by the address of its target makes no group of that name.
func TestPageExportByPodHidesAddresses(t *testing.T) {
	text, names := contentOf(t, export(t, shop(t), "--all", "--group-by", "pod"))
	if found := regexp.MustCompile(`10[.-]1[.-]2`).FindAllString(text+strings.Join(names, " "), -1); found != nil {
		t.Errorf("%q is public", found)
	}
}
