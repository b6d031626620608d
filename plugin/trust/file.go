package trust

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/daeace23/prober/internal/ownership"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/plugin"
)

const (
	maxSignature = 4 << 10   // bytes of prober's signature files
	maxBundle    = 256 << 10 // bytes of cosign's
)

// Files returns the names that the signatures of the plugin at path have.
func Files(path string) []string {
	return []string{path + Suffix, path + ".cosign.sig", path + ".cosign.bundle", path + ".sigstore.json"}
}

// readFile reads a regular file, of which accept (nil: nobody) approves once it is open:
// what is looked at is what is read.
func readFile(path string, most int64, accept func(os.FileInfo) error) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && accept != nil {
		err = accept(info)
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return data, err
}

// permissions returns who may use a file. Windows keeps access lists instead, and Go
// reports mode 0666 for each of its files: nothing is known of them.
func permissions(info os.FileInfo) os.FileMode {
	if runtime.GOOS == "windows" {
		return 0
	}
	return info.Mode().Perm()
}

// onlyOurs refuses a file that others could change, or replace: it says who, or what, is
// trusted.
func onlyOurs(file string) func(os.FileInfo) error {
	return func(info os.FileInfo) error {
		err := ownership.OnlyOwnerWrites(file, info)
		if err == nil {
			err = ownership.CheckPath(file)
		}
		if err != nil {
			return fmt.Errorf("%w: they could say whom to trust", err)
		}
		return nil
	}
}

// beside returns the signatures in the files beside the one at path. Those that cannot
// be read are among them: to be unreadable is not to be absent.
func beside(path string) (all []plugin.Signature) {
	for _, file := range Files(path) {
		s := plugin.Signature{From: file}
		if s.Data, s.Err = readFile(s.From, maxBundle, nil); !errors.Is(s.Err, fs.ErrNotExist) {
			all = append(all, s)
		}
	}
	return all
}

// Read returns what is signed when the plugin at path is, which may be its folder: a module,
// and the plugin.yaml beside it unless the same manifest is inside; a process plugin with
// its manifest in the file of that name and .yaml; or plugin.yaml itself, where that is all
// of the plugin. Where only the manifest is missing or wrong, the rest is returned along
// with the error.
func Read(path string) (*plugin.Found, error) {
	path, err := plugin.Locate(path)
	if err != nil {
		return nil, err
	}
	switch {
	case filepath.Base(path) == plugin.ManifestFile:
		return readCheck(path)
	case strings.HasSuffix(path, ".wasm"):
		return readModule(path)
	}
	data, err := readFile(path, plugin.MaxExecutable, nil)
	if err != nil {
		return nil, err
	}
	f := &plugin.Found{Path: path, Module: data, Digest: plugin.Digest(data)}
	text, err := readFile(strings.TrimSuffix(path, ".exe")+".yaml", plugin.MaxManifest, nil)
	if err != nil {
		return f, fmt.Errorf("%s has no manifest inside, and none beside it: %w", path, err)
	}
	f.Beside = plugin.Digest(text)
	return f, nil
}

// readModule is Read of a module.
func readModule(path string) (*plugin.Found, error) {
	f, err := plugin.Read(path)
	if f.Module == nil {
		return nil, err
	}
	return &f, err
}

// readCheck is Read of a plugin.yaml that [plugin.Locate] returned: one that names a command.
func readCheck(path string) (*plugin.Found, error) {
	data, err := readFile(path, plugin.MaxManifest, nil)
	if err != nil {
		return nil, err
	}
	return &plugin.Found{Path: path, Module: data, Digest: plugin.Digest(data)}, nil
}
