package plugincmd

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/plugin"
)

// depth is the number of checks of the gate that a module undergoes.
type depth func(context.Context, *wasm.Host, plugin.Found) error

// linked compiles and links a module, without running it.
func linked(ctx context.Context, host *wasm.Host, f plugin.Found) error { return host.Check(ctx, f) }

// started loads a module, which runs its start function and _initialize in the sandbox.
func started(ctx context.Context, host *wasm.Host, f plugin.Found) error {
	loaded, err := host.Load(ctx, f)
	if err != nil {
		return err
	}
	return loaded.Close()
}

// gate returns the error for which a host cannot load the module f, even if the operator grants all requests
// of the manifest; nil for a program. err means that the check itself failed.
func gate(ctx context.Context, env *command.Env, f plugin.Found, to depth) (unloadable, err error) {
	if f.Manifest == nil || f.Manifest.Runtime == plugin.Process || f.Manifest.Runtime == plugin.Nagios {
		return nil, nil
	}
	if f.Grants, err = plugin.ParseGrants(plugin.WidestGrants()); err != nil {
		return nil, command.Failed(err)
	}
	ctx, stop := env.Interruptible(ctx)
	defer stop()
	host, err := wasm.New(wasm.Config{Logger: slog.New(slog.DiscardHandler), Version: env.Version, Compiler: env.Compiler})
	if err != nil {
		return nil, command.Usage("", "%w", err)
	}
	defer host.Close()
	if unloadable = to(ctx, host, f); ctx.Err() != nil {
		return nil, command.Failed(context.Cause(ctx))
	}
	return unloadable, nil
}

const nothingWritten = "nothing was written"

// refuse returns an error if no host can load the module. done is the hint about the effect on the command.
func refuse(ctx context.Context, env *command.Env, f plugin.Found, done string) error {
	unloadable, err := gate(ctx, env, f, started)
	if unloadable != nil {
		err = &command.Exit{Code: command.ExitFailed, Err: fmt.Errorf("%w (%s)", unloadable, f.Path), Hint: done + ": no prober loads such a module"}
	}
	return err
}

// whyUnloadable returns the reason for which no host can load the module f, on one line, or "" if hosts can.
// It does not run the module, which may be untrusted.
func whyUnloadable(ctx context.Context, env *command.Env, f plugin.Found) string {
	unloadable, err := gate(ctx, env, f, linked)
	switch {
	case err != nil:
		env.Warn("whether prober can load %s is not known: %v", f.Path, err)
		return ""
	case unloadable != nil:
		return explain.OneLine(joined.Line(unloadable))
	default:
		return ""
	}
}

// warnUnloadable warns if no host can load a module.
func warnUnloadable(ctx context.Context, env *command.Env, f plugin.Found) {
	if why := whyUnloadable(ctx, env, f); why != "" {
		env.Warn("no prober loads %s: %s", f.Path, why)
	}
}
