package agent

import (
	"time"
)

// IdleAfter sets how long an unused plugin stays loaded.
func IdleAfter(c *Config, d time.Duration) { c.idleAfter = d }

// AskEvery sets the interval of queries for tags.
func AskEvery(c *Config, d time.Duration) { c.askEvery = d }

// LongReload sets the time after which a running reload is reported.
func LongReload(c *Config, d time.Duration) { c.longReload = d }

// RetrySecrets sets the pause before unreadable secrets are retried.
func RetrySecrets(c *Config, d time.Duration) { c.retrySecrets = d }

// FoldFirst sets the first interval in which equal warnings are folded into one line.
func FoldFirst(c *Config, d time.Duration) { c.foldFirst = d }

// Patterns returns the patterns of the paths that the agent serves.
func (a *Agent) Patterns() (patterns []string) {
	for _, r := range a.routes() {
		patterns = append(patterns, r.pattern)
	}
	return patterns
}
