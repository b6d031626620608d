package attempt

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/quarantine"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Loaded is a loaded plugin.
type Loaded interface {
	probe.Handler
	io.Closer
}

// RegisterAll loads the plugins in found and registers each in a [quarantine.Handler]. If a plugin fails,
// the others are still loaded. The error joins the errors of all plugins, each with its name.
func RegisterAll[H Loaded](ctx context.Context, reg *handlers.Registry, found []plugin.Found, load func(context.Context, plugin.Found) (H, error)) error {
	var errs []error
	for _, f := range found {
		if ctx.Err() != nil {
			errs = append(errs, context.Cause(ctx))
			break
		}
		h, err := load(ctx, f)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w (%s)", err, f.Path))
			continue
		}
		if err := reg.Register(f.Manifest.Name, f.Path, quarantine.New(h, quarantine.Config{})); err != nil {
			errs = append(errs, err, h.Close())
		}
	}
	return errors.Join(errs...)
}
