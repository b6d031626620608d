package config

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/daeace23/prober/plugin"
)

// decoder reads the nodes of a file and gathers what is wrong with them.
type decoder struct {
	file string
	errs []error
}

func (d *decoder) failf(line int, path, format string, args ...any) {
	d.errs = append(d.errs, &plugin.FieldError{File: d.file, Line: max(line, 1), Field: path, Err: fmt.Errorf(format, args...)})
}

// document returns the root of the one document in data; nil when there is none.
func (d *decoder) document(data []byte) *yaml.Node {
	if len(data) > maxSize {
		d.failf(1, "", "more than %d bytes", maxSize)
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		d.failf(1, "", "the file is empty: want apiVersion: %s and kind: %s", APIVersion, Kind)
		return nil
	case err != nil:
		d.syntax(err)
		return nil
	}
	if err := decoder.Decode(&more); err == nil {
		d.failf(more.Line, "", "want one document, found another")
	} else if !errors.Is(err, io.EOF) {
		d.syntax(err)
	}
	return doc.Content[0]
}

func (d *decoder) syntax(err error) { d.errs = append(d.errs, plugin.SyntaxError(d.file, err)) }

// reader reads one value into its place.
type reader func(n *yaml.Node, path string)

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// mapping reads the fields of a mapping and reports those that are required and
// missing.
func (d *decoder) mapping(n *yaml.Node, path string, known map[string]reader, required ...string) {
	if n.Kind != yaml.MappingNode {
		d.failf(n.Line, path, "want a mapping")
		return
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		switch read, ok := known[key.Value]; {
		case !ok:
			d.failf(key.Line, at, "unknown field; known: %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case seen[key.Value]:
			d.failf(key.Line, at, "the field is there twice")
		default:
			read(value, at)
		}
		seen[key.Value] = true
	}
	for _, name := range required {
		if !seen[name] {
			d.failf(n.Line, join(path, name), "required")
		}
	}
}

func (d *decoder) items(item reader) reader {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.SequenceNode {
			d.failf(n.Line, path, "want a list")
			return
		}
		for i, child := range n.Content {
			item(child, path+"["+strconv.Itoa(i)+"]")
		}
	}
}

func (d *decoder) text(to *string) reader {
	return func(n *yaml.Node, path string) {
		switch {
		case n.Kind != yaml.ScalarNode || n.Tag == "!!null":
			d.failf(n.Line, path, "want a text")
		case n.Value == "":
			d.failf(n.Line, path, "must not be empty")
		default:
			*to = n.Value
		}
	}
}

func (d *decoder) texts(to *[]string) reader {
	return d.items(func(n *yaml.Node, path string) {
		var text string
		d.text(&text)(n, path)
		*to = append(*to, text)
	})
}

func (d *decoder) truth(to *bool) reader {
	return func(n *yaml.Node, path string) {
		if n.Tag != "!!bool" || n.Decode(to) != nil {
			d.failf(n.Line, path, "want true or false")
		}
	}
}

func (d *decoder) constant(want string) reader {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.ScalarNode || n.Value != want {
			d.failf(n.Line, path, "want %q", want)
		}
	}
}

func (d *decoder) agent(n *yaml.Node, a *Agent) {
	d.mapping(n, "", map[string]reader{
		"apiVersion": d.constant(APIVersion),
		"kind":       d.constant(Kind),
		"plugins": d.items(func(n *yaml.Node, path string) {
			p := Plugin{Line: n.Line}
			d.plugin(n, path, &p)
			a.Plugins = append(a.Plugins, p)
		}),
		"totalMemory": d.size(&a.TotalMemory),
		"nagios": func(n *yaml.Node, path string) {
			d.mapping(n, path, map[string]reader{"folders": d.texts(&a.Nagios.Folders), "env": d.items(d.variable(&a.Nagios.Env))})
		},
		"secrets": func(n *yaml.Node, path string) {
			d.mapping(n, path, map[string]reader{"allow": d.items(d.secret(&a.Secrets.Allow))})
		},
		"trust": func(n *yaml.Node, path string) {
			a.Trust.Line = n.Line
			d.mapping(n, path, map[string]reader{"require": d.truth(&a.Trust.Require), "keys": d.texts(&a.Trust.Keys)})
		},
	}, "apiVersion", "kind")
}

// secret reads a pattern of secrets.
func (d *decoder) secret(to *[]string) reader {
	return func(n *yaml.Node, at string) {
		var text string
		d.text(&text)(n, at)
		source, name, _ := strings.Cut(text, ":")
		_, err := path.Match(name, "")
		switch {
		case text == "": // which was told
		case source != "file" && source != "env" || name == "":
			d.failf(n.Line, at, `%q is no pattern of secrets: want "file:/etc/prober/secrets/*" or "env:PG_*"`, text)
		case err != nil:
			d.failf(n.Line, at, "%q: %w", text, err)
		case source == "file" && slices.Contains(strings.Split(name, "/"), ".."):
			d.failf(n.Line, at, "%q must not have .. in it", text)
		}
		*to = append(*to, text)
	}
}

// variable reads the name of a variable, in which * and ? stand for other characters.
func (d *decoder) variable(to *[]string) reader {
	return func(n *yaml.Node, at string) {
		var name string
		d.text(&name)(n, at)
		if _, err := path.Match(name, ""); err != nil || strings.ContainsAny(name, "=/ ") {
			d.failf(n.Line, at, "%q is no name of a variable", name)
		}
		*to = append(*to, name)
	}
}

func (d *decoder) plugin(n *yaml.Node, path string, p *Plugin) {
	var plain *yaml.Node
	d.mapping(n, path, map[string]reader{
		"name":   d.text(&p.Name),
		"source": func(n *yaml.Node, path string) { d.source(n, path, &p.Source) },
		"plainHTTP": func(n *yaml.Node, path string) {
			d.truth(&p.PlainHTTP)(n, path)
			plain = n
		},
		"digest":   d.digest(&p.Digest),
		"manifest": d.digest(&p.Manifest),
		"grants":   d.items(func(n *yaml.Node, path string) { d.grant(n, path, &p.Grants) }),
		"limits": func(n *yaml.Node, path string) {
			d.mapping(n, path, d.limits(&p.Limits))
		},
		"errorPolicy": func(n *yaml.Node, path string) {
			switch policy := plugin.ErrorPolicy(n.Value); policy {
			case plugin.PolicyError, plugin.PolicyFailure:
				p.ErrorPolicy = policy
			default:
				d.failf(n.Line, path, "unknown value %q; known: %s, %s", n.Value, plugin.PolicyError, plugin.PolicyFailure)
			}
		},
		"shadow":       d.truth(&p.Shadow),
		"promoteAfter": func(n *yaml.Node, path string) { d.promoteAfter(n, path, &p.PromoteAfter) },
	}, "name")
	if p.Name != "" && !plugin.ValidName(p.Name) {
		d.failf(n.Line, path+".name", "%.80q is no name of a plugin: want lower-case letters, digits and dashes, 63 at most", p.Name)
	}
	if p.Manifest != "" && p.Digest == "" {
		d.failf(n.Line, path+".manifest", "is for plugins with a digest: it would pin what a program says of itself, and not the program")
	}
	if plain != nil && !strings.HasPrefix(p.Source, plugin.OCIScheme) {
		d.failf(plain.Line, path+".plainHTTP", "is for plugins with a source that begins with %s", plugin.OCIScheme)
	}
}

// source reads a path, or a reference.
func (d *decoder) source(n *yaml.Node, path string, to *string) {
	d.text(to)(n, path)
	if !strings.Contains(*to, "://") {
		return
	}
	if _, err := plugin.ParseReference(*to); err != nil {
		d.failf(n.Line, path, "%w", err)
	}
}

func (d *decoder) promoteAfter(n *yaml.Node, path string, to *PromoteAfter) {
	to.Agreement = 1
	d.mapping(n, path, map[string]reader{
		"ticks": func(n *yaml.Node, path string) {
			if ticks, err := strconv.Atoi(n.Value); err != nil || ticks < 1 || n.Kind != yaml.ScalarNode {
				d.failf(n.Line, path, "want a whole number of at least 1")
			} else {
				to.Ticks = ticks
			}
		},
		"agreement": func(n *yaml.Node, path string) {
			if part, err := strconv.ParseFloat(n.Value, 64); err != nil || !(part > 0 && part <= 1) || n.Kind != yaml.ScalarNode {
				d.failf(n.Line, path, "want a number above 0, and at most 1")
			} else {
				to.Agreement = part
			}
		},
	}, "ticks")
}

func (d *decoder) grant(n *yaml.Node, path string, to *[]plugin.Grant) {
	if n.Kind != yaml.ScalarNode {
		d.failf(n.Line, path, "want a text")
		return
	}
	g, err := plugin.ParseGrant(n.Value)
	if err != nil {
		d.failf(n.Line, path, "%w", err)
		return
	}
	*to = append(*to, g)
}

func (d *decoder) digest(to *string) reader {
	return func(n *yaml.Node, path string) {
		sum, ok := strings.CutPrefix(n.Value, "sha256:")
		if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != 32 || strings.ToLower(sum) != sum {
			d.failf(n.Line, path, "%.80q is no digest: want sha256: and 64 hexadecimal digits in lower case", n.Value)
			return
		}
		*to = n.Value
	}
}

func (d *decoder) size(to *uint64) reader {
	return func(n *yaml.Node, path string) {
		size, err := plugin.ParseSize(n.Value)
		if err != nil || n.Kind != yaml.ScalarNode {
			d.failf(n.Line, path, "want a size in bytes, as in 65536, 64Ki or 32Mi")
			return
		}
		*to = size
	}
}

// limits returns the fields of a mapping of limits.
func (d *decoder) limits(to *plugin.Limits) map[string]reader {
	fields := make(map[string]reader)
	for _, name := range plugin.LimitNames[:plugin.LimitTotalMemory] {
		fields[string(name)] = func(n *yaml.Node, path string) {
			if n.Kind != yaml.ScalarNode {
				d.failf(n.Line, path, "want a number")
			} else if err := to.Set(name, n.Value); err != nil {
				d.failf(n.Line, path, "%w", err)
			}
		}
	}
	return fields
}

// validate reports what does not fit together.
func (d *decoder) validate(root *yaml.Node, a *Agent) {
	type entry struct {
		name   string
		shadow bool
	}
	lines := make(map[entry]int)
	for i, p := range a.Plugins {
		path, e := fmt.Sprintf("plugins[%d]", i), entry{p.Name, p.Shadow}
		if first, ok := lines[e]; ok {
			d.failf(p.Line, path+".name", "%q is there twice, first on line %d", p.Name, first)
			continue
		}
		lines[e] = p.Line
		switch {
		case p.Shadow && p.Source == "":
			d.failf(p.Line, path+".source", "required: where is the version that is to run beside the plugin?")
		case !p.Shadow && p.PromoteAfter.Ticks > 0:
			d.failf(p.Line, path+".promoteAfter", "only a plugin with shadow: true can be promoted")
		}
	}
	if a.Trust.Require && len(a.Trust.Keys) == 0 {
		d.failf(root.Line, "trust.keys", "trust.require needs at least one key")
	}
}
