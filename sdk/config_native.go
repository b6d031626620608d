//go:build !wasip1

package sdk

func (c *Config) lookup(path string) (value, bool) { return c.find(path) }
