package agent

import (
	"time"
)

// IdleAfter sets how long a plugin that no probe uses stays loaded.
func IdleAfter(c *Config, d time.Duration) { c.idleAfter = d }

// AskEvery sets how often registries are asked for tags.
func AskEvery(c *Config, d time.Duration) { c.askEvery = d }

// LongReload sets how long a reload takes before it is reported.
func LongReload(c *Config, d time.Duration) { c.longReload = d }

// RetrySecrets sets the pause until secrets that could not be read are tried again.
func RetrySecrets(c *Config, d time.Duration) { c.retrySecrets = d }

// FoldFirst sets the first interval in which equal warnings are one line.
func FoldFirst(c *Config, d time.Duration) { c.foldFirst = d }

// Patterns returns the patterns of the paths that the agent serves.
func (a *Agent) Patterns() (patterns []string) {
	for _, r := range a.routes() {
		patterns = append(patterns, r.pattern)
	}
	return patterns
}
