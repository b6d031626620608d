package agent

import (
	"time"
)

// IdleAfter sets how long a plugin stays loaded that no probe uses.
func IdleAfter(c *Config, d time.Duration) { c.idleAfter = d }

// AskEvery sets how often registries are asked for tags.
func AskEvery(c *Config, d time.Duration) { c.askEvery = d }

// LongReload sets from when on a reload that is under way is told.
func LongReload(c *Config, d time.Duration) { c.longReload = d }

// RetrySecrets sets the pause until secrets that could not be used are tried again.
func RetrySecrets(c *Config, d time.Duration) { c.retrySecrets = d }

// Answers returns how many answers of registries are remembered.
func Answers(a *Agent) int { return a.handlers.Answers() }

// ProbeAsks does what a probe does that asks for a plugin which was never loaded: it looks what
// there is, before who follows the files does, and says that something is wrong.
func ProbeAsks(a *Agent) error {
	_, err := a.handlers.Scan()
	a.pluginsTrigger.request("probe", false)
	return err
}

// Close frees what New made, of an agent that does not run.
func Close(a *Agent) { a.close() }

// FoldFirst sets how long a warning is folded that came again.
func FoldFirst(c *Config, d time.Duration) { c.foldFirst = d }
