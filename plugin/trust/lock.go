package trust

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/daeace23/prober/plugin"
)

// LockFile is the usual name of a lock file.
const LockFile = "prober.plugins.lock"

// LockKind is the kind of document that a lock file is.
const LockKind = "PluginLock"

const maxLock = 1 << 20

// Lock is a list of plugins, and of the bytes that each had when it was made.
type Lock struct {
	File    string // where it was read from
	Plugins []Locked
}

// Locked is one plugin of a lock. Digest and Manifest are what is held against the
// plugin that is loaded; the rest is for people.
type Locked struct {
	Name     string
	Version  string
	Digest   string // of the module
	Manifest string // of the manifest beside the module; "": it is inside
	Signer   string // id of a key that vouched for it; "": none
	Source   string // where it was

	line int
}

// NewLock returns a lock of plugins. signer returns the id of the key that vouches for
// one, or "".
func NewLock(plugins []plugin.Found, signer func(plugin.Found) string) *Lock {
	l := &Lock{}
	for _, f := range plugins {
		l.Plugins = append(l.Plugins, Locked{
			Name: f.Manifest.Name, Version: f.Manifest.Version, Digest: plugin.Digest(f.Module), Manifest: f.Beside,
			Signer: signer(f), Source: f.Path,
		})
	}
	slices.SortFunc(l.Plugins, func(a, b Locked) int { return cmp.Compare(a.Name, b.Name) })
	return l
}

// Check returns an error when f is not in the lock, or is another one there.
func (l *Lock) Check(f plugin.Found) error {
	at := slices.IndexFunc(l.Plugins, func(p Locked) bool { return p.Name == f.Manifest.Name })
	if at < 0 {
		return fmt.Errorf("%s: plugin %q of %s is not in the lock", l.File, f.Manifest.Name, f.Path)
	}
	p := l.Plugins[at]
	var err error
	if digest := plugin.Digest(f.Module); digest != p.Digest {
		err = fmt.Errorf("its digest is %s, locked is %s", digest, p.Digest)
	} else if f.Beside != p.Manifest {
		err = fmt.Errorf("the manifest beside it is not the one that was locked: %s, want %s", cmp.Or(f.Beside, "it is inside"), cmp.Or(p.Manifest, "the one inside"))
	}
	if err != nil {
		return &plugin.FieldError{
			File: l.File, Line: max(p.line, 1), Field: fmt.Sprintf("plugins[%d]", at),
			Err: fmt.Errorf("plugin %q of %s: %w", p.Name, f.Path, err),
		}
	}
	return nil
}

// lockDocument is what a lock file holds.
type lockDocument struct {
	APIVersion string      `yaml:"apiVersion"`
	Kind       string      `yaml:"kind"`
	Plugins    []lockEntry `yaml:"plugins"`
}

type lockEntry struct {
	Name     string `yaml:"name"`
	Version  string `yaml:"version"`
	Digest   string `yaml:"digest"`
	Manifest string `yaml:"manifest,omitempty"`
	Signer   string `yaml:"signer,omitempty"`
	Source   string `yaml:"source"`
}

// Encode returns the lock as a file. The same lock gives the same bytes.
func (l *Lock) Encode() ([]byte, error) {
	doc := lockDocument{APIVersion: plugin.APIVersion, Kind: LockKind, Plugins: []lockEntry{}}
	for _, p := range l.Plugins {
		doc.Plugins = append(doc.Plugins, lockEntry{p.Name, p.Version, p.Digest, p.Manifest, p.Signer, p.Source})
	}
	var b bytes.Buffer
	b.WriteString("# Written by `prober plugin lock`, which also renews it.\n")
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	err := encoder.Encode(doc)
	return b.Bytes(), cmp.Or(err, encoder.Close())
}

// ReadLock reads a lock file, which nobody but its owner may be able to change or
// replace.
func ReadLock(file string) (*Lock, error) {
	data, err := readFile(file, maxLock, onlyOurs(file))
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return ParseLock(file, data)
}

// ParseLock reads data, the contents of a lock file. Its errors are
// [plugin.FieldError]s, joined where there are several.
func ParseLock(file string, data []byte) (*Lock, error) {
	r := lockReader{file: file, lock: &Lock{File: file}}
	if root := r.root(data); root != nil {
		r.read(root)
	}
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	return r.lock, nil
}

// lockReader reads the nodes of a lock file.
type lockReader struct {
	file string
	lock *Lock
	errs []error
}

func (r *lockReader) failf(line int, field, format string, args ...any) {
	r.errs = append(r.errs, &plugin.FieldError{File: r.file, Line: max(line, 1), Field: field, Err: fmt.Errorf(format, args...)})
}

func (r *lockReader) root(data []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		r.failf(1, "", "no lock: the file is empty")
		return nil
	case err != nil:
		r.errs = append(r.errs, plugin.SyntaxError(r.file, err))
		return nil
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		r.failf(more.Line, "", "something follows the lock")
		return nil
	}
	return doc.Content[0]
}

func (r *lockReader) read(root *yaml.Node) {
	plugins := &yaml.Node{}
	r.fields(root, "", map[string]func(n *yaml.Node, path string){
		"apiVersion": r.constant(plugin.APIVersion),
		"kind":       r.constant(LockKind),
		"plugins":    func(n *yaml.Node, _ string) { plugins = n },
	}, "apiVersion", "kind", "plugins")
	if len(r.errs) > 0 {
		return
	}
	if plugins.Kind != yaml.SequenceNode {
		r.failf(plugins.Line, "plugins", "want a list")
		return
	}
	lines := make(map[string]int)
	for i, n := range plugins.Content {
		path := fmt.Sprintf("plugins[%d]", i)
		p := r.entry(n, path)
		if first, ok := lines[p.Name]; ok {
			r.failf(n.Line, path+".name", "%q is there twice, first on line %d", p.Name, first)
		}
		lines[p.Name] = n.Line
		r.lock.Plugins = append(r.lock.Plugins, p)
	}
}

var (
	digestText = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	keyIDText  = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

func (r *lockReader) entry(n *yaml.Node, path string) Locked {
	p := Locked{line: n.Line}
	anything := func(string) bool { return true }
	r.fields(n, path, map[string]func(n *yaml.Node, path string){
		"name":     r.text(&p.Name, "a name of a plugin", plugin.ValidName),
		"version":  r.text(&p.Version, "a text", anything),
		"digest":   r.text(&p.Digest, "sha256: and 64 hexadecimal digits in lower case", digestText.MatchString),
		"manifest": r.text(&p.Manifest, "sha256: and 64 hexadecimal digits in lower case", digestText.MatchString),
		"signer":   r.text(&p.Signer, "32 hexadecimal digits in lower case", keyIDText.MatchString),
		"source":   r.text(&p.Source, "a text", anything),
	}, "name", "version", "digest", "source")
	return p
}

func (r *lockReader) text(to *string, want string, valid func(string) bool) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || !valid(n.Value) {
			r.failf(n.Line, path, "%.80q: want %s", n.Value, want)
			return
		}
		*to = n.Value
	}
}

func (r *lockReader) constant(want string) func(*yaml.Node, string) {
	var got string
	return r.text(&got, want, func(value string) bool { return value == want })
}

// fields reads a mapping whose fields are all known, each there once.
func (r *lockReader) fields(n *yaml.Node, path string, known map[string]func(*yaml.Node, string), required ...string) {
	if n.Kind != yaml.MappingNode {
		r.failf(n.Line, path, "want a mapping")
		return
	}
	at := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch read, ok := known[key.Value]; {
		case !ok:
			r.failf(key.Line, at(key.Value), "unknown field; known: %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case seen[key.Value]:
			r.failf(key.Line, at(key.Value), "the field is there twice")
		default:
			read(value, at(key.Value))
		}
		seen[key.Value] = true
	}
	for _, name := range required {
		if !seen[name] {
			r.failf(n.Line, at(name), "required")
		}
	}
}
