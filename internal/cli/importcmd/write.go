package importcmd

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/explain"
)

// render returns prober.yaml with the entries of p that are not dropped, and sets their lines. With every, each
// module has a target, so that its config is checked.
func (p *plan) render(tool string, every bool) ([]byte, error) {
	root := &yaml.Node{Kind: yaml.MappingNode, HeadComment: p.header(tool)}
	add := func(key string, n *yaml.Node) {
		if len(n.Content) > 0 {
			root.Content = append(root.Content, text(key), n)
		}
	}
	root.Content = append(root.Content, text("apiVersion"), text(config.APIVersion), text("kind"), text(config.Kind))
	sections := p.sections(every)
	for _, s := range sections {
		add(s.key, s.node)
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(root); err != nil {
		return nil, err
	}
	return b.Bytes(), p.locate(b.Bytes(), sections)
}

// header returns the comment at the beginning of the file.
func (p *plan) header(tool string) string {
	lines := []string{"Written by prober import " + tool + "."}
	for _, f := range p.sortedFindings() {
		if f.Kind == secret {
			lines = append(lines, explain.OneLine(fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text)))
		}
	}
	return "# " + strings.Join(lines, "\n# ")
}

// section is a top-level field of prober.yaml, with the entries of its items.
type section struct {
	key     string
	node    *yaml.Node
	entries []*entry // of the items; nil if errors in it have no entry
}

func (s *section) add(e *entry, f fields) {
	if e.dropped {
		return
	}
	n := node(f)
	n.Style = 0
	n.HeadComment = "# " + explain.OneLine(fmt.Sprintf("%s:%d", e.at.file, e.at.line))
	s.node.Content, s.entries = append(s.node.Content, n), append(s.entries, e)
}

func newSection(key string) *section {
	return &section{key: key, node: &yaml.Node{Kind: yaml.SequenceNode}}
}

// sections returns the fields of prober.yaml, in their order.
func (p *plan) sections(every bool) []*section {
	plugins, tls, modules, targets := newSection("plugins"), newSection("credentials"), newSection("modules"), newSection("targets")
	for _, name := range sortedKeys(p.grants) {
		if !p.uses(name) {
			continue
		}
		plugins.node.Content = append(plugins.node.Content, node(fields{{"name", name}, {"grants", p.grants[name]}}))
	}
	for _, c := range p.credentials {
		tls.add(&c.entry, c.rest)
	}
	for _, m := range p.modules {
		modules.add(&m.entry, fields{{"name", m.name}, {"probe", m.probe.fields()}})
	}
	for _, g := range p.groups {
		if !g.dropped && g.shared != nil && g.shared.dropped {
			g.dropped = true
			p.noEqual(g.at, "the targets of %s are not imported: their module %s is not", g.name, g.shared.name)
		}
	}
	p.acyclic()
	for _, g := range p.groups {
		targets.add(&g.entry, g.fields())
	}
	if every {
		p.targetModules(targets)
	}
	nagios, secrets := &section{key: "nagios", node: node(fields{}.with("folders", sortedKeys(p.folders)))}, &section{key: "secrets", node: node(fields{}.with("allow", sortedKeys(p.secrets)))}
	all := []*section{plugins, nagios, secrets, tls, modules, targets, p.uplinkSection()}
	return append(all, p.pushSection(), p.endpointSection(), p.notifySection(), p.maintenanceSection())
}

// uses reports whether a probe has a plugin.
func (p *plan) uses(name string) bool {
	has := func(s *spec) bool {
		f, ok := s.action.get("plugin").(fields)
		return ok && f.get("name") == name
	}
	return slices.ContainsFunc(p.groups, func(g *group) bool { return !g.dropped && has(&g.probe) }) ||
		slices.ContainsFunc(p.modules, func(m *module) bool { return !m.dropped && has(&m.probe) })
}

// targetModules adds a group for each module that no group uses.
func (p *plan) targetModules(targets *section) {
	used := make(map[*module]bool)
	for _, g := range p.groups {
		used[g.shared] = used[g.shared] || !g.dropped
	}
	for _, m := range p.modules {
		if !m.dropped && !used[m] {
			targets.add(&entry{at: m.at}, fields{{"name", p.unique("check", "check")}, {"module", m.name}, {"static", []string{"127.0.0.1:1"}}})
		}
	}
}

func (g *group) fields() fields {
	f := fields{{"name", g.name}}.with("namespace", g.namespace)
	if g.shared != nil {
		f = f.set("module", g.shared.name)
	} else {
		f = f.set("probe", g.probe.fields())
	}
	return f.with("labels", g.labels).with("dependsOn", g.dependsOn).with("static", g.static).with("file", g.files).with("http", g.http).with("dns", g.dns)
}

func (p *plan) uplinkSection() *section {
	s := newSection("uplink")
	for _, name := range p.uplink {
		for _, g := range p.groups {
			if g.name == name && !g.dropped {
				s.node.Content = append(s.node.Content, text(name))
			}
		}
	}
	return s
}

func (p *plan) pushSection() *section {
	s := newSection("push")
	for _, c := range p.pushes {
		f := fields{{"name", c.name}}.with("namespace", c.namespace).with("labels", c.labels)
		s.add(&c.entry, append(f, c.rest...))
	}
	return s
}

// endpointSection leaves out checks that were dropped, and endpoints without checks.
func (p *plan) endpointSection() *section {
	s := newSection("endpoints")
	live := make(map[string]bool)
	for _, g := range p.groups {
		live[g.name] = !g.dropped
	}
	for _, c := range p.pushes {
		live[c.name] = !c.dropped
	}
	for _, e := range p.endpoints {
		live[e.name] = len(e.all) > 0 && !e.dropped
	}
	for _, e := range p.endpoints {
		var all []string
		for _, name := range e.all {
			if live[name] {
				all = append(all, name)
			}
		}
		e.dropped = e.dropped || len(all) == 0
		s.add(&e.entry, fields{{"name", e.name}}.with("namespace", e.namespace).with("all", all))
	}
	return s
}

func (p *plan) notifySection() *section {
	receivers := newSection("receivers")
	for _, r := range p.receivers {
		match, all := p.matchOf(r.name)
		if len(match) == 0 && !all && !r.dropped {
			r.dropped = true // without match it would get all probes
			p.report(ignored, r.at, "the receiver %s is not imported: no imported check has an alert for it", r.name)
		}
		f := fields{{"name", r.name}}.with("match", match).and(r.rest)
		if r.reminds {
			f = f.set("repeatInterval", r.repeat)
		}
		receivers.add(&r.entry, f)
	}
	s := &section{key: "notify", node: &yaml.Node{Kind: yaml.MappingNode}, entries: receivers.entries}
	if len(receivers.node.Content) > 0 {
		s.node.Content = []*yaml.Node{text("receivers"), receivers.node}
	}
	return s
}

// and returns f and rest together.
func (f fields) and(rest fields) fields { return append(f[:len(f):len(f)], rest...) }

// locate sets the line of each entry in the written file.
func (p *plan) locate(file []byte, sections []*section) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(file, &doc); err != nil {
		return fmt.Errorf("the written file cannot be read: %w", err)
	}
	root := doc.Content[0]
	p.starts = p.starts[:0]
	for i := 0; i+1 < len(root.Content); i += 2 {
		p.starts = append(p.starts, root.Content[i].Line)
		for _, s := range sections {
			if s.key != root.Content[i].Value {
				continue
			}
			items := root.Content[i+1]
			if s.key == "notify" {
				items = items.Content[1]
			}
			for j, e := range s.entries {
				e.line = items.Content[j].Line
			}
		}
	}
	return nil
}
