package blackbox

import (
	"log/slog"
	"sync/atomic"

	"github.com/daeace23/prober/config"
)

// Current has the file that an agent uses at present. It is safe for concurrent use.
type Current struct {
	path string
	log  *slog.Logger
	file atomic.Pointer[File]
}

// Open reads the file at path. If path is "" or the file has an error, the result has no modules.
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

// Check joins an error for each module of the file whose handler rejects its config.
func (c *Current) Check(prepare Preparer) error { return c.File().check(c.path, prepare, c.log) }

// Reload reads and checks the file again. On an error, the last good file stays in use.
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

// File returns the file in use.
func (c *Current) File() *File { return c.file.Load() }

// Credentials returns the client certificates of the modules.
func (c *Current) Credentials() []config.Credentials { return c.File().Credentials }
