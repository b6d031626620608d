package incidents

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

const (
	maxWords  = 80 // bytes of the words for a cause
	maxCauses = 2  // that a title names
)

// title returns the words for the cause of a group, and the feature by which it is known again.
func (f *finder) title(g *group) (text string, by feature) {
	if g.by.class == byRest {
		return "other causes", g.by
	}
	causes := g.causes()
	first := g.members[0]
	place, named := f.place(g)
	if len(causes) == 1 {
		text = words(first)
		if named && (hasPlace(probe.Reason(first.cause.Reason)) || place.class == byPod) {
			text += " " + prepositions[place.class] + " " + place.String()
		}
		return text, first.causeFeature()
	}
	if !named {
		place = g.by
	}
	var each []string
	for _, c := range causes[:min(len(causes), maxCauses)] {
		each = append(each, words(c.first))
	}
	text = place.String() + ": " + strings.Join(each, ", ")
	if more := len(causes) - maxCauses; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text, g.by
}

// counted is a cause of a group.
type counted struct {
	count int
	first *failure
}

// causes returns the causes of a group, the most frequent first, and of equal ones the earliest.
func (g *group) causes() (all []*counted) {
	known := make(map[feature]*counted)
	for _, p := range g.members {
		cause := p.causeFeature()
		if known[cause] == nil {
			known[cause] = &counted{first: p}
			all = append(all, known[cause])
		}
		known[cause].count++
	}
	slices.SortStableFunc(all, func(a, b *counted) int { return cmp.Compare(b.count, a.count) })
	return all
}

// titleOrder has the classes of places that a title may name, the most specific first.
var titleOrder = []class{byPod, byAddress, byPath, byRange, byPlugin, byGroup, byLabel}

// place returns the most specific place that all members of a group share, and few healthy probes.
func (f *finder) place(g *group) (best feature, ok bool) {
	shared := g.members[0].places(nil)
	for _, p := range g.members[1:] {
		if len(shared) == 0 {
			return feature{}, false
		}
		f.buffer = p.places(f.buffer[:0])
		shared = slices.DeleteFunc(shared, func(x feature) bool { return !slices.Contains(f.buffer, x) })
	}
	shared = slices.DeleteFunc(shared, func(x feature) bool { return !f.isPlace(&x, len(g.members)) })
	if len(shared) == 0 {
		return feature{}, false
	}
	return slices.MinFunc(shared, func(a, b feature) int {
		return cmp.Or(cmp.Compare(slices.Index(titleOrder, a.class), slices.Index(titleOrder, b.class)), a.compare(&b))
	}), true
}

// isPlace reports whether a title of n members may name a feature that they share.
func (f *finder) isPlace(x *feature, n int) bool {
	if x.class == byRange && n < minSpots {
		return false
	}
	return x.class == byPod || f.healthyWith(x)*failingPerHealthy <= n
}

// healthyWith returns the number of healthy probes with a feature of a failing one.
func (f *finder) healthyWith(x *feature) int {
	if id, ok := f.ids[*x]; ok {
		return f.traits[id].healthy
	}
	return 0
}

// prepositions are the words before a place, by its class.
var prepositions = map[class]string{
	byPod: "at", byAddress: "from", byPath: "at", byRange: "from", byPlugin: "with", byGroup: "in", byLabel: "with",
}

// String returns the words for a place.
func (f *feature) String() string {
	text := f.text
	switch {
	case f.class == byRange:
		text = rangeOf(f.addr).String()
	case f.addr.IsValid():
		text = f.addr.String()
	case f.class == byPlugin:
		text = "plugin " + text
	case f.class == byLabel:
		text = f.name + "=" + text
	case f.class == byGroup:
		text = "group " + text
	}
	return clip.Text(explain.OneLine(text), maxWords)
}

// reasonWords are the words for causes whose texts are not shown.
var reasonWords = map[probe.Reason]string{
	probe.ReasonDNS:                  "DNS",
	probe.ReasonConnectRefused:       "connection refused",
	probe.ReasonConnectTimeout:       "connection timeout",
	probe.ReasonTLS:                  "TLS",
	probe.ReasonDeadline:             "timeout",
	probe.ReasonHostStall:            "this host is stalled",
	probe.ReasonHostResources:        "this host is out of resources",
	probe.ReasonHostNetwork:          "this host has no network",
	probe.Reason(results.NotRunning): "container not running",
}

// words returns the words for the cause of a failing probe.
func words(p *failure) string {
	reason := probe.Reason(p.cause.Reason)
	switch text, ok := reasonWords[reason]; {
	case ok:
		return text
	case isPluginFault(reason):
		return "plugin " + p.Handler + ": " + string(reason)
	case reason == probe.ReasonDependency && len(p.DependsOn) > 0:
		return p.DependsOn[0] + " fails"
	}
	text := explain.OneLine(p.cause.Text)
	if status, ok := strings.CutPrefix(text, "HTTP probe failed with statuscode: "); ok && reason == probe.ReasonHTTPStatus {
		text = "HTTP " + status
	}
	return clip.Text(cmp.Or(text, string(reason), "no output"), maxWords)
}
