package blackbox

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/yamlpos"
)

// References returns what the config of a [Definition] has in place of secrets and files. field is the path
// of a field in a module, such as http.basic_auth.password.
type References interface {
	Secret(module, field string) string
	File(module, field, path string) string
	// Credentials returns the name of credentials for a handler. Those given have no name.
	Credentials(module, field, handler string, c config.Credentials) string
}

// Definition is a module as a probe of prober.yaml.
type Definition struct {
	Name    string
	Line    int
	Handler string         // a plugin, or grpc
	Config  map[string]any // of the handler, without fields that prober does not support
	Timeout time.Duration  // 0: the timeout of the scrape
	// Unsupported has the fields that prober does not support, with their lines.
	Unsupported []*yamlpos.Error
}

// Define reads text, the contents of the file at path, like [Load], and returns the modules in the order of
// their lines. It reads no other file: references stand for secrets and for the contents of files.
func Define(path string, text []byte, references References) ([]Definition, error) {
	f, err := parse(path, text, references)
	if err != nil {
		return nil, err
	}
	byLine := func(a, b *Module) int { return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.Name, b.Name)) }
	var all []Definition
	for _, m := range slices.SortedFunc(maps.Values(f.modules), byLine) {
		d := Definition{Name: m.Name, Line: m.line, Handler: m.handler, Config: m.config, Timeout: m.timeout}
		for _, r := range m.refused {
			at := yamlpos.Join("modules", m.Name)
			line := m.line
			if m.node != nil && r.field != "" {
				line, at = yamlpos.Line(m.node, r.field), at+"."+r.field
			}
			d.Unsupported = append(d.Unsupported, &yamlpos.Error{File: path, Line: line, Field: at, Err: errors.New(r.why)})
		}
		all = append(all, d)
	}
	return all, nil
}

// refusal is a field of a module that prober does not support.
type refusal struct{ field, why string }
