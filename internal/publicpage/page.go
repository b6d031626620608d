package publicpage

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/notify/format"
)

// Days is the number of days with a bar. The last one is the day of [Page].Until, in UTC.
const Days = 90

const (
	maxName = 100 // characters of a name, a group or a title
	maxText = 200 // characters of a cause, a target or a reason
	maxNote = 256 // characters of a note

	maxNames = 10 // names of an incident or a maintenance window
	maxFeed  = 50 // incidents in the feed
)

// Page has everything that is published. Its texts may have any characters.
type Page struct {
	Title    string
	Link     Link      // in the footer; empty for none
	URL      string    // address of the page, for readers of the feed; "" if it is unknown
	Exported time.Time // when the page was made
	Begin    time.Time // begin of the first day
	Since    time.Time // begin of the history
	Until    time.Time // end of the data
	// Stale means that the agent did not answer for the export, so that the data is from an earlier one.
	Stale     bool
	Grouped   bool // whether probes have groups
	Probes    []Probe
	Windows   []Window
	Incidents []Incident
}

// Link is a link in the footer.
type Link struct{ URL, Text string }

// Probe is a published probe.
type Probe struct {
	Name    string // unique
	Group   string
	State   string           // one of [api.States]
	Word    string           // the state for people
	Since   time.Time        // begin of the state; zero if it is unknown
	Seconds api.StateSeconds // in all days
	Days    []*float64       // uptimes from 0 to 1 of at most [Days] days, oldest first; nil where it is unknown
	Cause   string           // "" if it is not published
	Target  string           // "" if it is not published
}

// Window is a maintenance window.
type Window struct {
	From, Until time.Time
	Active      bool
	Reason      string   // "" if it is not published
	Names       []string // of its probes
}

// worst has the states of probes, the worst first. Failures that are paused or in maintenance are no alarm.
var worst = []string{"failure", "unknown", "warning", api.InMaintenance, api.Paused, "success"}

// shown returns state, or "unknown" for a state that this package does not know.
func shown(state string) string {
	if !slices.Contains(worst, state) {
		return "unknown"
	}
	return state
}

// group is a set of probes.
type group struct {
	key     string // of the probes; "" if they have none
	name    string
	probes  []*Probe
	counts  api.Counts
	seconds api.StateSeconds
}

func newGroup(key, name string) *group { return &group{key: key, name: name, counts: make(api.Counts)} }

func (g *group) add(p *Probe) {
	g.probes = append(g.probes, p)
	g.counts[shown(p.State)]++
	s := &g.seconds
	s.Success, s.Warning, s.Failure = s.Success+p.Seconds.Success, s.Warning+p.Seconds.Warning, s.Failure+p.Seconds.Failure
}

// state returns the worst state of the probes.
func (g *group) state() string {
	i := slices.IndexFunc(worst, func(state string) bool { return g.counts[state] > 0 })
	if i < 0 {
		return "unknown"
	}
	return worst[i]
}

// other is the name of the group of probes without one.
const other = "Other"

// groups returns all probes, and the groups by name. The probes without a group are last.
func (p *Page) groups() (all *group, groups []*group) {
	all = newGroup("", p.Title)
	named := make(map[string]*group)
	for i := range p.Probes {
		of := &p.Probes[i]
		all.add(of)
		if named[of.Group] == nil {
			named[of.Group] = newGroup(of.Group, cmp.Or(of.Group, other))
			groups = append(groups, named[of.Group])
		}
		named[of.Group].add(of)
	}
	slices.SortFunc(groups, func(a, b *group) int {
		if last := named[""]; a == last || b == last {
			return cmp.Compare(fromBool(a == last), fromBool(b == last))
		}
		return strings.Compare(a.name, b.name)
	})
	for _, g := range append(groups, all) {
		slices.SortFunc(g.probes, func(a, b *Probe) int { return strings.Compare(a.Name, b.Name) })
	}
	return all, groups
}

func fromBool(b bool) int {
	if b {
		return 1
	}
	return 0
}

// clean returns a text for readers: one line without characters that hide or reorder others.
func clean(text string, most int) string { return format.Clean(text, most) }

// fileName returns the stable name of a file for something with a name, such as "badge-shop-0123456789abcdef.svg".
// It depends on nothing else, so that it reveals nothing else.
func fileName(kind, name, extension string) string {
	const most = 40 // characters of the name
	var slug strings.Builder
	for _, r := range strings.ToLower(name) {
		valid := 'a' <= r && r <= 'z' || '0' <= r && r <= '9'
		if text := slug.String(); !valid && (text == "" || strings.HasSuffix(text, "-")) {
			continue
		}
		if !valid {
			r = '-'
		}
		if slug.WriteRune(r); slug.Len() >= most {
			break
		}
	}
	if slug.Len() > 0 && !strings.HasSuffix(slug.String(), "-") {
		slug.WriteByte('-')
	}
	sum := sha256.Sum256([]byte(name))
	return kind + "-" + slug.String() + hex.EncodeToString(sum[:8]) + extension
}

// badgeOf and groupBadge return the names of the badges.
func badgeOf(p *Probe) string    { return fileName("badge", p.Name, ".svg") }
func groupBadge(g *group) string { return fileName("badge-group", g.key, ".svg") }

// partName returns the name of a part of a page, of which the first one is file.
func partName(file string, part int) string {
	if part == 1 {
		return file
	}
	return fmt.Sprintf("%s-%d.html", strings.TrimSuffix(file, ".html"), part)
}
