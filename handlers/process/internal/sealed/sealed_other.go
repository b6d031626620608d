//go:build !linux

package sealed

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Copy is a copy of an executable in a folder that only this user can enter.
type Copy struct {
	folder string
	sum    [sha256.Size]byte
}

// New copies code into a new folder.
func New(_ string, code []byte) (*Copy, error) {
	folder, err := os.MkdirTemp("", "prober-plugin-") // 0700
	if err != nil {
		return nil, err
	}
	c := &Copy{folder, sha256.Sum256(code)}
	if err := os.WriteFile(c.path(), code, 0o500); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Copy) path() string {
	if runtime.GOOS == "windows" { // Windows does not run a file without an extension
		return filepath.Join(c.folder, "plugin.exe")
	}
	return filepath.Join(c.folder, "plugin")
}

// Check returns an error if the copy has changed. A program of the same user can change it.
func (c *Copy) Check() error {
	code, err := os.ReadFile(c.path())
	if err != nil {
		return err
	}
	if sha256.Sum256(code) != c.sum {
		return fmt.Errorf("%s, the copy of the executable, has changed", c.path())
	}
	return nil
}

// Command returns the path that a child runs.
func (c *Copy) Command() (path string, files []*os.File) { return c.path(), nil }

// Close removes the copy.
func (c *Copy) Close() error { return os.RemoveAll(c.folder) }
