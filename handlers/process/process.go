// Package process runs plugins that are programs: it starts them by hashicorp/go-plugin,
// speaks to them over gRPC, and starts them again when they end.
//
// Read handler.go first: [Load] returns a handler, which the probes of a plugin share. call.go is
// one attempt, supervise.go keeps a process alive, child.go is one process with its streams,
// client.go the connection to it. logs.go is what it writes, secrets.go what must not be shown of
// that. A process is not in a sandbox. Nobody else can change its executable (internal/sealed), its
// environment is empty, and it ends with the agent (internal/procgroup).
//
// [LoadCheck] makes a handler of a command that follows the conventions of Nagios plugins:
// check.go is the handler, command.go finds the command, argument.go and input.go write what it is
// given, run.go runs it. waiting.go explains attempts of both.
package process

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/handlers/process/internal/sealed"
	"github.com/daeace23/prober/internal/descriptors"
	"github.com/daeace23/prober/plugin"
)

// StartTimeout is how long a process may take until it serves, unless the config says otherwise.
const StartTimeout = 5 * time.Second

// Config is what all plugins share. Every field may be left zero.
type Config struct {
	// Logger gets what processes write, and when they end. Nil drops it.
	Logger *slog.Logger
	// Version is that of the host; plugins see it.
	Version string
	// Env is all of the environment that processes have, "NAME=value". Nil means an empty
	// one.
	Env []string
	// Strict makes a result that has fields which the contract does not know an error
	// "protocol", for tests of plugins. Else they are ignored.
	Strict bool
	// StartTimeout is how long a process may take from its start until it has said what it
	// is. 0 means [StartTimeout].
	StartTimeout time.Duration
	// Pause is how long a plugin rests when two processes of it have ended running. It
	// doubles with every further one, up to MaxPause; a process that has lived for longer
	// than MaxPause ends the series. 0 means 1 s and 1 min.
	Pause, MaxPause time.Duration
	// DrainTimeout is how long Close waits for attempts in flight. 0 means 10 s.
	DrainTimeout time.Duration
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.StartTimeout = cmp.Or(c.StartTimeout, StartTimeout)
	c.Pause = cmp.Or(c.Pause, time.Second)
	c.MaxPause = cmp.Or(c.MaxPause, time.Minute)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 10*time.Second)
	return c
}

// Load starts a plugin and returns it as a handler, which the caller closes. It is
// found.Module that is run, wherever found.Path leads by now. The plugin must say that it
// is what found.Manifest says. The error of a plugin that cannot be run has the reason
// "instantiate", or "host_resources" where that is not its fault. On Linux no descriptor
// that this program was started with, beyond its three streams, is handed on to any of its
// children from then on.
func Load(ctx context.Context, cfg Config, found plugin.Found) (*Handler, error) {
	h, err := load(ctx, cfg.withDefaults(), found)
	if err != nil {
		return nil, attempt.LoadError(found.Manifest.Name, err)
	}
	return h, nil
}

func load(ctx context.Context, cfg Config, found plugin.Found) (*Handler, error) {
	if digest := plugin.Digest(found.Module); found.Digest != "" && found.Digest != digest {
		return nil, fmt.Errorf("digest of the executable is %s, want %s", digest, found.Digest)
	}
	descriptors.CloseOnExec()
	program, err := sealed.New(found.Manifest.Name, found.Module)
	if err != nil {
		return nil, fmt.Errorf("copy the executable: %w", err)
	}
	h := &Handler{
		cfg: cfg, manifest: found.Manifest, digest: plugin.Digest(found.Module),
		limits: plugin.Resolve(found.Manifest.Limits, found.Limits),
	}
	for _, r := range found.Manifest.Requests {
		h.keeps = h.keeps || r.Capability == plugin.CapabilityKV
	}
	h.keeper = newKeeper(h, program)
	if _, err := h.keeper.process(ctx, 1); err != nil {
		_ = h.Close()
		return nil, err
	}
	return h, nil
}

// RegisterAll loads the plugins that were found and registers each in a
// [quarantine.Handler]. They start side by side, so that one that hangs delays no other. The
// others are loaded even if one fails; the errors name the plugin.
func RegisterAll(ctx context.Context, reg *handlers.Registry, cfg Config, found []plugin.Found) error {
	return attempt.RegisterAll(ctx, reg, found, len(found), func(ctx context.Context, f plugin.Found) (*Handler, error) {
		return Load(ctx, cfg, f)
	})
}
