package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/core/endpoint"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/probe"
)

// Push is a check to which somebody reports results. It is a pod with one container, which prober does not
// run.
type Push struct {
	Name      string
	Namespace string            // of the pod
	Labels    map[string]string // of the pod
	// TokenFile has the token of the URL for reports without other credentials; "" for no URL. A relative
	// path is relative to the folder of the file.
	TokenFile string
	Check     endpoint.Push
	DependsOn []Ref

	Line int    // in the file, for later errors
	Path string // of the entry, such as push[0]
}

// Endpoint combines checks into one state. It is a pod with one container, which prober does not run.
type Endpoint struct {
	Name      string
	Namespace string            // of the pod
	Labels    map[string]string // of the pod
	Rule      endpoint.Rule
	Members   []Member
	DependsOn []Ref

	Line int    // in the file, for later errors
	Path string // of the entry, such as endpoints[0]

	minLine int // of Rule.Min
}

// Member is the name of a check of an [Endpoint]: a target group, a [Push], another Endpoint, or a pod as
// NAMESPACE/POD, or a probe as NAMESPACE/POD/CONTAINER/KIND.
type Member struct {
	Ref
	Weight int // of each probe of the member, at least 1
}

// IsPod reports whether m is the name of a pod or a probe, and not of an entry of prober.yaml.
func (m *Member) IsPod() bool { return strings.Contains(m.Name, "/") }

// isProbe reports whether m is the name of a probe.
func (m *Member) isProbe() bool { return strings.Count(m.Name, "/") == 3 }

// podName returns NAMESPACE/POD of a member that is a pod or a probe.
func (m *Member) podName() string {
	namespace, rest, _ := strings.Cut(m.Name, "/")
	pod, _, _ := strings.Cut(rest, "/")
	return namespace + "/" + pod
}

const (
	maxEndpointMembers = 1000
	maxWeight          = 1000
	maxWindow          = 64 // reports
	minTTL             = time.Second
	maxTTL             = 366 * 24 * time.Hour
)

func (d *decoder) pushes(a *Agent) yamlpos.Reader {
	return d.ListOf(func(n *yamlpos.Node, path string) {
		p := Push{Line: n.Line, Path: path, Namespace: DefaultTargetNamespace, Labels: make(map[string]string)}
		cron, zone := "", "UTC"
		d.Mapping(n, path, yamlpos.Fields{
			"name": d.label(&p.Name, maxGroupName), "namespace": d.label(&p.Namespace, 63), "labels": d.stringMap(p.Labels),
			"tokenFile": d.NonEmpty(&p.TokenFile), "dependsOn": d.names(&p.DependsOn),
			"ttl":      d.interval(&p.Check.TTL, minTTL, maxTTL),
			"schedule": d.NonEmpty(&cron), "timeZone": d.NonEmpty(&zone),
			"grace":            d.interval(&p.Check.Grace, 0, maxTTL),
			"maxRun":           d.interval(&p.Check.MaxRun, minTTL, maxTTL),
			"successThreshold": d.Int(&p.Check.Successes, 1, math.MaxInt32),
			"failureThreshold": d.Int(&p.Check.Failures, 1, math.MaxInt32),
			"window":           d.Int(&p.Check.Of, 1, maxWindow),
		}, "name")
		d.schedule(n, path, &p.Check, cron, zone)
		if w := yamlpos.Field(n, "window"); w != nil {
			switch {
			case yamlpos.Field(n, "successThreshold") != nil:
				d.Errorf(w, path+".window", "must not be set together with successThreshold")
			case p.Check.Of < max(1, p.Check.Failures):
				d.Errorf(w, path+".window", "must be at least failureThreshold")
			}
			p.Check.Failures = max(1, p.Check.Failures)
		}
		a.Push = append(a.Push, p)
	})
}

// schedule reads the schedule of a push, and checks the fields that belong to it.
func (d *decoder) schedule(n *yamlpos.Node, path string, p *endpoint.Push, cron, zone string) {
	ttl, schedule := yamlpos.Field(n, "ttl"), yamlpos.Field(n, "schedule")
	switch {
	case ttl == nil && schedule == nil:
		d.Errorf(n, path, "must have a ttl or a schedule")
		return
	case ttl != nil && schedule != nil:
		d.Errorf(schedule, path+".schedule", "must not be set together with ttl")
		return
	}
	if ttl != nil {
		for _, name := range []string{"timeZone", "grace"} {
			if f := yamlpos.Field(n, name); f != nil {
				d.Errorf(f, path+"."+name, "needs a schedule")
			}
		}
		return
	}
	if loc, ok := d.timeZone(n, path, zone); ok {
		p.Schedule = d.cron(n, path, cron, loc)
	}
}

func (d *decoder) endpoints(a *Agent) yamlpos.Reader {
	return d.ListOf(func(n *yamlpos.Node, path string) {
		e := Endpoint{Line: n.Line, Path: path, Namespace: DefaultTargetNamespace, Labels: make(map[string]string)}
		d.Mapping(n, path, yamlpos.Fields{
			"name": d.label(&e.Name, maxGroupName), "namespace": d.label(&e.Namespace, 63), "labels": d.stringMap(e.Labels),
			"dependsOn": d.names(&e.DependsOn),
			"all":       d.members(&e, endpoint.All), "any": d.members(&e, endpoint.Any),
			"atLeast": func(n *yamlpos.Node, path string) {
				d.Mapping(n, path, yamlpos.Fields{"min": d.Int(&e.Rule.Min, 1, math.MaxInt32), "of": d.members(&e, endpoint.AtLeast)}, "min", "of")
				if least := yamlpos.Field(n, "min"); least != nil {
					e.minLine = least.Line
				}
			},
		}, "name")
		rules := 0
		for _, name := range []string{"all", "any", "atLeast"} {
			if yamlpos.Field(n, name) != nil {
				rules++
			}
		}
		if rules != 1 {
			d.Errorf(n, path, "must have exactly one of all, any and atLeast")
		}
		a.Endpoints = append(a.Endpoints, e)
	})
}

// members returns a reader of the members of an endpoint.
func (d *decoder) members(e *Endpoint, mode endpoint.Mode) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		e.Rule.Mode, e.Members = mode, nil
		named := make(map[string]bool)
		d.ListOf(func(n *yamlpos.Node, path string) {
			m := Member{Ref{Line: n.Line, Path: path}, 1}
			if n.Kind == yamlpos.Mapping && mode == endpoint.AtLeast {
				d.Mapping(n, path, yamlpos.Fields{"check": d.NonEmpty(&m.Name), "weight": d.Int(&m.Weight, 1, maxWeight)}, "check")
				m.Path += ".check"
			} else {
				d.NonEmpty(&m.Name)(n, path)
			}
			if m.Name != "" && m.IsPod() {
				d.checkPodMember(n, &m)
			}
			if named[m.Name] {
				d.Errorf(n, m.Path, "%.80q is named twice", m.Name)
			}
			named[m.Name] = true
			e.Members = append(e.Members, m)
		})(n, path)
		if n.Kind == yamlpos.List && (len(e.Members) == 0 || len(e.Members) > maxEndpointMembers) {
			d.Errorf(n, path, "must have 1 to %d checks", maxEndpointMembers)
		}
	}
}

// checkPodMember reports a member that is not the name of a pod or a probe.
func (d *decoder) checkPodMember(n *yamlpos.Node, m *Member) {
	parts := strings.Split(m.Name, "/")
	if len(parts) != 2 && len(parts) != 4 || slices.Contains(parts, "") {
		d.Errorf(n, m.Path, "%.80q must be a name, NAMESPACE/POD or NAMESPACE/POD/CONTAINER/KIND", m.Name)
		return
	}
	if len(parts) == 4 {
		if _, err := probe.ParseKind(parts[3]); err != nil {
			d.Error(n, m.Path, err)
		}
	}
}

// validateChecks reports duplicate names and unknown members. groups has the lines of the target groups, by
// name.
func (d *decoder) validateChecks(a *Agent, groups map[string]int) {
	names := maps.Clone(groups)
	add := func(name, path string, line int) {
		if first, ok := names[name]; ok && name != "" {
			d.ErrorAt(line, path+".name", fmt.Errorf("%q is set twice, first on line %d", name, first))
			return
		}
		names[name] = line
	}
	for i := range a.Push {
		add(a.Push[i].Name, a.Push[i].Path, a.Push[i].Line)
	}
	for i := range a.Endpoints {
		add(a.Endpoints[i].Name, a.Endpoints[i].Path, a.Endpoints[i].Line)
	}
	known := slices.Sorted(maps.Keys(names))
	for i := range a.Endpoints {
		e := &a.Endpoints[i]
		for j := range e.Members {
			m := &e.Members[j]
			if _, ok := names[m.Name]; !ok && m.Name != "" && !m.IsPod() {
				d.Unknown(m.Line, m.Path, "check", m.Name, known)
			}
		}
	}
}

// validateRules reports rules that need more weight than the members can have.
func (d *decoder) validateRules(a *Agent) {
	most := make(map[string]int) // probes of an entry, by its name
	for i := range a.Targets {
		if g := &a.Targets[i]; g.isStatic() {
			most[g.Name] = len(g.Static)
		}
	}
	for i := range a.Push {
		most[a.Push[i].Name] = 1
	}
	for i := range a.Endpoints {
		most[a.Endpoints[i].Name] = 1
	}
	for i := range a.Endpoints {
		e := &a.Endpoints[i]
		total, known := 0, e.Rule.Mode == endpoint.AtLeast
		for j := range e.Members {
			m := &e.Members[j]
			n, ok := most[m.Name]
			if m.isProbe() {
				n, ok = 1, true
			}
			total, known = total+n*m.Weight, known && ok
		}
		if known && e.Rule.Min > total {
			d.ErrorAt(e.minLine, e.Path+".atLeast.min", fmt.Errorf("must be at most %d, the weight of all checks", total))
		}
	}
}
