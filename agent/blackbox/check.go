package blackbox

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/probe"
)

// Preparer checks the config of a handler for a target.
type Preparer func(handler string, config []byte, target probe.Target) (probe.Handler, error)

// Check reads the file at path, and calls prepare with the handler and the config of each module that can
// be used. Its error joins those of the file, of modules that cannot be used and of prepare, each with
// the file, the line and the module.
func Check(path string, prepare Preparer) error {
	f, err := Load(path)
	if err != nil {
		return err
	}
	byLine := func(a, b *Module) int { return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.Name, b.Name)) }
	var errs []error
	for _, m := range slices.SortedFunc(maps.Values(f.modules), byLine) {
		if err := m.check(prepare); err != nil {
			errs = append(errs, &yamlpos.Error{File: path, Line: m.line, Field: yamlpos.Join("modules", m.Name), Err: err})
		}
	}
	return errors.Join(errs...)
}

// anyTarget is a target that every module can have.
const anyTarget = "localhost:443"

// check returns why the module cannot be used.
func (m *Module) check(prepare Preparer) error {
	if err := m.unusable(); err != nil {
		return err
	}
	config, target, err := m.bind(anyTarget, "", 0)
	if err != nil {
		return err
	}
	_, err = prepare(m.handler, config, target)
	return err
}
