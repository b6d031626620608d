//go:build linux

package bed

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// hierarchies returns the mount points of the control groups: one for version 2, or several for version 1,
// each with some controllers.
func hierarchies() (roots []string, err error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); (f[2] == "cgroup" || f[2] == "cgroup2") && !slices.Contains(roots, f[1]) {
			roots = append(roots, f[1])
		}
	}
	return roots, err
}

// makeGroups makes a group in each hierarchy.
func makeGroups(name string) error {
	roots, err := hierarchies()
	for _, root := range roots {
		err = errors.Join(err, os.Mkdir(filepath.Join(root, name), 0o755))
	}
	return err
}

// removeGroups removes the group in each hierarchy, with all groups below it. Its processes must have
// ended.
func removeGroups(name string) error {
	roots, err := hierarchies()
	for _, root := range roots {
		err = errors.Join(err, removeGroup(filepath.Join(root, name)))
	}
	return err
}

// removeGroup removes a group with all groups below it. It retries for 10 s, because the kernel releases a
// group some time after its last process has ended.
func removeGroup(top string) error {
	var dirs []string
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	slices.Reverse(dirs) // children first
	for _, dir := range dirs {
		removed := syscall.Rmdir(dir)
		for deadline := time.Now().Add(10 * time.Second); removed == syscall.EBUSY && time.Now().Before(deadline); removed = syscall.Rmdir(dir) {
			time.Sleep(10 * time.Millisecond)
		}
		if removed != nil && !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, &fs.PathError{Op: "rmdir", Path: dir, Err: removed})
		}
	}
	return err
}
