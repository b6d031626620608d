// Package index reads and writes lists of plugins that can be searched and installed.
//
// An index is a YAML or JSON document. It names each version of a plugin by a reference and the digest of its module,
// so that whoever serves the plugin cannot change it. Whoever serves the index can: use an index that you trust, and
// signatures.
package index

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/daeace23/prober/internal/semantic"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin"
)

// Kind is the kind of an index.
const Kind = "PluginIndex"

// File is the name of an index in a folder.
const File = "index.yaml"

// Limits of an index.
const (
	MaxSize     = 4 << 20 // bytes
	MaxPlugins  = 5000
	MaxVersions = 200 // of a plugin
	maxText     = 500 // bytes of a text
	maxKeywords = 20
)

// Index is a list of plugins, sorted by name.
type Index struct {
	Plugins []Plugin
}

// Plugin is a plugin of an index.
type Plugin struct {
	Name        string    `json:"name"`
	Description string    `json:"description,omitempty"`
	License     string    `json:"license,omitempty"`
	Keywords    []string  `json:"keywords,omitempty"`
	Versions    []Version `json:"versions"` // the newest first
}

// Version is a version of a plugin.
type Version struct {
	Version string `json:"version"`
	// Source is a reference with a digest, or the path of a plugin or an OCI layout below the folder of the index.
	Source   string   `json:"source"`
	Digest   string   `json:"digest,omitempty"`   // of the module; "" for a program, which differs by platform
	Requests []string `json:"requests,omitempty"` // names of capabilities
}

// Reference returns the reference of Source; ok is false if it is a path.
func (v Version) Reference() (ref plugin.Reference, ok bool) {
	ref, err := plugin.ParseReference(v.Source)
	return ref, err == nil
}

// Find returns the plugin called name.
func (x *Index) Find(name string) (Plugin, bool) {
	at, ok := slices.BinarySearchFunc(x.Plugins, name, func(p Plugin, name string) int { return cmp.Compare(p.Name, name) })
	if !ok {
		return Plugin{}, false
	}
	return x.Plugins[at], true
}

// Matches reports whether word is in the name, the description or a keyword of p, in any case.
func (p *Plugin) Matches(word string) bool {
	word = strings.ToLower(word)
	return slices.ContainsFunc(append([]string{p.Name, p.Description}, p.Keywords...), func(text string) bool {
		return strings.Contains(strings.ToLower(text), word)
	})
}

// Newest returns the newest version. It is a pre-release only if there is no other, or if after is a pre-release.
func (p *Plugin) Newest(after string) Version {
	for _, v := range p.Versions {
		if !semantic.IsPrerelease(v.Version) || semantic.IsPrerelease(after) {
			return v
		}
	}
	return p.Versions[0]
}

// Version returns the version with this number.
func (p *Plugin) Version(number string) (Version, bool) {
	at := slices.IndexFunc(p.Versions, func(v Version) bool { return v.Version == number })
	if at < 0 {
		return Version{}, false
	}
	return p.Versions[at], true
}

// Add adds a version of the plugin that m describes, or replaces the version of this number. The descriptions are those
// of the newest version.
func (x *Index) Add(m *plugin.Manifest, source, digest string, keywords []string) {
	v := Version{Version: m.Version, Source: source, Digest: digest}
	for _, r := range m.Requests {
		if !slices.Contains(v.Requests, r.Capability) {
			v.Requests = append(v.Requests, r.Capability)
		}
	}
	at, ok := slices.BinarySearchFunc(x.Plugins, m.Name, func(p Plugin, name string) int { return cmp.Compare(p.Name, name) })
	if !ok {
		x.Plugins = slices.Insert(x.Plugins, at, Plugin{Name: m.Name})
	}
	p := &x.Plugins[at]
	p.Versions = slices.DeleteFunc(p.Versions, func(o Version) bool { return o.Version == v.Version })
	p.Versions = append(p.Versions, v)
	p.sort()
	if p.Versions[0].Version == m.Version {
		p.Description, p.License = m.Description, m.License
	}
	if keywords != nil {
		p.Keywords = keywords
	}
}

func (p *Plugin) sort() {
	slices.SortStableFunc(p.Versions, func(a, b Version) int {
		return cmp.Or(semantic.Compare(b.Version, a.Version), cmp.Compare(b.Version, a.Version))
	})
}

// Encode returns the index as YAML. The same index always has the same bytes.
func (x *Index) Encode() ([]byte, error) {
	data, err := yaml.Marshal(struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Plugins    []Plugin `json:"plugins"`
	}{plugin.APIVersion, Kind, append([]Plugin{}, x.Plugins...)})
	if err != nil {
		return nil, err
	}
	if _, err := Parse("index", data); err != nil {
		return nil, err
	}
	return data, nil
}

// Parse parses an index. Its errors are [plugin.FieldError]s with this file name, joined if there are several.
func Parse(file string, data []byte) (*Index, error) {
	d := decoder{yamlpos.Decoder{File: file}}
	x := &Index{}
	if root := d.Parse(data, MaxSize); root != nil {
		d.index(root, x)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	for i := range x.Plugins {
		x.Plugins[i].sort()
	}
	slices.SortFunc(x.Plugins, func(a, b Plugin) int { return cmp.Compare(a.Name, b.Name) })
	return x, nil
}

// decoder reads an index.
type decoder struct {
	yamlpos.Decoder
}

func (d *decoder) index(n *yamlpos.Node, x *Index) {
	lines := make(map[string]int)
	d.Mapping(n, "", yamlpos.Fields{
		"apiVersion": d.Constant(plugin.APIVersion),
		"kind":       d.Constant(Kind),
		"plugins": d.atMost(MaxPlugins, func(n *yamlpos.Node, path string) {
			p := d.plugin(n, path)
			if first, ok := lines[p.Name]; ok {
				d.Errorf(n, path+".name", "%q is set twice, first on line %d", p.Name, first)
			}
			lines[p.Name] = n.Line
			x.Plugins = append(x.Plugins, p)
		}),
	}, "apiVersion", "kind", "plugins")
}

// atMost is ListOf with a limit.
func (d *decoder) atMost(most int, item yamlpos.Reader) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		if n.Kind == yamlpos.List && len(n.Content) > most {
			d.Errorf(n, path, "has %d items; at most %d are allowed", len(n.Content), most)
			return
		}
		d.Items(n, path, item)
	}
}

func (d *decoder) plugin(n *yamlpos.Node, path string) (p Plugin) {
	numbers := make(map[string]bool)
	d.Mapping(n, path, yamlpos.Fields{
		"name":        yamlpos.Parsed(&d.Decoder, &p.Name, validName),
		"description": d.text(&p.Description),
		"license":     d.text(&p.License),
		"keywords":    d.atMost(maxKeywords, d.appended(&p.Keywords)),
		"versions": d.atMost(MaxVersions, func(n *yamlpos.Node, path string) {
			v := d.version(n, path)
			if numbers[v.Version] {
				d.Errorf(n, path, "version %q is set twice", v.Version)
			}
			numbers[v.Version] = true
			p.Versions = append(p.Versions, v)
		}),
	}, "name", "versions")
	if len(p.Versions) == 0 {
		d.Errorf(n, path+".versions", "must have a version")
	}
	return p
}

func (d *decoder) version(n *yamlpos.Node, path string) (v Version) {
	d.Mapping(n, path, yamlpos.Fields{
		"version":  d.text(&v.Version),
		"source":   yamlpos.Parsed(&d.Decoder, &v.Source, validSource),
		"digest":   d.Digest(&v.Digest),
		"requests": d.atMost(maxKeywords, d.appended(&v.Requests)),
	}, "version", "source")
	if _, ok := v.Reference(); !ok && v.Digest == "" {
		d.Errorf(n, path+".digest", "is required, since the source has none")
	}
	return v
}

// text returns a reader of a text of bounded length.
func (d *decoder) text(to *string) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		if *to, _ = d.Text(n, path); len(*to) > maxText {
			d.Errorf(n, path, "has %d bytes; at most %d are allowed", len(*to), maxText)
		}
	}
}

func (d *decoder) appended(to *[]string) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		var text string
		d.text(&text)(n, path)
		*to = append(*to, text)
	}
}

func validName(text string) (string, error) {
	if !plugin.ValidName(text) {
		return "", fmt.Errorf("%.80q is not the name of a plugin", text)
	}
	return text, nil
}

// validSource accepts a reference with a digest, and the path of a file below the index.
func validSource(text string) (string, error) {
	ref, err := plugin.ParseReference(text)
	switch {
	case err == nil && ref.Digest == "":
		return "", errors.New("must have an @sha256:DIGEST")
	case err == nil:
		return text, nil
	case strings.Contains(text, ":") || !filepath.IsLocal(filepath.FromSlash(text)):
		return "", fmt.Errorf("%.200q is neither a reference with a digest, nor a path below the folder of the index", text)
	}
	return text, nil
}
