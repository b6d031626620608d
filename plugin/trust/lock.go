package trust

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin"
)

// LockFile is the usual name of a lock file.
const LockFile = "prober.plugins.lock"

// LockKind is the kind of a lock file.
const LockKind = "PluginLock"

const maxLock = 1 << 20

// Lock is a list of plugins with their digests.
type Lock struct {
	File    string // file of the lock
	Plugins []Locked
}

// Locked is one plugin of a lock. Check compares the Name, Digest and Manifest; the other fields are
// for human readers.
type Locked struct {
	Name     string `yaml:"name"`
	Version  string `yaml:"version"`
	Digest   string `yaml:"digest"`             // of the module
	Manifest string `yaml:"manifest,omitempty"` // digest of the manifest beside the module; "" if it is inside
	Signer   string `yaml:"signer,omitempty"`   // ID of a key that signed the plugin; "" for none
	Source   string `yaml:"source"`             // path of the plugin

	line int
}

// NewLock returns a lock of plugins. signer returns the ID of a plugin's signing key, or "".
func NewLock(plugins []plugin.Found, signer func(plugin.Found) string) *Lock {
	l := &Lock{Plugins: []Locked{}}
	for _, f := range plugins {
		l.Plugins = append(l.Plugins, Locked{
			Name: f.Manifest.Name, Version: f.Manifest.Version, Digest: f.ModuleDigest(), Manifest: f.Beside,
			Signer: signer(f), Source: f.Path,
		})
	}
	slices.SortFunc(l.Plugins, func(a, b Locked) int { return cmp.Compare(a.Name, b.Name) })
	return l
}

// Check returns an error if f is not in the lock, or has another digest there.
func (l *Lock) Check(f plugin.Found) error {
	at := slices.IndexFunc(l.Plugins, func(p Locked) bool { return p.Name == f.Manifest.Name })
	if at < 0 {
		return fmt.Errorf("%s: plugin %q of %s is not in the lock", l.File, f.Manifest.Name, f.Path)
	}
	p := l.Plugins[at]
	var err error
	if digest := f.ModuleDigest(); digest != p.Digest {
		err = fmt.Errorf("its digest is %s, the lock has %s", digest, p.Digest)
	} else if f.Beside != p.Manifest {
		err = fmt.Errorf("the digest of the manifest beside it is %s, the lock has %s", cmp.Or(f.Beside, "none"), cmp.Or(p.Manifest, "none"))
	}
	if err != nil {
		return &plugin.FieldError{
			File: l.File, Line: max(p.line, 1), Field: fmt.Sprintf("plugins[%d]", at),
			Err: fmt.Errorf("plugin %q of %s: %w", p.Name, f.Path, err),
		}
	}
	return nil
}

// Encode returns the contents of a lock file. The same lock always has the same bytes.
func (l *Lock) Encode() ([]byte, error) {
	doc := struct {
		APIVersion string   `yaml:"apiVersion"`
		Kind       string   `yaml:"kind"`
		Plugins    []Locked `yaml:"plugins"`
	}{plugin.APIVersion, LockKind, l.Plugins}
	var b bytes.Buffer
	b.WriteString("# Written by `prober plugin lock`, which also renews it.\n")
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	err := encoder.Encode(doc)
	return b.Bytes(), cmp.Or(err, encoder.Close())
}

// ReadLock reads a lock file. It returns an error if other users can change or replace the file.
func ReadLock(file string) (*Lock, error) {
	data, err := readFile(file, maxLock, onlyOurs(file))
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return ParseLock(file, data)
}

// ParseLock parses the contents of a lock file. Its errors are [plugin.FieldError]s, joined if there
// are several.
func ParseLock(file string, data []byte) (*Lock, error) {
	d := lockDecoder{yamlpos.Decoder{File: file}}
	l := &Lock{File: file, Plugins: []Locked{}}
	if root := d.Parse(data, maxLock); root != nil {
		d.lock(root, l)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return l, nil
}

// lockDecoder reads a lock file.
type lockDecoder struct {
	yamlpos.Decoder
}

func (d *lockDecoder) lock(n *yamlpos.Node, l *Lock) {
	lines := make(map[string]int)
	d.Mapping(n, "", yamlpos.Fields{
		"apiVersion": d.Constant(plugin.APIVersion),
		"kind":       d.Constant(LockKind),
		"plugins": d.ListOf(func(n *yamlpos.Node, path string) {
			p := d.entry(n, path)
			if first, ok := lines[p.Name]; ok {
				d.Errorf(n, path+".name", "%q is set twice, first on line %d", p.Name, first)
			}
			lines[p.Name] = n.Line
			l.Plugins = append(l.Plugins, p)
		}),
	}, "apiVersion", "kind", "plugins")
}

func (d *lockDecoder) entry(n *yamlpos.Node, path string) Locked {
	p := Locked{line: n.Line}
	d.Mapping(n, path, yamlpos.Fields{
		"name":     yamlpos.Parsed(&d.Decoder, &p.Name, parseName),
		"version":  d.String(&p.Version),
		"digest":   d.Digest(&p.Digest),
		"manifest": d.Digest(&p.Manifest),
		"signer":   yamlpos.Parsed(&d.Decoder, &p.Signer, parseKeyID),
		"source":   d.String(&p.Source),
	}, "name", "version", "digest", "source")
	return p
}

func parseName(text string) (string, error) {
	if !plugin.ValidName(text) {
		return "", fmt.Errorf("%.80q is not the name of a plugin", text)
	}
	return text, nil
}

var keyID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{32}$`) })

func parseKeyID(text string) (string, error) {
	if !keyID().MatchString(text) {
		return "", fmt.Errorf("%.80q is not the ID of a key: must be 32 hexadecimal digits in lower case", text)
	}
	return text, nil
}
