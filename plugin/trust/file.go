package trust

import (
	"errors"
	"fmt"
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
	maxSignature = 4 << 10   // bytes of a signature file of prober
	maxBundle    = 256 << 10 // bytes of a signature file of cosign
)

// Files returns the possible paths of signature files for the plugin at path.
func Files(path string) []string {
	return []string{path + Suffix, path + ".cosign.sig", path + ".cosign.bundle", path + ".sigstore.json"}
}

// readFile returns the contents of a regular file. check, if not nil, can refuse the open file with
// an error.
func readFile(path string, most int64, check func(os.FileInfo) error) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if check != nil {
		info, err := f.Stat()
		if err == nil {
			err = check(info)
		}
		if err != nil {
			return nil, err
		}
	}
	return regular.ReadAll(f, path, most)
}

// permissions returns the permission bits of a file. It returns 0 on Windows, where Go reports mode
// 0666 for each file.
func permissions(info os.FileInfo) os.FileMode {
	if runtime.GOOS == "windows" {
		return 0
	}
	return info.Mode().Perm()
}

// onlyOurs returns a check for files that determine trust. It fails if other users can change
// or replace the file.
func onlyOurs(file string) func(os.FileInfo) error {
	return func(info os.FileInfo) error {
		err := ownership.OnlyOwnerWrites(file, info)
		if err == nil {
			err = ownership.CheckPath(file)
		}
		if err != nil {
			return fmt.Errorf("%w: they could change which keys are trusted", err)
		}
		return nil
	}
}

// signaturesBeside returns the signatures in the files beside the plugin at path. The signature of a file
// that cannot be read has an error.
func signaturesBeside(path string) (all []plugin.Signature) {
	for _, file := range Files(path) {
		s := plugin.Signature{From: file}
		if s.Data, s.Err = readFile(s.From, maxBundle, nil); !errors.Is(s.Err, fs.ErrNotExist) {
			all = append(all, s)
		}
	}
	return all
}

// Read returns the parts of the plugin at path that a signature covers: a module, and the plugin.yaml
// beside it unless the same manifest is inside; a program, and the file with its manifest; or the
// plugin.yaml of a check. path may also be a folder with a plugin.yaml. If only the manifest is missing
// or wrong, Read returns the rest along with the error.
func Read(path string) (*plugin.Found, error) {
	path, err := plugin.Locate(path)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(path, ".wasm") {
		f, err := plugin.Read(path)
		if f.Module == nil {
			return nil, err
		}
		return &f, err
	}
	data, err := readFile(path, plugin.MaxExecutable, nil)
	if err != nil {
		return nil, err
	}
	f := &plugin.Found{Path: path}
	f.SetModule(data)
	if filepath.Base(path) == plugin.ManifestFile {
		return f, nil
	}
	text, err := readFile(strings.TrimSuffix(path, ".exe")+".yaml", plugin.MaxManifest, nil)
	if err != nil {
		return f, fmt.Errorf("%s has no manifest inside, and none beside it: %w", path, err)
	}
	f.Beside = plugin.Digest(text)
	return f, nil
}
