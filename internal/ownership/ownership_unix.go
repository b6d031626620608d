//go:build unix

package ownership

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// checkPrivate returns an error if dir is writable to others or belongs to another user.
func checkPrivate(dir string, info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("%s is writable to others (mode %#o); it must be private (0700)", dir, mode)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, not to %d", dir, stat.Uid, os.Geteuid())
	}
	return nil
}

// OnlyOwnerWrites returns an error if users other than the owner may write to the file or folder
// called name.
func OnlyOwnerWrites(name string, info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("%s is writable to others (mode %#o); `chmod go-w %s` keeps them out", name, mode, name)
	}
	return nil
}

// Check returns an error if users other than this one and root can change the file or folder
// called name.
func Check(name string, info fs.FileInfo) error {
	if err := OnlyOwnerWrites(name, info); err != nil {
		return err
	}
	return checkOwner(name, info)
}

// CheckSecret returns an error if users other than this one and root may read or change the file
// called name.
func CheckSecret(name string, info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s: mode %04o lets other users read or change it; it must be 0600", name, mode)
	}
	return checkOwner(name, info)
}

// CheckExecutable returns an error if the owner may not execute the file called name.
func CheckExecutable(name string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o100 == 0 {
		return fmt.Errorf("%s is not executable", name)
	}
	return nil
}

// checkOwner returns an error if the file or folder called name belongs to a user other than
// root and this one.
func checkOwner(name string, info fs.FileInfo) error {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d: want root or the user that runs prober", name, stat.Uid)
	}
	return nil
}

// maxLinks is the maximum number of symbolic links in a path, as in the kernel.
const maxLinks = 40

// CheckPath returns an error if users other than this one and root can replace the file at path. This is so if a
// folder of the path, or of a symbolic link in it, belongs to another user, or is writable by its group or everybody.
// In a folder with the sticky bit, writers can only replace their own entries.
func CheckPath(path string) error {
	if !filepath.IsAbs(path) {
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		path = dir + "/" + path // not cleaned: a ".." may follow a link
	}
	at, rest := "/", strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		entry, err := checkEntry(at, name)
		if err != nil {
			return err
		}
		if entry.Mode()&fs.ModeSymlink == 0 {
			at = filepath.Join(at, name)
			continue
		}
		target, err := os.Readlink(filepath.Join(at, name))
		if err != nil {
			return err
		}
		if links++; links > maxLinks {
			return &fs.PathError{Op: "open", Path: path, Err: errors.New("too many symbolic links")}
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return nil
}

// checkEntry returns the entry called name of a folder, and an error if other users can replace
// it.
func checkEntry(folder, name string) (fs.FileInfo, error) {
	dir, err := os.Lstat(folder)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, name)
	entry, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if err := checkOwner(folder, dir); err != nil {
		return nil, err
	}
	loose := OnlyOwnerWrites(folder, dir)
	if loose != nil && dir.Mode()&fs.ModeSticky != 0 {
		loose = checkOwner(path, entry)
	}
	return entry, loose
}
