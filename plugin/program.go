package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/daeace23/prober/internal/ownership"
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
	data, _, err := readOwn(root, manifestName, MaxManifest, false)
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
	code, _, err := readOwn(root, name, MaxExecutable, true)
	if err != nil {
		return Found{}, fmt.Errorf("plugin %s: %w", path, err)
	}
	return Found{Manifest: manifest, Path: path, Module: code, Digest: Digest(code), Beside: Digest(data)}, nil
}

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
	data, _, err := readOwn(root, name, MaxManifest, false)
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
	code, info, err := readOwn(root, filepath.Base(path), MaxExecutable, true)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", root.Name(), err)
	}
	return code, info, nil
}

// readOwn reads a regular file that other users than this one and root cannot change. info
// describes the file that was read, before it was read.
func readOwn(root *os.Root, name string, most int64, executable bool) (data []byte, info fs.FileInfo, err error) {
	f, err := openRegular(root, name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	if err := ownership.Check(name, info); err != nil {
		return nil, nil, err
	}
	if executable {
		if err := ownership.CheckExecutable(name, info); err != nil {
			return nil, nil, err
		}
	}
	data, err = io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return data, info, err
}

// maxSocketFolder is how long the path of a folder may be for what is made in it: the path
// of a socket has 103 bytes on some systems, and 38 of them are go-plugin's.
const maxSocketFolder = 64

// SocketTemp is the folder in which those of unix sockets are made: the one for temporary
// files or, where that has too long a path, /tmp.
func SocketTemp() string {
	if dir := os.TempDir(); len(dir) <= maxSocketFolder || runtime.GOOS == "windows" {
		return dir
	}
	return "/tmp"
}
