package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/daeace23/prober/internal/ownership"
	"github.com/daeace23/prober/internal/regular"
)

// ProcessPrefix is the prefix of the file names of programs.
const ProcessPrefix = "prober-plugin-"

// MaxExecutable is the maximum size of a program, in bytes.
const MaxExecutable = 256 << 20

// IsProcess reports whether name is the file name of a program.
func IsProcess(name string) bool {
	plugin, ok := strings.CutPrefix(strings.TrimSuffix(name, ".exe"), ProcessPrefix)
	return ok && ValidName(plugin)
}

// ReadProcess returns the plugin whose program is at path. Its manifest is beside it, as
// prober-plugin-NAME.yaml. It returns an error if other users can change one of them.
func ReadProcess(path string) (Found, error) {
	return readInFolder(path, func(root *os.Root, dir, name string) (Found, error) { return asProcess(root, dir, name, nil) })
}

// ReadCheck returns the plugin whose manifest, at path, has the runtime nagios. It returns an error if
// other users can change the manifest.
func ReadCheck(path string) (Found, error) { return readInFolder(path, asCheck) }

// ParseProgramManifest is [ParseManifest] for the manifest of a program.
func ParseProgramManifest(file string, data []byte) (*Manifest, error) {
	m, err := ParseManifest(file, data)
	if err != nil {
		return nil, err
	}
	if m.Runtime = cmp.Or(m.Runtime, Process); m.Runtime != Process {
		return nil, fmt.Errorf("%s: its runtime is %s, must be %s for a program", file, m.Runtime, Process)
	}
	return m, nil
}

func readInFolder(path string, read func(root *os.Root, dir, name string) (Found, error)) (Found, error) {
	dir := filepath.Dir(path)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Found{}, fmt.Errorf("plugin folder: %w", err)
	}
	defer root.Close()
	return read(root, dir, filepath.Base(path))
}

// asProcess returns the program called name. If light is not nil, it reads the manifest only.
func asProcess(root *os.Root, dir, name string, light *Lister) (Found, error) {
	path := filepath.Join(dir, name)
	manifestName := strings.TrimSuffix(name, ".exe") + ".yaml"
	data, _, err := readOwn(root, manifestName, MaxManifest, false)
	if errors.Is(err, fs.ErrNotExist) {
		return Found{}, fmt.Errorf("plugin %s: its manifest, %s, is not beside it", path, manifestName)
	}
	if err != nil {
		return Found{}, fmt.Errorf("plugin %s: %w", path, err)
	}
	manifest, err := ParseProgramManifest(filepath.Join(dir, manifestName), data)
	if err != nil {
		return Found{}, err
	}
	if light != nil {
		f, _, err := openOwn(root, name, true)
		if err != nil {
			return Found{}, fmt.Errorf("plugin %s: %w", path, err)
		}
		return Found{Manifest: manifest, Path: path}, f.Close()
	}
	code, _, err := readOwn(root, name, MaxExecutable, true)
	if err != nil {
		return Found{}, fmt.Errorf("plugin %s: %w", path, err)
	}
	found := Found{Manifest: manifest, Path: path, Beside: Digest(data)}
	found.SetModule(code)
	return found, nil
}

// asCheck reads a manifest that names a command. Pins and signatures apply to the manifest, so it is
// checked like a program.
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
		return Found{}, fmt.Errorf("plugin %s: must have runtime: %s", path, Nagios)
	}
	found := Found{Manifest: manifest, Path: path}
	found.SetModule(data)
	return found, nil
}

// ReadExecutable returns the program at path. It returns an error if users other than this one and root
// can change it.
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

// readOwn reads a regular file that only this user and root can change. info is from before reading.
func readOwn(root *os.Root, name string, most int64, executable bool) (data []byte, info fs.FileInfo, err error) {
	f, info, err := openOwn(root, name, executable)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data, err = regular.ReadAll(f, name, most)
	return data, info, err
}

// openOwn opens the file of [readOwn].
func openOwn(root *os.Root, name string, executable bool) (f *os.File, info fs.FileInfo, err error) {
	if f, err = openRegular(root, name); err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = ownership.Check(name, info)
	}
	if err == nil && executable {
		err = ownership.CheckExecutable(name, info)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// maxSocketFolder is the maximum length of the path of a folder for sockets, in bytes. Some systems
// limit the path of a socket to 103 bytes, and go-plugin needs 38 of them.
const maxSocketFolder = 64

// SocketTemp returns the folder for unix sockets: the one for temporary files or, if its path is
// too long, /tmp.
func SocketTemp() string {
	if dir := os.TempDir(); len(dir) <= maxSocketFolder || runtime.GOOS == "windows" {
		return dir
	}
	return "/tmp"
}
