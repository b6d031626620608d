package wasm

import (
	"errors"
	"fmt"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Admit returns the error that [Host.LoadFound] would return for found, as far as that is
// known without compiling or running anything: a capability that is not granted, an import
// that prober does not have, an export with another signature, a limit that the module is
// beyond.
func Admit(found plugin.Found) error {
	p := &Handler{host: new(Host), manifest: found.Manifest}
	p.resolveLimits(found.Limits)
	err := p.admit(found.Module, found.Grants)
	if err == nil {
		err = errors.Join(plugin.CheckContract(found.Module, found.Manifest)...)
	}
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*probe.Error](err); !ok {
		err = &probe.Error{Reason: probe.ReasonInstantiate, Err: err}
	}
	return fmt.Errorf("plugin %q: %w", found.Manifest.Name, err)
}
