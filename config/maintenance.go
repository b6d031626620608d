package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/daeace23/prober/internal/window"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin"
)

const (
	// MaxReason is the limit of the reason of a pause or a maintenance window, in bytes.
	MaxReason = 256

	maxMaintenance = 1000 // windows
)

// Maintenance is a maintenance window: receivers get no message about failures of its probes that begin
// within it.
type Maintenance struct {
	Name   string
	Match  []ProbeMatch // selects probes that match at least one; empty: all probes
	Window window.Window
	Reason string
	Uptime UptimeRule

	Line int // in the file, for later errors
}

// UptimeRule says how reports count the time of a maintenance window.
type UptimeRule string

// The values of [Maintenance.Uptime].
const (
	UptimeExclude UptimeRule = "exclude" // the time counts for no state
	UptimeCount   UptimeRule = "count"   // the time counts for the state of the probe
)

// Equal reports whether m and other are equal except for their position in the file.
func (m *Maintenance) Equal(other *Maintenance) bool {
	a, b := *m, *other
	a.Line, b.Line = 0, 0
	return reflect.DeepEqual(a, b)
}

func (d *decoder) maintenance(a *Agent) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		d.Items(n, path, func(n *yamlpos.Node, path string) {
			before := len(d.selectors)
			m, fields := Maintenance{Line: n.Line, Uptime: UptimeExclude}, windowFields{}
			d.Mapping(n, path, d.windowFields(&fields, yamlpos.Fields{
				"name": d.NonEmpty(&m.Name), "match": d.ListOf(d.probeMatch(&m.Match)),
				"reason": yamlpos.Parsed(&d.Decoder, &m.Reason, ParseReason),
				"uptime": yamlpos.OneOf(&d.Decoder, &m.Uptime, UptimeExclude, UptimeCount),
			}), "name")
			if m.Name != "" && !plugin.ValidName(m.Name) {
				d.Errorf(n, path+".name", "%.80q is not a name: must be at most 63 lower-case letters, digits and dashes", m.Name)
			}
			m.Window = d.window(n, path, &fields)
			d.selectorsSince(before, func(s *Selector) {
				s.over = func(now time.Time) bool { begin, _ := m.Window.Next(now); return begin.IsZero() }
			})
			a.Maintenance = append(a.Maintenance, m)
		})
		checkNames(d, n, path, a.Maintenance, maxMaintenance, func(m *Maintenance) (string, int) { return m.Name, m.Line })
	}
}

// checkNames reports a list with more than most items, and names that are set twice. name returns the name and the line
// of an item.
func checkNames[T any](d *decoder, n *yamlpos.Node, path string, all []T, most int, name func(*T) (string, int)) {
	if len(all) > most {
		d.Errorf(n, path, "must have at most %d items", most)
	}
	lines := make(map[string]int)
	for i := range all {
		own, line := name(&all[i])
		if first, ok := lines[own]; ok && own != "" {
			d.ErrorAt(line, yamlpos.Item(path, i)+".name", fmt.Errorf("%q is set twice, first on line %d", own, first))
			continue
		}
		lines[own] = line
	}
}

// ParseReason returns text without surrounding spaces. It returns an error if text is not valid as the reason
// of a pause or a maintenance window.
func ParseReason(text string) (string, error) {
	text = strings.TrimSpace(text)
	if len(text) > MaxReason || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return "", fmt.Errorf("must be one line of at most %d bytes", MaxReason)
	}
	return text, nil
}
