//go:build !linux

package sealed

import (
	"os"
	"path/filepath"
	"runtime"
)

// Copy is a copy of an executable in a folder that is nobody else's.
type Copy struct{ folder string }

// New copies code into a new folder.
func New(_ string, code []byte) (*Copy, error) {
	folder, err := os.MkdirTemp("", "prober-plugin-") // 0700
	if err != nil {
		return nil, err
	}
	c := &Copy{folder}
	if err := os.WriteFile(c.Path(), code, 0o500); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Path is where this process finds the copy.
func (c *Copy) Path() string {
	if runtime.GOOS == "windows" { // which runs no file without an extension
		return filepath.Join(c.folder, "plugin.exe")
	}
	return filepath.Join(c.folder, "plugin")
}

// Command is what a child runs.
func (c *Copy) Command() (path string, files []*os.File) { return c.Path(), nil }

// Close removes the copy.
func (c *Copy) Close() error { return os.RemoveAll(c.folder) }
