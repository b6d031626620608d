package publicpage

import (
	"fmt"
	"html"
	"html/template"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/api"
)

// run is consecutive days with the same uptime.
type run struct {
	first, days int // of the page's days
	uptime      *float64
}

// runsOf returns the days as runs.
func runsOf(days []*float64) (all []run) {
	for i, up := range days[:min(len(days), Days)] {
		if n := len(all); n > 0 && equal(all[n-1].uptime, up) {
			all[n-1].days++
			continue
		}
		all = append(all, run{i, 1, up})
	}
	return all
}

func equal(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// text returns the days and their uptime, such as "2026-11-29 to 2026-11-30: 100%".
func (r *run) text(begin time.Time) string {
	day := func(n int) string { return begin.AddDate(0, 0, n).Format(time.DateOnly) }
	text := day(r.first)
	if r.days > 1 {
		text += " to " + day(r.first+r.days-1)
	}
	return text + ": " + percent(r.uptime)
}

// percent returns the uptime of a day.
func percent(up *float64) string {
	if up == nil {
		return "not known"
	}
	const day = 24 * 60 * 60
	share := min(max(*up, 0), 1)
	s := api.StateSeconds{Success: share * day, Failure: (1 - share) * day}
	return s.Uptime()
}

// good is the uptime of a day from which on it is a warning, as on the page of the agent.
const good = 0.95

// state returns the state that colors a bar.
func (r *run) state() string {
	switch {
	case r.uptime == nil:
		return "unknown"
	case *r.uptime >= 1:
		return "success"
	case *r.uptime >= good:
		return "warning"
	default:
		return "failure"
	}
}

// heights are the heights of bars, so that they differ in more than their color.
var heights = map[string]int{"success": 14, "warning": 19, "failure": 24, "unknown": 4}

const (
	barWidth  = 4 // with the gap to the next bar
	barHeight = 24
)

// barsOf returns the bars of a probe as SVG. Dashes of one line are the bars of a run, so that the size of the
// page depends on the changes only.
func barsOf(runs []run, begin time.Time) template.HTML {
	var b strings.Builder
	days, bad := 0, 0
	for i := range runs {
		days += runs[i].days
		if up := runs[i].uptime; up != nil && *up < 1 {
			bad += runs[i].days
		}
	}
	fmt.Fprintf(&b, `<svg class="bars" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%d of %d days with incidents">`,
		Days*barWidth, barHeight, bad, days)
	for i := range runs {
		r := &runs[i]
		state := r.state()
		fmt.Fprintf(&b, `<path class="b %s" d="M%d %dh%d"><title>%s</title></path>`,
			state, (Days-days+r.first)*barWidth, barHeight-heights[state]/2, r.days*barWidth, html.EscapeString(r.text(begin)))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}
