package admit

import (
	"cmp"
	"errors"
	"slices"

	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
	"github.com/daeace23/prober/plugin/trust"
)

// PluginError is the error for a plugin that may not be loaded.
type PluginError struct {
	Name string
	Err  error
}

// Error returns the text of e.Err, which names the plugin or its file.
func (e *PluginError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *PluginError) Unwrap() error { return e.Err }

// RefusedError is the error for a version of a plugin whose digest or signatures are wrong, or
// that is not in the lock.
type RefusedError struct {
	Path   string
	Digest string // of the module or program
	Err    error
}

// Error returns the text of e.Err, which names the plugin or its file.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// Trust returns the state of the signatures: "unsigned", "unknown-key" or "bad-signature"; "" if
// they were not checked.
func (e *RefusedError) Trust() string {
	refusal, ok := errors.AsType[*trust.Refusal](e.Err)
	if !ok {
		return ""
	}
	return string(cmp.Or(refusal.State, "bad-signature"))
}

// WithoutAway returns err without the errors of plugins whose registry is not available. These are
// temporary, and not a mistake in the configuration.
func WithoutAway(err error) error {
	return errors.Join(slices.DeleteFunc(joined.Errors(err), func(err error) bool { return errors.Is(err, oci.ErrUnavailable) })...)
}

func refuse(f *plugin.Found, err error) error {
	return &RefusedError{f.Path, cmp.Or(f.Digest, f.ModuleDigest()), err}
}
