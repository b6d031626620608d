package blackbox

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/internal/yamlpos"
)

// maxFile is the limit of a file, in bytes.
const maxFile = 1 << 20

// File is the contents of a blackbox_exporter file. It is read-only.
type File struct {
	modules map[string]*Module
	// Credentials are the client certificates of the modules.
	Credentials []config.Credentials

	references References // in place of secrets and files; nil: they are read
}

// Load reads the file at path, and the files that its modules refer to. Their paths are relative to the
// working directory, as in blackbox_exporter. Each error has the file, the line and the path of the field. A
// module that uses an unsupported feature or an unreadable file is no error: see [File.Unsupported].
func Load(path string) (*File, error) {
	text, err := regular.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("blackbox config: %w", err)
	}
	return parse(path, text, nil)
}

func parse(path string, text []byte, references References) (*File, error) {
	d := &yamlpos.Decoder{File: path, Loose: true}
	f := &File{modules: make(map[string]*Module), references: references}
	if root := d.Parse(text, maxFile); root != nil {
		d.Mapping(root, "", yamlpos.Fields{"modules": func(n *yamlpos.Node, path string) {
			d.Entries(n, path, func(key, value *yamlpos.Node, path string) { f.module(d, key, value, path) })
		}}, "modules")
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return f, nil
}

// module reads a module.
func (f *File) module(d *yamlpos.Decoder, key, n *yamlpos.Node, path string) {
	name := key.Value
	if hasBytes(n) {
		f.modules[name] = &Module{
			Name: name, line: key.Line, unsupported: errors.New("bytes (!!binary) are not supported"), refused: []refusal{{"", "bytes (!!binary) are not supported"}},
		}
		return
	}
	var fields moduleFields
	if !d.Into(n, path, &fields) {
		return
	}
	m := &Module{Name: name, line: key.Line, fields: fields}
	if f.references != nil {
		m.node = n
	}
	if fields.Timeout != "" {
		var err error
		if m.timeout, err = parseTimeout(fields.Timeout); err != nil {
			d.Errorf(yamlpos.Field(n, "timeout"), yamlpos.Join(path, "timeout"), "%w", err)
		}
	}
	r := reader{module: m, file: f, references: f.references}
	if err := r.convert(); err != nil {
		d.Error(n, path, err)
		return
	}
	f.modules[name] = m
}

// hasBytes reports whether n contains a binary value, which the config of a plugin cannot represent.
func hasBytes(n *yamlpos.Node) bool {
	return n.Tag == "!!binary" || slices.ContainsFunc(n.Content, hasBytes)
}

// parseTimeout parses a Go duration, which blackbox_exporter accepts, or a Prometheus duration, which its
// documentation describes.
func parseTimeout(text string) (time.Duration, error) {
	if timeout, err := time.ParseDuration(text); err == nil {
		return timeout, nil
	}
	timeout, err := model.ParseDuration(text)
	return time.Duration(timeout), err
}

// Names returns the names of all modules, sorted.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.modules)) }

// Unsupported returns why modules cannot be used, by name: a module uses an unsupported feature, or an
// unreadable file, which is read again at each scrape.
func (f *File) Unsupported() map[string]error {
	all := make(map[string]error)
	for name, m := range f.modules {
		if err := m.unusable(); err != nil {
			all[name] = err
		}
	}
	return all
}

// reader builds the handler and the config of a module.
type reader struct {
	module *Module
	file   *File // receives the credentials

	references References // see [File]
}

// text returns the contents of the file of a field. The module cannot be used while the file is unreadable.
func (r *reader) text(field, path string) string {
	if r.references != nil {
		return r.references.File(r.module.Name, field, path)
	}
	r.module.readsFiles = true
	text, err := regular.Read(path, maxFile)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%s: no such file", path)
	}
	if err != nil && r.module.unread == nil {
		r.module.unread = fmt.Errorf("%s: %w", field, err)
	}
	return string(text)
}
