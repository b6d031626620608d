package publicpage

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/api"
)

//go:embed static
var static embed.FS

// MaxPage is the limit of a page, in bytes. If all probes need more, groups have pages of their own, and a larger
// group has several.
const MaxPage = 1 << 20

// Limits of the parts of a page.
const (
	maxRows          = MaxPage * 5 / 8 // bytes of probes or groups
	maxIncidentBytes = MaxPage / 4
	maxWindows       = 50
)

// renderer makes the files of a page.
type renderer struct {
	page      *Page
	title     string
	all       *group
	groups    []*group
	incidents []*Incident
	templates *template.Template
	style     template.CSS
	policy    string
}

func newRenderer(p *Page) (*renderer, error) {
	r := &renderer{page: p, title: clean(p.Title, maxName)}
	r.all, r.groups = p.groups()
	r.incidents = p.incidents()
	var err error
	if r.templates, err = template.ParseFS(static, "static/page.html"); err != nil {
		return nil, err
	}
	text, err := static.ReadFile("static/style.css")
	if err != nil {
		return nil, err
	}
	var vars [2]string
	for i := range vars {
		for _, state := range []string{"success", "warning", "failure", "unknown"} {
			vars[i] += "--" + state + ":" + colors[state][i] + ";"
		}
	}
	style := ":root{" + vars[0] + "}@media (prefers-color-scheme:dark){:root{" + vars[1] + "}}\n" + string(text)
	sum := sha256.Sum256([]byte(style))
	r.style = template.CSS(style)
	r.policy = "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; img-src 'self'; base-uri 'none'; form-action 'none'"
	return r, nil
}

// Write calls put with the name and the contents of each file. [IsOurs] is true for the names.
func (p *Page) Write(put func(name string, data []byte) error) error {
	r, err := newRenderer(p)
	if err != nil {
		return err
	}
	if err := r.badges(put); err != nil {
		return err
	}
	feed, err := r.feed()
	if err == nil {
		err = put(feedFile, feed)
	}
	if err != nil {
		return err
	}
	return r.pages(put)
}

// badges writes the badges and the icon. A badge does not say when the data ended, so that old data is unknown.
func (r *renderer) badges(put func(string, []byte) error) error {
	now := func(state, word, uptime string) (string, string, string) {
		if r.page.Stale {
			return "unknown", "unknown", ""
		}
		return state, word, uptime
	}
	write := func(file, name, state, word, uptime string) error {
		state, word, uptime = now(shown(state), word, uptime)
		return put(file, badge(name, word, state, uptime))
	}
	for i := range r.page.Probes {
		p := &r.page.Probes[i]
		if err := write(badgeOf(p), p.Name, p.State, clean(p.Word, maxName), p.Seconds.Uptime()); err != nil {
			return err
		}
	}
	for _, g := range r.groups {
		if r.page.Grouped {
			if err := write(groupBadge(g), g.name, g.state(), g.state(), g.seconds.Uptime()); err != nil {
				return err
			}
		}
	}
	state, _, _ := now(r.all.state(), "", "")
	if err := put(iconFile, icon(state)); err != nil {
		return err
	}
	return write(allBadge, r.title, r.all.state(), r.all.state(), r.all.seconds.Uptime())
}

// pages writes the pages: one with all probes or, if it is too large, one or more for each group.
func (r *renderer) pages(put func(string, []byte) error) error {
	sections, size := make([]section, len(r.groups)), 0
	for i, g := range r.groups {
		sections[i] = r.section(g)
		for k := range g.probes {
			row, err := r.row(g.probes[k])
			if err != nil {
				return err
			}
			if size += len(row); size > maxRows {
				return r.split(put)
			}
			sections[i].Rows = append(sections[i].Rows, row)
		}
	}
	return r.write(put, indexFile, view{Index: true, Sections: sections})
}

// split writes a page with the groups, and the pages of the groups.
func (r *renderer) split(put func(string, []byte) error) error {
	links := parts{r: r, put: put, file: indexFile, base: view{Index: true}}
	for _, g := range r.groups {
		file := fileName("group", g.key, ".html")
		s := r.section(g)
		of := parts{r: r, put: put, file: file, base: view{Heading: s.Name, Sections: []section{s}}}
		for _, p := range g.probes {
			row, err := r.row(p)
			if err == nil {
				err = of.add(row)
			}
			if err != nil {
				return err
			}
		}
		if err := of.flush(false); err != nil {
			return err
		}
		s.File = file
		row, err := r.execute("link", s)
		if err == nil {
			err = links.add(row)
		}
		if err != nil {
			return err
		}
	}
	return links.flush(false)
}

// parts writes the parts of a page that would be too large.
type parts struct {
	r    *renderer
	put  func(string, []byte) error
	file string
	base view
	rows []template.HTML
	size int
	n    int
}

func (p *parts) add(row template.HTML) error {
	if p.size+len(row) > maxRows && len(p.rows) > 0 {
		if err := p.flush(true); err != nil {
			return err
		}
	}
	p.rows, p.size = append(p.rows, row), p.size+len(row)
	return nil
}

// flush writes a part. more reports whether another one follows.
func (p *parts) flush(more bool) error {
	p.n++
	v := p.base
	if v.Part = p.n; p.n > 1 {
		v.Index, v.Previous = false, partName(p.file, p.n-1)
	}
	if more {
		v.Next = partName(p.file, p.n+1)
	}
	if len(v.Sections) == 0 {
		v.Links = p.rows
	} else {
		s := v.Sections[0]
		s.Rows = p.rows
		v.Sections = []section{s}
	}
	p.rows, p.size = nil, 0
	return p.r.write(p.put, partName(p.file, p.n), v)
}

// view is what the template of a page shows. Index means the first page, which has incidents and windows.
type view struct {
	Index          bool
	Heading        string // of the page of a group
	Part           int
	Previous, Next string
	Sections       []section
	Links          []template.HTML

	Title, Policy          string
	Style                  template.CSS
	Stale, Grouped         bool
	Exported, Since, Until moment
	Summary                string
	State                  string
	Windows                []windowView
	Incidents              []template.HTML
	More                   bool
	Lately                 int // days
	Link                   Link
	Marks                  map[string]string
}

type section struct {
	Name, State, Counts, Uptime string
	ID, Badge, File             string
	Rows                        []template.HTML
}

func (r *renderer) section(g *group) section {
	return section{
		Name: clean(g.name, maxName), State: g.state(), Counts: g.counts.String(), Uptime: g.seconds.Uptime(),
		ID: fileName("group", g.key, ""), Badge: groupBadge(g),
	}
}

// moment is a time for people and programs.
type moment struct{ time.Time }

// Text returns the time in UTC.
func (m moment) Text() string { return m.UTC().Format("2006-01-02 15:04 UTC") }

// Machine returns the time for the attribute datetime.
func (m moment) Machine() string { return rfc3339(m.Time) }

// Known reports whether there is a time.
func (m moment) Known() bool { return !m.IsZero() }

// rowView is a probe.
type rowView struct {
	Name, State, Word, Uptime, Badge, Cause, Target string
	Since                                           moment
	Bars                                            template.HTML
	Days                                            []string
}

// row returns a probe as HTML.
func (r *renderer) row(p *Probe) (template.HTML, error) {
	v := rowView{
		Name: clean(p.Name, maxName), State: shown(p.State), Word: clean(p.Word, maxName), Uptime: p.Seconds.Uptime(), Since: moment{p.Since},
		Badge: badgeOf(p), Cause: clean(p.Cause, maxText), Target: clean(p.Target, maxText),
	}
	runs := runsOf(p.Days)
	v.Bars = barsOf(runs, r.page.Begin)
	for i := range runs {
		v.Days = append(v.Days, runs[i].text(r.page.Begin))
	}
	return r.execute("probe", v)
}

func (r *renderer) execute(name string, v any) (template.HTML, error) {
	var b bytes.Buffer
	err := r.templates.ExecuteTemplate(&b, name, v)
	return template.HTML(b.String()), err
}

// windowView is a maintenance window.
type windowView struct {
	Active      bool
	From, Until moment
	Reason      string
	Names       string
}

// summary returns the present state of all probes.
func (r *renderer) summary() string {
	c := r.all.counts
	if c["success"] == 0 || c["success"]+c[api.Paused]+c[api.InMaintenance] < len(r.all.probes) {
		return c.String()
	}
	text := "All probes succeed"
	if n := c[api.Paused]; n > 0 {
		text += fmt.Sprintf(", %d paused", n)
	}
	if n := c[api.InMaintenance]; n > 0 {
		text += fmt.Sprintf(", %d in maintenance", n)
	}
	return text
}

// write completes the view of a page, and writes it.
func (r *renderer) write(put func(string, []byte) error, file string, v view) error {
	p := r.page
	v.Title, v.Policy, v.Style = r.title, r.policy, r.style
	v.Stale, v.Grouped, v.Exported, v.Since, v.Until = p.Stale, p.Grouped, moment{p.Exported}, moment{p.Since}, moment{p.Until}
	v.Summary, v.State, v.Link, v.Marks = r.summary(), r.all.state(), Link{p.Link.URL, clean(p.Link.Text, maxName)}, marks
	if p.Stale {
		v.State = "unknown"
	}
	v.Lately = int(Lately.Hours() / 24)
	if v.Index {
		if err := r.index(&v); err != nil {
			return err
		}
	}
	text, err := r.execute("page", &v)
	if err != nil {
		return err
	}
	return put(file, []byte(text))
}

// index adds the windows and the incidents.
func (r *renderer) index(v *view) error {
	for _, w := range r.page.Windows[:min(len(r.page.Windows), maxWindows)] {
		var names []string
		for _, n := range w.Names[:min(len(w.Names), maxNames)] {
			names = append(names, clean(n, maxName))
		}
		text := strings.Join(names, ", ")
		if more := len(w.Names) - maxNames; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		v.Windows = append(v.Windows, windowView{w.Active, moment{w.From}, moment{w.Until}, clean(w.Reason, maxText), text})
	}
	size := 0
	for _, n := range r.incidents {
		row, err := r.execute("incident", n.view(r.page.Until))
		if err != nil {
			return err
		}
		if size += len(row); size > maxIncidentBytes {
			v.More = true
			break
		}
		v.Incidents = append(v.Incidents, row)
	}
	return nil
}
