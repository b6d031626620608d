package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/internal/wasmfile"
)

// ManifestFile is the name of the file with a manifest, beside a module.
const ManifestFile = "plugin.yaml"

// Read returns the plugin at path: a module, a program, a plugin.yaml, or a folder with a
// plugin.yaml. [Find] documents which manifest a module has. If only the manifest of a module is
// missing or wrong, Read returns the rest along with the error.
func Read(path string) (Found, error) {
	path, err := Locate(path)
	if err != nil {
		return Found{}, err
	}
	switch name := filepath.Base(path); {
	case IsProcess(name):
		return ReadProcess(path)
	case name == ManifestFile:
		return ReadCheck(path)
	default:
		d := folder{dir: filepath.Dir(path)}
		return d.module(name, d.describe())
	}
}

// Locate returns the path of the module, program or check at path. For a folder or a plugin.yaml, this
// is the plugin that the plugin.yaml describes. It need not exist.
func Locate(path string) (string, error) {
	dir := path
	if filepath.Base(path) == ManifestFile {
		dir = filepath.Dir(path)
	} else if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return path, nil // the caller's read returns the error
	}
	about := folder{dir: dir}.describe()
	switch {
	case about.absent():
		return "", fmt.Errorf("%s: there is no plugin.yaml in this folder", dir)
	case about.err != nil:
		return "", about.err
	case about.manifest.Runtime == Nagios:
		return filepath.Join(dir, ManifestFile), nil
	case about.manifest.Runtime == Process:
		return filepath.Join(dir, ProcessPrefix+about.manifest.Name), nil
	case about.module == "" && len(about.modules) > 0:
		return "", about.noModule(dir)
	case about.module == "":
		return filepath.Join(dir, about.manifest.Name+".wasm"), nil
	default:
		return filepath.Join(dir, about.module), nil
	}
}

// folder is a folder that holds modules.
type folder struct {
	dir  string   // its path
	root *os.Root // reads are restricted to it; nil for no restriction
	sub  string   // path of the folder in root, with slashes

	light *Lister // if not nil, only the manifests of modules are read
}

func (d folder) read(name string, most int64) ([]byte, error) {
	if d.root == nil {
		data, err := regular.Read(filepath.Join(d.dir, name), most)
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err // the caller adds the path
		}
		return data, err
	}
	name = filepath.Join(filepath.FromSlash(d.sub), name)
	f, err := openRegular(d.root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return regular.ReadAll(f, name, most)
}

// modules returns the names of the modules in the folder.
func (d folder) modules() ([]string, error) {
	files, sub := os.DirFS(d.dir), "."
	if d.root != nil {
		files, sub = d.root.FS(), d.sub
	}
	entries, err := fs.ReadDir(files, sub)
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".wasm") {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// description is the plugin.yaml of a folder, and the name of the module that it describes.
type description struct {
	text     []byte
	manifest *Manifest // nil unless err is nil
	modules  []string  // all modules of the folder
	module   string    // the described one; "" for none
	err      error     // matches [fs.ErrNotExist] if there is no plugin.yaml
}

// describe reads the plugin.yaml of the folder.
func (d folder) describe() *description {
	var about description
	file := filepath.Join(d.dir, ManifestFile)
	if about.text, about.err = d.read(ManifestFile, MaxManifest); about.err == nil {
		about.manifest, about.err = ParseManifest(file, about.text)
	} else {
		about.err = fmt.Errorf("plugin %s: %w", file, about.err)
	}
	var err error
	if about.modules, err = d.modules(); err != nil && about.err == nil {
		about.err = fmt.Errorf("plugin %s: %w", d.dir, err)
	}
	switch m := about.manifest; {
	case m != nil && m.Runtime != "" && m.Runtime != Wasm:
	case m != nil && slices.Contains(about.modules, m.Name+".wasm"):
		about.module = m.Name + ".wasm"
	case len(about.modules) == 1:
		about.module = about.modules[0]
	}
	return &about
}

// absent reports whether the folder has no plugin.yaml.
func (a *description) absent() bool { return errors.Is(a.err, fs.ErrNotExist) }

// noModule returns the error of a plugin.yaml that describes none of the modules beside it.
func (a *description) noModule(dir string) error {
	found := strings.Join(a.modules, ", ")
	if found == "" {
		found = "none"
	}
	return fmt.Errorf("plugin %s: there must be %s.wasm or only one .wasm beside plugin.yaml, found %s", dir, a.manifest.Name, found)
}

// whyNot returns the reason for which the plugin.yaml does not describe a module.
func (a *description) whyNot() string {
	switch {
	case a.absent():
		return "there is no plugin.yaml beside it"
	case a.manifest.Runtime != "" && a.manifest.Runtime != Wasm:
		return fmt.Sprintf("the plugin.yaml beside it says that its runtime is %s", a.manifest.Runtime)
	default:
		return fmt.Sprintf("the plugin.yaml beside it describes %s.wasm", a.manifest.Name)
	}
}

// module reads the module called name. Its manifest is the plugin.yaml if that describes the
// module, else the one inside.
func (d folder) module(name string, about *description) (Found, error) {
	file := filepath.Join(d.dir, name)
	f := Found{Path: file}
	describes := about.module == name && about.err == nil
	inside, err := d.insideManifest(name, describes)
	if d.light == nil || err != nil && !errors.Is(err, ErrNoManifest) {
		module, readErr := d.read(name, MaxModule)
		if readErr != nil {
			return Found{}, fmt.Errorf("plugin %s: %w", file, readErr)
		}
		f.SetModule(module)
		inside, err = Extract(module)
	}
	bare := errors.Is(err, ErrNoManifest)
	switch {
	case describes:
		f.Manifest = withWasmRuntime(about.manifest)
		if d.light != nil && f.Module == nil {
			return f, nil
		}
		if err != nil || !bytes.Equal(inside, about.text) {
			f.Beside, f.Text = Digest(about.text), about.text
		}
		if err == nil && f.Beside != "" {
			f.Inside = Digest(inside)
		}
		return f, nil
	case !about.absent() && about.err != nil && (bare || about.module == name):
		return f, about.err
	case bare:
		return f, fmt.Errorf("plugin %s: %w, and %s", file, err, about.whyNot())
	case err != nil:
		return f, fmt.Errorf("plugin %s: %w", file, err)
	}
	m, err := ParseManifest(file+"#"+SectionName, inside)
	f.Manifest, err = isWasm(file, m, err)
	return f, err
}

// withWasmRuntime returns m with the runtime wasm.
func withWasmRuntime(m *Manifest) *Manifest {
	if m.Runtime == Wasm {
		return m
	}
	module := *m
	module.Runtime = Wasm
	return &module
}

// errUnknown means that the module must be read completely.
var errUnknown = errors.New("not known")

// insideManifest returns the manifest inside a module. It reads only the headers of the sections, and returns
// no manifest if described is set. It checks less than [Extract]: an error other than [ErrNoManifest] does
// not mean that the module is invalid.
func (d folder) insideManifest(name string, described bool) ([]byte, error) {
	if d.light == nil || d.root == nil {
		return nil, errUnknown
	}
	f, err := openRegular(d.root, filepath.Join(filepath.FromSlash(d.sub), name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil || info.Size() > MaxModule:
		return nil, errUnknown
	case described:
		return nil, nil
	}
	manifests, err := wasmfile.Custom(f, info.Size(), SectionName, MaxManifest)
	switch {
	case err != nil || len(manifests) > 1:
		return nil, errUnknown
	case len(manifests) == 0:
		return nil, ErrNoManifest
	}
	return manifests[0], nil
}
