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

// Open reads the file at path; "" is a file without modules, as is one with an error.
func Open(path string, log *slog.Logger) (*Current, error) {
	c, f := &Current{path: path, log: log}, &File{}
	var err error
	if path != "" {
		if f, err = Load(path); err != nil {
			f = &File{}
		}
	}
	c.file.Store(f)
	return c, err
}

// Check returns an error for each module of the file whose handler refuses its config.
func (c *Current) Check(prepare Preparer) error { return c.File().check(c.path, prepare, c.log) }

// Reload reads the file again, and checks it. With an error, the last good one stays.
func (c *Current) Reload(prepare Preparer) error {
	if c.path == "" {
		return nil
	}
	f, err := Load(c.path)
	if err == nil {
		err = f.check(c.path, prepare, c.log)
	}
	if err == nil {
		c.file.Store(f)
	}
	return err
}

// File returns the file.
func (c *Current) File() *File { return c.file.Load() }

// Credentials returns the credentials that the modules name.
func (c *Current) Credentials() []config.Credentials { return c.File().Credentials }
