package importcmd

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/daeace23/prober/internal/yamlpos"
)

// definition is an object of Nagios: a mapping of directives, with the templates that it uses merged.
type definition struct {
	*object
	kind string
}

// nagiosFiles has the definitions of all files.
type nagiosFiles struct {
	p         *plan
	all       []*definition
	templates map[string]*definition // by kind and name
	macros    map[string]string      // $USER1$ and others, by name
	interval  int                    // seconds of a unit of time
}

// maxDirectives bounds the directives of all definitions, with their templates.
const maxDirectives = 500_000

var defineLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^define\s+([a-z]+)\s*\{(.*)$`) })

func readDefinitions(p *plan, files []input) (*nagiosFiles, error) {
	f := &nagiosFiles{p: p, templates: make(map[string]*definition), macros: make(map[string]string), interval: 60}
	for _, in := range files {
		if err := f.read(in); err != nil {
			return nil, err
		}
	}
	left := maxDirectives
	done := make(map[*definition]bool)
	for _, d := range f.all {
		if !f.inherit(d, done, &left, 0) {
			return nil, fmt.Errorf("%s:%d: there are more than %d directives with those of templates, or a template uses itself", d.file, d.n.Line, maxDirectives)
		}
	}
	return f, nil
}

// read reads a file of definitions, a nagios.cfg or a resource.cfg.
func (f *nagiosFiles) read(in input) error {
	var open *definition
	lines := strings.Split(string(in.text), "\n")
	for i := 0; i < len(lines); i++ {
		number, line := i+1, strings.TrimRight(lines[i], "\r")
		if strings.HasSuffix(line, `\`) {
			line, i = continued(lines, i)
		}
		if line = strings.TrimSpace(line); len(line) > maxLine {
			return fmt.Errorf("%s:%d: the line is longer than %d bytes", in.name, number, maxLine)
		}
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		switch define := defineLine().FindStringSubmatch(line); {
		case open == nil && define != nil:
			n := &yamlpos.Node{Kind: yamlpos.Mapping, Line: number}
			open = &definition{newObject(f.p, in.name, define[1], n), define[1]}
			for part := range strings.SplitSeq(define[2], ";") { // a definition on one line
				open = f.directive(open, strings.TrimSpace(part), number)
			}
		case open != nil:
			open = f.directive(open, line, number)
		case strings.Contains(line, "="):
			f.setting(in.name, line, number)
		default:
			return fmt.Errorf("%s:%d: %.40q is neither a definition nor a setting", in.name, number, line)
		}
	}
	if open != nil {
		return fmt.Errorf("%s:%d: the definition has no }", in.name, open.n.Line)
	}
	return nil
}

// maxLine is the limit of a line with its continuations, in bytes.
const maxLine = 1 << 20

// continued returns the line at first with the lines that continue it, and the index of the last one. It
// stops above maxLine.
func continued(lines []string, first int) (line string, last int) {
	var b strings.Builder
	for last = first; ; last++ {
		part := strings.TrimRight(lines[last], "\r")
		if last > first {
			part = strings.TrimSpace(part)
		}
		more, ok := strings.CutSuffix(part, `\`)
		if !ok || last+1 == len(lines) {
			b.WriteString(part)
			return b.String(), last
		}
		if b.WriteString(more); b.Len() > maxLine {
			return b.String(), last
		}
	}
}

// directive adds a line to a definition. It returns the definition, or nil at its end.
func (f *nagiosFiles) directive(d *definition, line string, number int) *definition {
	if d == nil || line == "" {
		return d
	}
	if line == "}" {
		f.add(d)
		return nil
	}
	line, _, _ = strings.Cut(strings.ReplaceAll(line, `\;`, "\x01"), ";")
	line = strings.TrimSpace(strings.ReplaceAll(line, "\x01", ";"))
	closed := false
	if rest, ok := strings.CutSuffix(line, "}"); ok && !strings.Contains(rest, "{") && strings.HasSuffix(rest, " ") {
		line, closed = strings.TrimSpace(rest), true
	}
	name, value := line, ""
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		name, value = line[:i], strings.TrimSpace(line[i:])
	}
	if name != "" {
		d.set(name, value, number)
	}
	if closed {
		f.add(d)
		return nil
	}
	return d
}

// set sets a directive; the last one of a name counts.
func (d *definition) set(name, value string, line int) {
	old := d.field(name)
	switch {
	case old != nil:
		old.Value, old.Line = value, line
	case len(d.n.Content) >= 2*maxOwnDirectives:
		d.p.noEqual(d.at(""), "a definition has at most %d directives: the others are not imported", maxOwnDirectives)
	default:
		d.n.Content = append(d.n.Content, scalarNode(name, line), scalarNode(value, line))
	}
}

// maxOwnDirectives bounds the directives of a definition, with its templates.
const maxOwnDirectives = 1000

func scalarNode(text string, line int) *yamlpos.Node {
	return &yamlpos.Node{Kind: yamlpos.Scalar, Tag: "!!str", Value: text, Line: line}
}

func (f *nagiosFiles) add(d *definition) {
	f.all = append(f.all, d)
	if name := yamlpos.Field(d.n, "name"); name != nil && name.Value != "" {
		f.templates[d.kind+"\x00"+name.Value] = d
	}
}

// setting reads a line of nagios.cfg or resource.cfg.
func (f *nagiosFiles) setting(file, line string, number int) {
	name, value, _ := strings.Cut(line, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	at := position{file, number, name}
	switch {
	case strings.HasPrefix(name, "$USER") && strings.HasSuffix(name, "$"):
		f.macros[strings.Trim(name, "$")] = value
	case name == "interval_length":
		if f.interval = int(parseSeconds(value).Seconds()); f.interval < 1 || f.interval > 86400 {
			f.interval = 60
		}
	case name == "cfg_file" || name == "cfg_dir" || name == "resource_file":
		f.p.report(ignored, at, "name the files on the command line")
	default:
		f.p.report(ignored, at, "it is a setting of the program")
	}
}

// inherit adds the directives of templates to a definition. It returns false if there are too many.
func (f *nagiosFiles) inherit(d *definition, done map[*definition]bool, left *int, depth int) bool {
	if done[d] {
		return true
	}
	if depth > 20 {
		return false
	}
	d.used["use"], d.used["name"], d.used["register"] = true, true, true
	for name := range strings.SplitSeq(textOf(d.n, "use"), ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		t := f.templates[d.kind+"\x00"+name]
		if t == nil || t == d {
			f.p.noEqual(d.at("use"), "there is no template %.40q", name)
			continue
		}
		if !f.inherit(t, done, left, depth+1) {
			return false
		}
		if *left -= len(t.n.Content); *left < 0 {
			return false
		}
		for i := 0; i+1 < len(t.n.Content); i += 2 {
			d.inherit(t, t.n.Content[i].Value, t.n.Content[i+1])
		}
	}
	done[d] = true
	return true
}

func textOf(n *yamlpos.Node, name string) string {
	if v := yamlpos.Field(n, name); v != nil {
		return v.Value
	}
	return ""
}

// inherit sets a directive of a template that d does not have, or appends to one that begins with a plus
// sign.
func (d *definition) inherit(t *definition, name string, value *yamlpos.Node) {
	if slices.Contains([]string{"use", "name", "register"}, name) {
		return
	}
	own := d.field(name)
	switch {
	case own == nil:
		d.set(name, value.Value, value.Line)
		if d.from == nil {
			d.from = make(map[string]string)
		}
		d.from[name] = cmp.Or(t.from[name], t.file)
	case strings.HasPrefix(own.Value, "+") && len(own.Value)+len(value.Value) < 1<<16:
		own.Value += "," + value.Value
	}
}

// words returns the items of a directive with commas; nothing for null.
func (d *definition) words(name string) (all []string) {
	text := strings.TrimPrefix(d.text(name), "+")
	seen := make(map[string]bool)
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimPrefix(strings.TrimSpace(word), "+"); word != "" && word != "null" && !seen[word] {
			seen[word] = true
			all = append(all, word)
		}
	}
	return all
}

// isTemplate reports whether a definition is only for others.
func (d *definition) isTemplate() bool { return textOf(d.n, "register") == "0" }

// label returns a name of a definition for findings.
func (d *definition) label(names ...string) string {
	var parts []string
	for _, name := range names {
		if text := textOf(d.n, name); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, " ")
}
