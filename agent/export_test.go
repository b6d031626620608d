package agent

import (
	"context"
	"time"

	"github.com/daeace23/prober/probe"
)

// IdleAfter sets how long a plugin stays loaded that no probe uses.
func IdleAfter(c *Config, d time.Duration) { c.idleAfter = d }

// AskEvery sets how often registries are asked for tags.
func AskEvery(c *Config, d time.Duration) { c.askEvery = d }

// LongReload sets from when on a reload that is under way is told.
func LongReload(c *Config, d time.Duration) { c.longReload = d }

// RetrySecrets sets the pause until secrets that could not be used are tried again.
func RetrySecrets(c *Config, d time.Duration) { c.retrySecrets = d }

// PrepareUntil prepares a plugin's handler h in an agent that ends with ctx, and returns
// when nothing of that goes on.
func PrepareUntil(ctx context.Context, h probe.Handler) error {
	s := &handlerSet{ending: ctx}
	_, err := endable{h, s}.Prepare(nil, probe.Target{})
	s.preparing.Wait()
	return err
}

// Remembered returns how many plugins of registries are known, and how many plugins are
// wanted.
func Remembered(a *Agent) (sources, wanted int) {
	s := a.handlers
	sources = s.sources.Len()
	s.mu.Lock()
	defer s.mu.Unlock()
	return sources, len(s.wanted)
}

// ProbeAsks does what a probe does that asks for a plugin which was never loaded: it looks what
// there is, before who follows the files does, and says that something is wrong.
func ProbeAsks(a *Agent) error {
	_, err := a.handlers.scan()
	a.pluginsTrigger.request("probe", false)
	return err
}

// Stamp returns the stamp of what the plugins of cfg are.
func Stamp(cfg Config) string { return (&handlerSet{cfg: cfg}).stamp() }

// Close frees what New made, of an agent that does not run.
func Close(a *Agent) { a.close() }

// FoldFirst sets how long a warning is folded that came again.
func FoldFirst(c *Config, d time.Duration) { c.foldFirst = d }
