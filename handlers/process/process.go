// Package process runs plugins that are programs: it starts them with hashicorp/go-plugin, calls
// them over gRPC, and restarts them when they end.
//
// Read handler.go first: [Load] returns a handler, which all probes of a plugin share. call.go has one
// attempt, supervise.go restarts the process, child.go has one process with its streams, and client.go the
// connection to it. logs.go logs the output, and secrets.go decides which lines must not be shown. A
// process is not in a sandbox. No other user can change its executable (internal/sealed), its environment
// is empty, and it ends with the agent (internal/procgroup).
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
	// Logger receives the output of processes, and a line when one ends. Nil discards both.
	Logger *slog.Logger
	// Version is the host's version as plugins see it.
	Version string
	// Env is the complete environment of processes, in the form "NAME=value". Nil means an empty one.
	Env []string
	// Strict makes malformed performance data and unknown fields in a result an error with the reason
	// "protocol", for tests of plugins. Otherwise they are ignored.
	Strict bool
	// StartTimeout is how long a process may take from its start until it has sent its
	// description. 0 means 5 s.
	StartTimeout time.Duration
	// Pause is the pause before the next start after two processes in a row have ended. It doubles
	// with each further process, up to MaxPause. A process that ran for longer than MaxPause resets the
	// count. 0 means 1 s for Pause, and 1 min for MaxPause.
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

// Load starts a plugin and returns it as a handler, which the caller closes. It runs the bytes in
// found.Module, even if the file at found.Path has changed. The plugin must have the name and version of
// found.Manifest. If the plugin cannot be run, the error has the reason "instantiate", or "host_resources"
// if the host lacks resources. Load also sets close-on-exec for the descriptors that this program was
// started with, except the three standard streams, so that no child inherits them.
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
		cfg: cfg, manifest: found.Manifest, limits: plugin.Resolve(found.Manifest.Limits, found.Limits), path: found.Path, launch: launchOf(found.Module),
		about: attempt.Plugin{Manifest: found.Manifest, Digest: digest, HostVersion: cfg.Version},
	}
	h.gate.limit, h.gate.hits = h.limits.Instances, &h.hits
	for _, r := range found.Manifest.Requests {
		h.about.Features = append(h.about.Features, r.Capability) // always granted: a process is not in a sandbox
		h.keeps = h.keeps || r.Capability == plugin.CapabilityKV
	}
	h.keeper = newKeeper(h, program)
	if _, err := h.keeper.process(ctx, 1); err != nil {
		_ = h.Close()
		return nil, err
	}
	return h, nil
}

// copyOf copies the executable. Unless the digest is known, it is computed concurrently. Each takes 10 ms
// for 20 MB.
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
