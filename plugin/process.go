package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ProcessPrefix is how the file names of plugins begin that are programs.
const ProcessPrefix = "prober-plugin-"

// MaxExecutable is the most bytes that the executable of a plugin may have.
const MaxExecutable = 256 << 20

// IsProcess reports whether a file called name is the executable of a plugin.
func IsProcess(name string) bool {
	plugin, ok := strings.CutPrefix(strings.TrimSuffix(name, ".exe"), ProcessPrefix)
	return ok && ValidName(plugin)
}

// ReadProcess returns the plugin whose executable is at path. Its manifest is beside it,
// as prober-plugin-NAME.yaml. Neither may be writable to others, or belong to them.
func ReadProcess(path string) (Found, error) {
	dir := filepath.Dir(path)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Found{}, fmt.Errorf("plugin folder: %w", err)
	}
	defer root.Close()
	return asProcess(root, dir, filepath.Base(path))
}

func asProcess(root *os.Root, dir, name string) (Found, error) {
	path := filepath.Join(dir, name)
	manifestName := strings.TrimSuffix(name, ".exe") + ".yaml"
	data, _, err := readOwn(root, manifestName, MaxManifest, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Found{}, fmt.Errorf("plugin %s: its manifest, %s, is not beside it", path, manifestName)
	}
	if err != nil {
		return Found{}, fmt.Errorf("plugin %s: %w", path, err)
	}
	manifest, err := ParseManifest(filepath.Join(dir, manifestName), data)
	if err != nil {
		return Found{}, err
	}
	if manifest.Runtime = cmp.Or(manifest.Runtime, Process); manifest.Runtime != Process {
		return Found{}, fmt.Errorf("plugin %s: it is a program, and its manifest says that its runtime is %s", path, manifest.Runtime)
	}
	code, _, err := readOwn(root, name, MaxExecutable, 0o100)
	if err != nil {
		return Found{}, fmt.Errorf("plugin %s: %w", path, err)
	}
	return Found{Manifest: manifest, Path: path, Module: code, Digest: Digest(code), Beside: Digest(data)}, nil
}

// readOwn reads a regular file that nobody but its owner can change, who is this user or
// root, and that has all bits of mode. info is of what was read, whatever has the name by now,
// and from before it was.
func readOwn(root *os.Root, name string, most int64, mode fs.FileMode) (data []byte, info fs.FileInfo, err error) {
	f, err := openRegular(root, name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	if err := checkOwn(name, info, mode); err != nil {
		return nil, nil, err
	}
	data, err = io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return data, info, err
}
