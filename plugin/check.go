package plugin

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ReadCheck returns the plugin whose manifest, at path, says that its runtime is nagios.
func ReadCheck(path string) (Found, error) {
	dir := filepath.Dir(path)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Found{}, fmt.Errorf("plugin folder: %w", err)
	}
	defer root.Close()
	return asCheck(root, dir, filepath.Base(path))
}

// asCheck reads a manifest that names a command. It is the manifest that is pinned and
// signed, and it may pin its program; so it must be as hard to change as a program.
func asCheck(root *os.Root, dir, name string) (Found, error) {
	path := filepath.Join(dir, name)
	data, _, err := readOwn(root, name, MaxManifest, 0)
	if err != nil {
		return Found{}, fmt.Errorf("plugin %s: %w", path, err)
	}
	manifest, err := ParseManifest(path, data)
	if err != nil {
		return Found{}, err
	}
	if manifest.Runtime != Nagios {
		return Found{}, fmt.Errorf("plugin %s: want runtime: %s", path, Nagios)
	}
	return Found{Manifest: manifest, Path: path, Module: data, Digest: Digest(data)}, nil
}

// ReadExecutable returns the program at path, which leads to it without links, and which
// only this user or root can change. The size of a program is bounded.
func ReadExecutable(path string) ([]byte, fs.FileInfo, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	code, info, err := readOwn(root, filepath.Base(path), MaxExecutable, 0o100)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", root.Name(), err)
	}
	return code, info, nil
}

// CheckFolder says why programs of a folder are not to be run: somebody else could put
// another in its place.
func CheckFolder(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no folder", path)
	}
	return checkOwner(path, info)
}

// String returns an argument as a manifest has it.
func (a Argument) String() string {
	if a.Group == nil {
		return a.Text
	}
	return "[" + strings.Join(a.Group, " ") + "]"
}
