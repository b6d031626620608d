package attempt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/quarantine"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Loaded is a plugin that was loaded.
type Loaded interface {
	probe.Handler
	io.Closer
}

// RegisterAll loads the plugins that were found, atOnce at a time, and registers each in a
// [quarantine.Handler]. It loads the others even if one fails. The errors name the plugin.
func RegisterAll[H Loaded](ctx context.Context, reg *handlers.Registry, found []plugin.Found, atOnce int, load func(context.Context, plugin.Found) (H, error)) error {
	errs := make([]error, len(found)+1)
	loaded := make([]func() error, len(found)) // register a plugin; nil if it was not loaded
	slots := make(chan struct{}, max(atOnce, 1))
	var wg sync.WaitGroup
	for i, f := range found {
		slots <- struct{}{}
		if ctx.Err() != nil {
			errs[len(found)] = context.Cause(ctx)
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			h, err := load(ctx, f)
			if err != nil {
				errs[i] = fmt.Errorf("%w (%s)", err, f.Path)
				return
			}
			loaded[i] = func() error {
				if err := reg.Register(f.Manifest.Name, f.Path, quarantine.New(h, quarantine.Config{})); err != nil {
					return errors.Join(err, h.Close())
				}
				return nil
			}
		})
	}
	wg.Wait()
	for i, register := range loaded {
		if register != nil {
			errs[i] = register()
		}
	}
	return errors.Join(errs...)
}
