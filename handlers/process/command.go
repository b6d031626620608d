package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/daeace23/prober/handlers/process/internal/sealed"
	"github.com/daeace23/prober/internal/ownership"
	"github.com/daeace23/prober/plugin"
)

// command is a program, with the state of its file at the time of the check.
type command struct {
	path, digest string
	program      *sealed.Copy // an immutable copy; nil if the command must run from its path
	seen         os.FileInfo
	launch       launch
}

// findCommand returns a program that may run. name is the name of a file in one of folders, or its path.
func findCommand(name, pin string, folders []string) (command, error) {
	path, err := locateCommand(name, folders)
	if err != nil {
		return command{}, err
	}
	return checkCommand(path, pin, folders)
}

// locateCommand returns the path of a program as [findCommand] does, without checking whether it may run.
func locateCommand(name string, folders []string) (string, error) {
	if len(folders) == 0 {
		return "", errors.New("the operator allows no commands: set nagios.folders in prober.yaml")
	}
	for _, folder := range folders {
		path := filepath.Join(folder, name)
		if filepath.IsAbs(name) {
			if path = filepath.Clean(name); filepath.Dir(path) != filepath.Clean(folder) {
				continue
			}
		} else if filepath.Base(name) != name {
			return "", fmt.Errorf("command %q: want a file name or an absolute path", name)
		}
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			continue
		}
		return path, nil
	}
	return "", fmt.Errorf("command %q is in none of the folders that the operator allows: %s", name, strings.Join(folders, ", "))
}

// checkCommand returns the program at path, or an error if it must not run. path is in one of folders. A
// symbolic link, such as Debian's check_ftp, must lead to one of folders too.
func checkCommand(path, pin string, folders []string) (command, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return command{}, err
	}
	inside := slices.ContainsFunc(folders, func(folder string) bool {
		at, err := filepath.EvalSymlinks(folder)
		return err == nil && at == filepath.Dir(real)
	})
	if !inside {
		return command{}, fmt.Errorf("command %s leads to %s, which is in none of the folders that the operator allows", path, real)
	}
	if err := checkReplaceable(path); err != nil {
		return command{}, err
	}
	code, info, err := plugin.ReadExecutable(real)
	if err != nil {
		return command{}, err
	}
	c := command{path: path, digest: plugin.Digest(code), seen: info, launch: launchOf(code)}
	if pin != "" && pin != c.digest {
		return command{}, fmt.Errorf("digest of %s is %s, want %s", real, c.digest, pin)
	}
	// A script may find other files by its own path, and a copy would lose the setuid bit.
	if bytes.HasPrefix(code, []byte("#!")) || info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
		return c, nil
	}
	c.program, err = sealed.New(filepath.Base(path), code)
	return c, err
}

// checkReplaceable returns an error if another user could replace the program at path, or a folder or
// symbolic link in the path.
func checkReplaceable(path string) error {
	for {
		if err := checkFolder(filepath.Dir(path)); err != nil {
			return err
		}
		to, err := os.Readlink(path)
		if err != nil { // not a link; there is no cycle of links, because the file was found
			return nil
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
}

// checkFolder returns an error if others can write to folder or replace one of its parents.
func checkFolder(folder string) error {
	if err := ownership.CheckDir(folder); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return err
	}
	for at := filepath.Dir(real); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		if mode := info.Mode(); mode.Perm()&0o002 != 0 && mode&os.ModeSticky == 0 && runtime.GOOS != "windows" {
			return fmt.Errorf("%s is writable to others (mode %#o): they could replace a folder in it", at, mode.Perm())
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// unchanged returns an error if the program runs from its path and its file has changed since the check.
func (c *command) unchanged() error {
	if c.program != nil {
		return nil
	}
	now, err := os.Stat(c.path)
	if err != nil {
		return err
	}
	if !os.SameFile(now, c.seen) || now.ModTime() != c.seen.ModTime() || now.Size() != c.seen.Size() || now.Mode() != c.seen.Mode() {
		return fmt.Errorf("%s has changed since it was allowed", c.path)
	}
	return nil
}
