// Package process runs plugins that are programs: it starts them with hashicorp/go-plugin, calls
// them over gRPC, and restarts them when they end.
//
// Read handler.go first: [Load] returns a handler, which all probes of a plugin share. call.go is
// one attempt, supervise.go restarts the process, child.go is one process with its streams, and
// client.go the connection to it. logs.go logs what it writes, and secrets.go decides what of that
// must not be shown. A process is not in a sandbox. Nobody else can change its executable
// (internal/sealed), its environment is empty, and it ends with the agent (internal/procgroup).
//
// [LoadCheck] returns a handler that runs a command by the conventions of Nagios plugins:
// check.go is the handler, command.go finds the command, argument.go and input.go fill in its
// arguments and input, run.go runs it. waiting.go explains attempts of both handlers.
package process

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/handlers/process/internal/sealed"
	"github.com/daeace23/prober/internal/descriptors"
	"github.com/daeace23/prober/internal/safelog"
	"github.com/daeace23/prober/plugin"
)

// Config is the configuration that all plugins share. Every field may be left zero.
type Config struct {
	// Logger gets the output of processes, and a line when one ends. Nil discards both.
	Logger *slog.Logger
	// Version is the version of the host, which plugins see.
	Version string
	// Env is the whole environment of processes, "NAME=value". Nil means an empty one.
	Env []string
	// Strict makes unknown fields in a result an error "protocol", for tests of plugins.
	// Otherwise they are ignored.
	Strict bool
	// StartTimeout is how long a process may take from its start until it has described
	// itself. 0 means 5 s.
	StartTimeout time.Duration
	// Pause is how long a plugin is not started again after the second process in a row has
	// ended. It doubles with each further process, up to MaxPause. A process that ran for
	// longer than MaxPause resets the count. 0 means 1 s and 1 min.
	Pause, MaxPause time.Duration
}

// drainTimeout is how long Close waits for attempts in flight before it ends the process.
const drainTimeout = 10 * time.Second

func (c Config) withDefaults() Config {
	c.Logger = safelog.New(c.Logger)
	c.StartTimeout = cmp.Or(c.StartTimeout, 5*time.Second)
	c.Pause = cmp.Or(c.Pause, time.Second)
	c.MaxPause = cmp.Or(c.MaxPause, time.Minute)
	return c
}

// Load starts a plugin and returns it as a handler, which the caller closes. It runs
// found.Module, whatever the file at found.Path is by now. The plugin must have the name and
// version of found.Manifest. The error of a plugin that cannot be run has the reason
// "instantiate", or "host_resources" if the host lacks resources. From then on no child of this
// program inherits a descriptor that this program was started with, except its three streams.
func Load(ctx context.Context, cfg Config, found plugin.Found) (*Handler, error) {
	h, err := load(ctx, cfg.withDefaults(), found)
	if err != nil {
		return nil, attempt.LoadError(found.Manifest.Name, err)
	}
	return h, nil
}

func load(ctx context.Context, cfg Config, found plugin.Found) (*Handler, error) {
	descriptors.CloseOnExec()
	program, digest, err := copyOf(found)
	if err != nil {
		return nil, err
	}
	h := &Handler{
		cfg: cfg, manifest: found.Manifest, limits: plugin.Resolve(found.Manifest.Limits, found.Limits),
		about: attempt.Plugin{Manifest: found.Manifest, Digest: digest, HostVersion: cfg.Version},
	}
	h.gate.most, h.gate.hits = h.limits.Instances, &h.hits
	for _, r := range found.Manifest.Requests {
		h.about.Features = append(h.about.Features, r.Capability) // a process is not in a sandbox
		h.keeps = h.keeps || r.Capability == plugin.CapabilityKV
	}
	h.keeper = newKeeper(h, program)
	if _, err := h.keeper.process(ctx, 1); err != nil {
		_ = h.Close()
		return nil, err
	}
	return h, nil
}

// copyOf copies the executable, and computes its digest at the same time unless its reader did so:
// either takes 10 ms for 20 MB.
func copyOf(found plugin.Found) (program *sealed.Copy, digest string, err error) {
	var copying sync.WaitGroup
	copying.Go(func() { program, err = sealed.New(found.Manifest.Name, found.Module) })
	digest = found.ModuleDigest()
	copying.Wait()
	switch {
	case found.Digest != "" && found.Digest != digest:
		if err == nil {
			_ = program.Close()
		}
		return nil, "", fmt.Errorf("digest of the executable is %s, want %s", digest, found.Digest)
	case err != nil:
		return nil, "", fmt.Errorf("copy the executable: %w", err)
	}
	return program, digest, nil
}
