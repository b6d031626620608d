package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/daeace23/prober/internal/shape"
	"github.com/daeace23/prober/internal/timespan"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// SLO is an objective for the availability of probes, in a window of time that ends now.
type SLO struct {
	Name      string
	Match     []ProbeMatch  // selects probes that match at least one; empty: all probes
	Kinds     []probe.Kind  // selects probes of these kinds
	Objective float64       // percent of the time, above 0 and below 100
	Window    time.Duration // a multiple of an hour
	// Maintenance says how the time of maintenance windows counts whose [Maintenance.Uptime] is
	// [UptimeExclude]. Other windows always count.
	Maintenance UptimeRule

	Line int // in the file, for later errors
}

const (
	// MaxSLOs is the limit of the objectives of a file.
	MaxSLOs = 100
	// MaxSLOWindow is the limit of [SLO.Window].
	MaxSLOWindow = 92 * 24 * time.Hour

	defaultSLOWindow = 30 * 24 * time.Hour
)

// Selects reports whether s selects the probe.
func (s *SLO) Selects(p *ProbeFacts) bool {
	return slices.ContainsFunc(s.Kinds, func(k probe.Kind) bool { return k.String() == p.Kind }) && MatchesAny(s.Match, p)
}

// SameTime reports whether s and other count the same time: they differ at most in the name, the objective
// and the position in the file.
func (s *SLO) SameTime(other *SLO) bool {
	a, b := *s, *other
	a.Name, a.Objective, a.Line = b.Name, b.Objective, b.Line
	return reflect.DeepEqual(a, b)
}

func (d *decoder) slos(a *Agent) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		d.Items(n, path, func(n *yamlpos.Node, path string) {
			s := SLO{Line: n.Line, Kinds: []probe.Kind{probe.Readiness}, Window: defaultSLOWindow, Maintenance: UptimeExclude}
			before := len(d.selectors)
			d.slo(n, path, &s)
			d.selectorsSince(before, func(x *Selector) { x.kinds = s.Kinds })
			a.SLO = append(a.SLO, s)
		})
		checkNames(d, n, path, a.SLO, MaxSLOs, func(s *SLO) (string, int) { return s.Name, s.Line })
	}
}

func (d *decoder) slo(n *yamlpos.Node, path string, s *SLO) {
	d.Mapping(n, path, yamlpos.Fields{
		"name": d.NonEmpty(&s.Name), "match": d.ListOf(d.probeMatch(&s.Match)), "kinds": d.kinds(&s.Kinds),
		"objective":   d.Form(shape.Number(new(0), new(100)), yamlpos.Parsed(&d.Decoder, &s.Objective, parseObjective)),
		"window":      yamlpos.Parsed(&d.Decoder, &s.Window, parseSLOWindow),
		"maintenance": yamlpos.OneOf(&d.Decoder, &s.Maintenance, UptimeExclude, UptimeCount),
	}, "name", "objective")
	if s.Name != "" && !plugin.ValidName(s.Name) {
		d.Errorf(n, path+".name", "%.80q is not a name: must be at most 63 lower-case letters, digits and dashes", s.Name)
	}
}

// kinds returns a reader of a list of kinds of probes, at least one.
func (d *decoder) kinds(to *[]probe.Kind) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		*to = nil
		d.ListOf(func(n *yamlpos.Node, path string) {
			var kind probe.Kind
			d.Form(shape.OneOf(probe.Kinds[:]...), yamlpos.Parsed(&d.Decoder, &kind, probe.ParseKind))(n, path)
			if slices.Contains(*to, kind) {
				d.Errorf(n, path, "%q is set twice", kind)
			}
			*to = append(*to, kind)
		})(n, path)
		if n.Kind == yamlpos.List && len(*to) == 0 {
			d.Errorf(n, path, "must have at least one kind")
		}
	}
}

// parseObjective parses a percentage such as "99.9".
func parseObjective(text string) (float64, error) {
	percent, err := strconv.ParseFloat(text, 64)
	if err != nil || !(percent > 0 && percent < 100) {
		return 0, errors.New("must be a percentage above 0 and below 100, such as 99.9")
	}
	return percent, nil
}

// parseSLOWindow parses a window such as "30d".
func parseSLOWindow(text string) (time.Duration, error) {
	window, err := timespan.Parse(text)
	if err != nil {
		return 0, err
	}
	if window > MaxSLOWindow || window%time.Hour != 0 {
		return 0, fmt.Errorf("must be hours or days, at most %s, such as 30d", timespan.Format(MaxSLOWindow))
	}
	return window, nil
}
