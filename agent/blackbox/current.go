package blackbox

import (
	"log/slog"
	"sync/atomic"

	"github.com/daeace23/prober/config"
)

// Current is the file that an agent uses now. It is safe for concurrent use.
type Current struct {
	path string
	log  *slog.Logger
	file atomic.Pointer[File]
}

// Open reads the file at path; "" is a file without modules.
func Open(path string, log *slog.Logger) (*Current, error) {
	c := &Current{path: path, log: log}
	c.file.Store(&File{})
	return c, c.Reload()
}

// Reload reads the file again. With an error, the last good one stays.
func (c *Current) Reload() error {
	if c.path == "" {
		return nil
	}
	f, err := Load(c.path)
	if err != nil {
		return err
	}
	c.file.Store(f)
	for _, name := range f.Names() {
		if err := f.modules[name].unusable(); err != nil {
			c.log.Warn("a module cannot be used", "file", c.path, "module", name, "error", err.Error())
		}
	}
	return nil
}

// File returns the file.
func (c *Current) File() *File { return c.file.Load() }

// Credentials returns the credentials that the modules name.
func (c *Current) Credentials() []config.Credentials { return c.File().Credentials }
