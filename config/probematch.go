package config

import (
	"errors"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/daeace23/prober/internal/shape"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/probe"
)

// ProbeMatch selects probes. A probe must match all fields. Each field except Kind and Labels is a pattern for
// path.Match; "" matches everything.
type ProbeMatch struct {
	Namespace, Pod, Container, Kind, Handler string
	Labels                                   labels.Selector // of the pod or the target; nil matches everything
}

// ProbeFacts has what a [ProbeMatch] compares.
type ProbeFacts struct {
	Namespace, Pod, Container, Kind, Handler string
	Labels                                   map[string]string
}

// Group returns the value of a field of [Receiver.GroupBy]; "" for a label that the probe does not have.
func (p *ProbeFacts) Group(field string) string {
	if label, ok := strings.CutPrefix(field, LabelPrefix); ok {
		return p.Labels[label]
	}
	return map[string]string{"namespace": p.Namespace, "pod": p.Pod, "container": p.Container, "kind": p.Kind, "handler": p.Handler}[field]
}

// Matches reports whether m selects the probe.
func (m *ProbeMatch) Matches(p *ProbeFacts) bool {
	glob := func(pattern, text string) bool {
		ok, _ := path.Match(pattern, text) // the configuration was validated
		return pattern == "" || ok
	}
	return glob(m.Namespace, p.Namespace) && glob(m.Pod, p.Pod) && glob(m.Container, p.Container) && glob(m.Kind, p.Kind) &&
		glob(m.Handler, p.Handler) && (m.Labels == nil || m.Labels.Matches(labels.Set(p.Labels)))
}

// MatchesAny reports whether one of the entries selects the probe. An empty list selects all probes.
func MatchesAny(entries []ProbeMatch, p *ProbeFacts) bool {
	return len(entries) == 0 || slices.ContainsFunc(entries, func(m ProbeMatch) bool { return m.Matches(p) })
}

// ParseMatch reads a list of entries of match from data: JSON, or YAML. Errors name file.
func ParseMatch(file string, data []byte) (all []ProbeMatch, err error) {
	d := decoder{Decoder: yamlpos.Decoder{File: file}}
	if root := d.Parse(data, maxSize); root != nil {
		d.ListOf(d.probeMatch(&all))(root, "match")
	}
	return all, d.Err()
}

func (d *decoder) probeMatch(to *[]ProbeMatch) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		var m ProbeMatch
		d.Mapping(n, path, yamlpos.Fields{
			"namespace": d.glob(&m.Namespace), "pod": d.glob(&m.Pod), "container": d.glob(&m.Container),
			"kind": d.Form(shape.OneOf(probe.Kinds[:]...), yamlpos.Parsed(&d.Decoder, &m.Kind, parseKindName)), "handler": d.glob(&m.Handler),
			"labels": yamlpos.Parsed(&d.Decoder, &m.Labels, parseSelector),
		})
		if n.Kind == yamlpos.Mapping && len(n.Content) == 0 {
			d.Errorf(n, path, "must have at least one field; without match all probes are selected")
		}
		*to = append(*to, m)
		d.selectors = append(d.selectors, Selector{Text: m.text(), Line: n.Line, Path: path, match: m})
	}
}

// selectorsSince sets a property of the selectors after the first n.
func (d *decoder) selectorsSince(n int, set func(*Selector)) {
	for i := range d.selectors[n:] {
		set(&d.selectors[n+i])
	}
}

// parseSelector parses a selector as kubectl's option -l takes it.
func parseSelector(text string) (labels.Selector, error) {
	s, err := labels.Parse(text)
	if err == nil && s.Empty() {
		return nil, errors.New("must not be empty")
	}
	return s, err
}

func (d *decoder) glob(to *string) yamlpos.Reader {
	return func(n *yamlpos.Node, at string) {
		d.NonEmpty(to)(n, at)
		if _, err := path.Match(*to, ""); err != nil {
			d.Errorf(n, at, "%.80q: %w", *to, err)
		}
	}
}
