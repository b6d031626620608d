package blackbox

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"slices"

	"github.com/daeace23/prober/internal/redact"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/probe"
)

// Preparer checks the config of a handler for a target.
type Preparer interface {
	Prepare(handler string, config []byte, target probe.Target) (probe.Handler, error)
}

// check calls prepare with the handler and the config of each module. Its error joins an error for each
// module whose config is rejected, with the file, the line and the module. It logs the modules that cannot be
// used.
func (f *File) check(path string, prepare Preparer, log *slog.Logger) error {
	byLine := func(a, b *Module) int { return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.Name, b.Name)) }
	var errs []error
	for _, m := range slices.SortedFunc(maps.Values(f.modules), byLine) {
		withPosition := func(err error) error {
			return &yamlpos.Error{File: path, Line: m.line, Field: yamlpos.Join("modules", m.Name), Err: err}
		}
		if err := m.unusable(); err != nil {
			log.Warn("a module cannot be used", "error", withPosition(err).Error())
		}
		if err := m.check(prepare); err != nil {
			errs = append(errs, withPosition(err))
		}
	}
	return errors.Join(errs...)
}

// anyTarget is a target that is valid for every module.
const anyTarget = "localhost:443"

// check returns the error of the module's handler for its config. It skips unsupported modules.
func (m *Module) check(prepare Preparer) error {
	if m.unsupported != nil {
		return nil
	}
	config, target, err := m.bind(anyTarget, "", 0)
	if err != nil {
		return err
	}
	h, err := prepare.Prepare(m.handler, config, target)
	probe.Release(h)
	if err != nil && len(m.secrets) > 0 {
		return errors.New(redact.New(m.secrets).Replace(err.Error()))
	}
	return err
}
