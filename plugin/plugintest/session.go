package plugintest

import (
	"errors"
	"net/netip"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin"
)

const sessionKind = "PluginSession"

// newCase is a case of which nothing was read yet.
func newCase() *Case {
	return &Case{Timeout: defaultTimeout, Attempt: 1, Names: make(map[string][]netip.Addr)}
}

// parseSession reads a file that a [Recorder] wrote: the world of a case, and what the
// plugin was asked.
func parseSession(path string, data []byte) (*Case, error) {
	doc, err := oneDocument(path, data)
	if err != nil {
		return nil, err
	}
	r := &reader{file: path}
	c := newCase()
	c.session = path
	var recorded string
	r.mapping(doc, "", map[string]read{
		"apiVersion": r.constant(plugin.APIVersion),
		"kind":       r.constant(sessionKind),
		"recorded":   r.text(&recorded),
		"timeout":    r.timeout(&c.Timeout),
		"grants":     r.grants(&c.Grants),
		"request":    func(n *yaml.Node, path string) { r.request(n, path, c) },
		"host":       func(n *yaml.Node, path string) { r.host(n, path, c) },
		"want":       func(n *yaml.Node, path string) { r.want(n, path, &c.Want) },
	}, "apiVersion", "kind", "request", "host")
	c.Want.result, c.Want.message = place{}, place{} // of another file than the case's
	return c, errors.Join(r.errs...)
}

// oneDocument reads a file of one YAML document.
func oneDocument(path string, data []byte) (*yaml.Node, error) {
	d := yamlpos.Decoder{File: path}
	root := d.Parse(data, maxFile)
	return root, d.Err()
}

// replay has a case begin as the session that it names, and reports whether it could.
func (r *reader) replay(n *yaml.Node, path string, c *Case) bool {
	name, ok := r.scalar(n, path)
	if !ok {
		return false
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(r.file), name)
	}
	data, err := regular.Read(name, maxFile)
	if err != nil {
		r.failf(n, path, "%w", err)
		return false
	}
	session, err := parseSession(name, data)
	if err != nil {
		r.errs = append(r.errs, err)
		return false
	}
	session.Name, session.Line = c.Name, c.Line
	if session.Grants == nil {
		session.Grants = c.Grants
	}
	*c = *session
	return true
}

// field returns the value of a field of a mapping, or nil.
func field(n *yaml.Node, name string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}
