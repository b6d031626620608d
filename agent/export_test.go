package agent

import "time"

// IdleAfter sets how long a plugin stays loaded that no probe uses.
func IdleAfter(c *Config, d time.Duration) { c.idleAfter = d }

// AskEvery sets how often registries are asked for tags.
func AskEvery(c *Config, d time.Duration) { c.askEvery = d }
