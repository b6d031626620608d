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

// command is a program, and what it was when it was allowed.
type command struct {
	path, digest string
	program      *sealed.Copy // a copy that nobody can change; nil for one that has to run from its place
	seen         os.FileInfo
}

// findCommand finds a program in folders. name is that of a file in one of them, or a path
// that leads there.
func findCommand(name, pin string, folders []string) (command, error) {
	if len(folders) == 0 {
		return command{}, errors.New("the operator allows no commands: nagios.folders of prober.yaml names the folders of those that may run")
	}
	for _, folder := range folders {
		path := filepath.Join(folder, name)
		if filepath.IsAbs(name) {
			if path = filepath.Clean(name); filepath.Dir(path) != filepath.Clean(folder) {
				continue
			}
		} else if filepath.Base(name) != name {
			return command{}, fmt.Errorf("command %q: want the name of a file, or the whole path", name)
		}
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			continue
		}
		return allow(path, pin, folders)
	}
	return command{}, fmt.Errorf("command %q is in none of the folders that the operator allows: %s", name, strings.Join(folders, ", "))
}

// allow holds the program at path, which is in one of folders, against all that is asked
// of one. Where it is a link, as Debian's check_ftp is, it leads to one of folders too.
func allow(path, pin string, folders []string) (command, error) {
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
	if err := checkWay(path); err != nil {
		return command{}, err
	}
	code, info, err := plugin.ReadExecutable(real)
	if err != nil {
		return command{}, err
	}
	c := command{path: path, digest: plugin.Digest(code), seen: info}
	if pin != "" && pin != c.digest {
		return command{}, fmt.Errorf("digest of %s is %s, want %s", real, c.digest, pin)
	}
	// A script finds what is beside it by its own path, and what runs as another user does so
	// by its place only.
	if bytes.HasPrefix(code, []byte("#!")) || info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
		return c, nil
	}
	c.program, err = sealed.New(filepath.Base(path), code)
	return c, err
}

// checkWay returns an error if path must not be run: somebody else could put another program in its
// place, or a folder or link on the way there.
func checkWay(path string) error {
	for {
		if err := checkFolder(filepath.Dir(path)); err != nil {
			return err
		}
		to, err := os.Readlink(path)
		if err != nil { // it is none; there is no circle of them, or it would not have been found
			return nil
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
}

// checkFolder holds a folder, and those that it is in, against who can write there.
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
			return fmt.Errorf("%s is writable to others (mode %#o): anyone of them could put another folder in the place of one below", at, mode.Perm())
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// unchanged returns an error unless a program that runs from its place is still the one that was
// allowed.
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
