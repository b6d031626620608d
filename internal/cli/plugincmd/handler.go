package plugincmd

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/perfdata"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// warnings is a log of a host. It prints what the host says about the output of a plugin, and discards the rest.
type warnings struct {
	slog.Handler
	env *command.Env
}

// Enabled implements [slog.Handler].
func (w warnings) Enabled(_ context.Context, level slog.Level) bool { return level == slog.LevelWarn }

// Handle implements [slog.Handler].
func (w warnings) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, perfdata.Ignored) {
		w.env.Warn("%s", r.Message)
	}
	return nil
}

// loadPlugin returns a handler of a plugin of any runtime. done closes it.
func (o *pluginProbe) loadPlugin(ctx context.Context, found plugin.Found) (h probe.Handler, done func(), err error) {
	if r := found.Manifest.Runtime; r == plugin.Process || r == plugin.Nagios {
		return o.loadProcess(ctx, found)
	}
	o.grants = slices.Concat(found.Grants, o.grants)
	found.Grants = o.grants
	cfg := wasm.Config{ShowOutput: true, Logger: slog.New(warnings{slog.DiscardHandler, o.Env}), Version: o.Env.Version, Compiler: o.Env.Compiler, Credentials: o.credentials}
	if o.recorder != nil {
		o.recorder.Wrap(&cfg)
	}
	host, err := wasm.New(cfg)
	if err != nil {
		return nil, nil, command.Usage("", "%w", err)
	}
	stop := o.Env.Busy("loading plugin " + found.Manifest.Name) // the first compilation takes seconds
	loaded, err := host.Load(ctx, found)
	stop()
	if err != nil {
		_ = host.Close()
		hint := ""
		if probe.ReasonOf(err) == probe.ReasonDenied {
			hint = "--grant gives a capability that the manifest asks for; prober plugin inspect shows what it asks for"
		}
		return nil, nil, command.Usage(hint, "%w (%s)", err, found.Path)
	}
	return loaded, func() { _ = host.Close() }, nil
}

// loadProcess is loadPlugin for a program.
func (o *pluginProbe) loadProcess(ctx context.Context, found plugin.Found) (h probe.Handler, done func(), err error) {
	if len(o.grants) > 0 {
		return nil, nil, command.Usage("omit --grant", "plugin %q is a program: it has no sandbox, so it takes no grants", found.Manifest.Name)
	}
	if o.recorder != nil {
		return nil, nil, command.Usage("", "plugin %q is a program: only modules can be recorded", found.Manifest.Name)
	}
	if found.Manifest.Runtime == plugin.Nagios {
		check, err := process.LoadCheck(process.Config{Logger: slog.New(warnings{slog.DiscardHandler, o.Env})}, found)
		if err == nil {
			return check, func() { _ = check.Close() }, nil
		}
		hint := ""
		if len(found.Folders) == 0 {
			hint = "--agent-config FILE names a prober.yaml with nagios.folders"
		}
		return nil, nil, command.Usage(hint, "%w (%s)", err, found.Path)
	}
	loaded, err := process.Load(ctx, process.Config{Version: o.Env.Version}, found)
	if err != nil {
		return nil, nil, command.Usage("", "%w (%s)", err, found.Path)
	}
	return loaded, func() { _ = loaded.Close() }, nil
}
