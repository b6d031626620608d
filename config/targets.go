package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/shape"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/probe"
)

// Module is a named probe that target groups refer to.
type Module struct {
	Name  string
	Probe Probe

	Line int // in the file, for later errors
}

// Probe is a probe with the fields of a probe in the pod annotation prober.dev/probes. Package config only
// checks that it is a mapping.
type Probe struct {
	JSON []byte
	Path string // path of the field, such as modules[0].probe

	node *yamlpos.Node
}

// Line returns the line of the field at path below the probe; "" is the probe itself.
func (p *Probe) Line(path string) int {
	if p.node == nil {
		return 0
	}
	return yamlpos.Line(p.node, path)
}

// DefaultTargetNamespace is the namespace of a target group without one.
const DefaultTargetNamespace = "targets"

// The defaults and limits of targets.
const (
	DefaultRefresh         = 30 * time.Second // between two refreshes of a source
	DefaultRefreshTimeout  = 10 * time.Second // of one refresh
	minRefresh             = time.Second
	MaxWitnessTimeout      = 2 * time.Second // timeout of a [Witness]'s probes, because other probes wait for them
	maxRefreshTimeout      = 5 * time.Minute
	maxGroupName           = 40 // characters; the pod names begin with it
	maxRelabel, maxSources = 100, 1000
)

// TargetGroup is a group of targets with one probe. Each target is a pod with one external container, which
// prober does not run.
type TargetGroup struct {
	Name      string
	Namespace string // of the pods
	Module    string // "" if Probe is set
	Probe     *Probe // nil if Module is set
	Kind      probe.Kind
	Labels    map[string]string // of every target
	Static    []Address
	Files     []string // path patterns; a relative pattern is relative to the folder of the file
	HTTP      []HTTPTargets
	DNS       []DNSTargets
	Commands  []CommandTargets
	Relabel   []Relabel
	DependsOn []Ref // while one of them fails, a failure of a target is an error

	Line int    // in the file, for later errors
	Path string // of the entry, such as targets[0]
}

// isStatic reports whether all targets of g are in the file.
func (g *TargetGroup) isStatic() bool {
	return len(g.Files)+len(g.HTTP)+len(g.DNS)+len(g.Commands) == 0
}

// Witness is a target group that witnesses the network: while no target of any Witness answers, failures of
// the other targets are not reported.
type Witness struct {
	Group string

	Line int // in the file, for later errors
}

// Address is the address of a target, with its line in the file.
type Address struct {
	Text string
	Line int
}

// HTTPTargets is an HTTP service that lists targets in the format of Prometheus' http_sd.
type HTTPTargets struct {
	URL             string
	BearerTokenFile string // a relative path is relative to the folder of the file; "" for no token
	Refresh         time.Duration
	Timeout         time.Duration
}

// DNSTargets is a name whose SRV records list targets.
type DNSTargets struct {
	SRV     string
	Server  string // host:port of a name server; "": the host's name servers
	Refresh time.Duration
}

// CommandTargets is a command that prints targets as JSON.
type CommandTargets struct {
	Run     []string // the absolute path of a program, and its arguments
	Refresh time.Duration
	Timeout time.Duration
}

// Relabel is a step that changes or drops a target. Exactly one of Name, Address, Drop and Labels is set.
// The strings are templates.
type Relabel struct {
	Name    string // the name of the target, which is the suffix of the pod's name
	Address string
	Drop    string            // drops the target if its result is "true"
	Labels  map[string]string // sets labels; "" removes one

	Line int
	Path string
}

func (d *decoder) modules(a *Agent) yamlpos.Reader {
	return d.ListOf(func(n *yamlpos.Node, path string) {
		m := Module{Line: n.Line}
		d.Mapping(n, path, yamlpos.Fields{"name": d.NonEmpty(&m.Name), "probe": d.probe(&m.Probe)}, "name", "probe")
		if m.Name != "" && !moduleName().MatchString(m.Name) {
			d.Errorf(n, path+".name", "%.80q is not the name of a module: must be at most 63 letters, digits, dashes, dots and underscores", m.Name)
		}
		a.Modules = append(a.Modules, m)
	})
}

var (
	moduleName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`) })
	dnsLabel   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`) })
)

func (d *decoder) probe(to *Probe) yamlpos.Reader {
	return d.Refer(ProbeDefinition, func(n *yamlpos.Node, path string) {
		to.Path, to.node = path, n
		d.Object(&to.JSON)(n, path)
	})
}

func (d *decoder) targets(a *Agent) yamlpos.Reader {
	return d.ListOf(func(n *yamlpos.Node, path string) {
		g := TargetGroup{Line: n.Line, Path: path, Namespace: DefaultTargetNamespace, Kind: probe.Readiness, Labels: make(map[string]string)}
		own := Probe{}
		d.Mapping(n, path, yamlpos.Fields{
			"name": d.label(&g.Name, maxGroupName), "namespace": d.label(&g.Namespace, 63),
			"module": d.NonEmpty(&g.Module), "probe": d.probe(&own),
			"kind":   d.Form(shape.OneOf(probe.Kinds[:]...), yamlpos.Parsed(&d.Decoder, &g.Kind, probe.ParseKind)),
			"labels": d.stringMap(g.Labels),
			"static": d.ListOf(func(n *yamlpos.Node, path string) {
				a := Address{Line: n.Line}
				d.NonEmpty(&a.Text)(n, path)
				g.Static = append(g.Static, a)
			}),
			"file":    d.ListOf(d.pattern(&g.Files)),
			"http":    d.ListOf(d.httpTargets(&g.HTTP)),
			"dns":     d.ListOf(d.dnsTargets(&g.DNS)),
			"command": d.ListOf(d.commandTargets(&g.Commands)),
			"relabel": d.ListOf(d.relabel(&g.Relabel)), "dependsOn": d.names(&g.DependsOn),
		}, "name")
		if own.node != nil {
			g.Probe = &own
		}
		d.checkGroup(n, path, &g)
		a.Targets = append(a.Targets, g)
	})
}

func (d *decoder) uplink(a *Agent) yamlpos.Reader {
	return d.ListOf(func(n *yamlpos.Node, path string) {
		w := Witness{Line: n.Line}
		d.NonEmpty(&w.Group)(n, path)
		a.Uplink = append(a.Uplink, w)
	})
}

func (d *decoder) checkGroup(n *yamlpos.Node, path string, g *TargetGroup) {
	switch {
	case g.Probe != nil && g.Module != "":
		d.Errorf(n, path+".probe", "must not be set together with module")
	case g.Probe == nil && yamlpos.Field(n, "module") == nil:
		d.Errorf(n, path, "must have a module or a probe")
	}
	sources := len(g.Files) + len(g.HTTP) + len(g.DNS) + len(g.Commands)
	switch {
	case sources == 0 && yamlpos.Field(n, "static") == nil && yamlpos.Field(n, "file") == nil:
		d.Errorf(n, path, "must have at least one of static, file, http, dns and command")
	case sources > maxSources:
		d.Errorf(n, path, "must have at most %d sources", maxSources)
	case len(g.Relabel) > maxRelabel:
		d.Errorf(n, path+".relabel", "must have at most %d steps", maxRelabel)
	}
}

// label returns a reader of a group name or a namespace, of at most most characters.
func (d *decoder) label(to *string, most int) yamlpos.Reader {
	form := shape.Form{Pattern: dnsLabel().String(), MaxLength: most, Good: []string{"a", "db-1"}, Bad: []string{"", "-a", "A", "a.b"}}
	return d.Form(form, func(n *yamlpos.Node, path string) {
		*to, _ = d.Text(n, path)
		if len(*to) > most || !dnsLabel().MatchString(*to) {
			d.Errorf(n, path, "%.80q must be at most %d lower-case letters, digits and dashes, and not begin or end with a dash", *to, most)
		}
	})
}

// stringMap returns a reader of a mapping of strings to strings.
func (d *decoder) stringMap(to map[string]string) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		d.Entries(n, path, func(key, value *yamlpos.Node, path string) {
			to[key.Value], _ = d.Text(value, path)
		})
	}
}

// pattern returns a reader of a pattern of file paths.
func (d *decoder) pattern(to *[]string) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		var text string
		d.NonEmpty(&text)(n, path)
		if _, err := filepath.Match(text, ""); err != nil {
			d.Errorf(n, path, "%.80q: %w", text, err)
		}
		*to = append(*to, text)
	}
}

// interval returns a reader of a duration between least and most, inclusive.
func (d *decoder) interval(to *time.Duration, least, most time.Duration) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		read := time.Duration(-1)
		d.Duration(&read)(n, path)
		switch {
		case read < 0: // Duration has reported it
		case read < least || read > most:
			d.Errorf(n, path, "must be from %s to %s", least, most)
		default:
			*to = read
		}
	}
}

const maxRefresh = 24 * time.Hour

func (d *decoder) httpTargets(to *[]HTTPTargets) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		h := HTTPTargets{Refresh: DefaultRefresh, Timeout: DefaultRefreshTimeout}
		d.Mapping(n, path, yamlpos.Fields{
			"url": yamlpos.Parsed(&d.Decoder, &h.URL, parseURL), "bearerTokenFile": d.NonEmpty(&h.BearerTokenFile),
			"refresh": d.interval(&h.Refresh, minRefresh, maxRefresh), "timeout": d.interval(&h.Timeout, time.Millisecond, maxRefreshTimeout),
		}, "url")
		*to = append(*to, h)
	}
}

func parseURL(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", errors.New("must be an http:// or https:// URL") // without the text, which may contain a password
	case u.User != nil:
		return "", errors.New("must not have a user or a password: use bearerTokenFile")
	}
	return text, nil
}

func (d *decoder) dnsTargets(to *[]DNSTargets) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		s := DNSTargets{Refresh: DefaultRefresh}
		d.Mapping(n, path, yamlpos.Fields{
			"srv": d.NonEmpty(&s.SRV), "server": yamlpos.Parsed(&d.Decoder, &s.Server, parseServer),
			"refresh": d.interval(&s.Refresh, minRefresh, maxRefresh),
		}, "srv")
		*to = append(*to, s)
	}
}

// parseServer parses the IP address of a name server, and appends port 53 if it has none.
func parseServer(text string) (string, error) {
	if at, err := netip.ParseAddrPort(text); err == nil && at.Port() > 0 {
		return text, nil
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return "", fmt.Errorf("%.80q must be the IP address of a name server, and may have a port", text)
	}
	return netip.AddrPortFrom(ip, 53).String(), nil
}

func (d *decoder) commandTargets(to *[]CommandTargets) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		c := CommandTargets{Refresh: DefaultRefresh, Timeout: DefaultRefreshTimeout}
		d.Mapping(n, path, yamlpos.Fields{
			"run":     d.ListOf(d.Append(&c.Run)),
			"refresh": d.interval(&c.Refresh, minRefresh, maxRefresh), "timeout": d.interval(&c.Timeout, time.Millisecond, maxRefreshTimeout),
		}, "run")
		if run := yamlpos.Field(n, "run"); run != nil && (len(c.Run) == 0 || !filepath.IsAbs(c.Run[0])) {
			d.Errorf(run, path+".run", "must begin with the absolute path of a program")
		}
		for i, arg := range c.Run {
			if strings.ContainsRune(arg, 0) {
				d.Errorf(n, path+".run["+strconv.Itoa(i)+"]", "must not contain a NUL character")
			}
		}
		*to = append(*to, c)
	}
}

func (d *decoder) relabel(to *[]Relabel) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		r := Relabel{Line: n.Line, Path: path, Labels: make(map[string]string)}
		d.One(n, path, yamlpos.Fields{
			"name": d.NonEmpty(&r.Name), "address": d.NonEmpty(&r.Address), "drop": d.NonEmpty(&r.Drop), "labels": d.stringMap(r.Labels),
		})
		*to = append(*to, r)
	}
}

// validateTargets reports duplicate modules and groups, and references to unknown ones.
func (d *decoder) validateTargets(a *Agent) {
	modules, groups := make(map[string]int), make(map[string]int)
	for i, m := range a.Modules {
		if first, ok := modules[m.Name]; ok {
			d.ErrorAt(m.Line, yamlpos.Item("modules", i)+".name", fmt.Errorf("%q is set twice, first on line %d", m.Name, first))
			continue
		}
		modules[m.Name] = m.Line
	}
	names := make([]string, 0, len(modules))
	for name := range modules {
		names = append(names, name)
	}
	for _, g := range a.Targets {
		if first, ok := groups[g.Name]; ok {
			d.ErrorAt(g.Line, g.Path+".name", fmt.Errorf("%q is set twice, first on line %d", g.Name, first))
			continue
		}
		groups[g.Name] = g.Line
		if _, ok := modules[g.Module]; g.Module != "" && !ok {
			d.Unknown(g.Line, g.Path+".module", "module", g.Module, names)
		}
	}
	d.validateChecks(a, groups)
	d.validateRules(a)
	known := slices.Collect(maps.Keys(groups))
	for i, w := range a.Uplink {
		if _, ok := groups[w.Group]; w.Group != "" && !ok {
			d.Unknown(w.Line, yamlpos.Item("uplink", i), "group of targets", w.Group, known)
		}
	}
}

// WitnessGroups returns the names of the groups of a.Uplink.
func (a *Agent) WitnessGroups() (groups []string) {
	for _, w := range a.Uplink {
		groups = append(groups, w.Group)
	}
	return groups
}

// ModuleOf returns the probe of a group: its own, or its module's.
func (a *Agent) ModuleOf(g *TargetGroup) *Probe {
	if g.Probe != nil {
		return g.Probe
	}
	for i := range a.Modules {
		if a.Modules[i].Name == g.Module {
			return &a.Modules[i].Probe
		}
	}
	return nil // Parse refuses an unknown module
}
