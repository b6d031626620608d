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

// FoldFirst sets how long a warning is folded that came again.
func FoldFirst(c *Config, d time.Duration) { c.foldFirst = d }
