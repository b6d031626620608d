package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/daeace23/prober/internal/regular"
)

// Found is a plugin in a folder.
type Found struct {
	Manifest *Manifest
	Path     string  // of the module, or the executable
	Module   []byte  // what was read, and what must be compiled or run
	Digest   string  // of Module
	Grants   []Grant // of the operator, beside the probe's own target
	Limits   Limits  // of the operator; see [Resolve]
	// Folders are those from which the operator lets commands run; of a check.
	Folders []string
	// Env are the variables that the operator lets a check set, such as PGPASSWORD and MYSQL_*.
	Env []string

	// Beside is the digest of the file that Manifest is from; "" when it is inside Module,
	// and covered by Digest.
	Beside string
	// Text is what that file holds; of a module.
	Text []byte
	// Inside is the digest of the manifest inside Module, where Beside differs from it and
	// takes precedence; else "".
	Inside string
	// Signatures came along with Module; nil means those in the files beside Path.
	Signatures []Signature
}

// Signature is a signature of a plugin. plugin/trust verifies it; until then nothing in it can
// be trusted.
type Signature struct {
	From string // where it is from, for people
	Data []byte // as prober or cosign wrote it
	Err  error  // why it could not be read

	// Payload is what was signed when that is not the module: of a plugin that was pulled,
	// what cosign calls the payload of the artifact's signature. It is nil where Data has it.
	Payload []byte
	// Artifact is the manifest of the artifact that was signed, and that names the module.
	Artifact []byte
	// Index is the index that was signed in place of Artifact, and that names it; nil if there
	// is none.
	Index []byte
}

// FindError is the error of a file or folder that should hold a plugin.
type FindError struct {
	// Path is of a file or folder in a plugin folder, or of the plugin folder itself.
	Path string
	Name string // of the plugin, as its manifest has it; "" where that is not known
	Err  error
}

// Error returns e.Err's text, which names the path.
func (e *FindError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *FindError) Unwrap() error { return e.Err }

// Concerns reports whether e is about the plugin called name, or about its file: the one
// at path, or a folder that it is in. path may be "".
func (e *FindError) Concerns(name, path string) bool {
	if e.Name == name {
		return true
	}
	rest, err := filepath.Rel(e.Path, path)
	return path != "" && err == nil && filepath.IsLocal(rest)
}

// at returns the errors that err joins as [*FindError]s.
func at(path string, err error) error {
	switch joined, ok := err.(interface{ Unwrap() []error }); {
	case err == nil:
		return nil
	case ok:
		var all []error
		for _, err := range joined.Unwrap() {
			all = append(all, at(path, err))
		}
		return errors.Join(all...)
	}
	return &FindError{Path: path, Err: err}
}

// Find returns the plugins in dirs, by name: NAME.wasm, NAME/plugin.yaml with a .wasm
// beside it, or alone where its runtime is nagios, and prober-plugin-NAME, a program, with
// prober-plugin-NAME.yaml beside it. Everything else is passed over.
//
// A plugin.yaml describes NAME.wasm in its folder, where NAME is the name that it gives the
// plugin; where that file is missing, the only .wasm there. The manifest of a module that
// is described by no plugin.yaml is inside it. Where there are both, plugin.yaml takes
// precedence, and [Found.Inside] tells when they differ.
//
// taken holds the names of built-in handlers. Two plugins of one name, or
// one that has a taken name, are errors that name both. The plugins that are well are
// returned along with the errors of the others, which are [*FindError]s, joined.
func Find(dirs []string, taken ...string) ([]Found, error) {
	var (
		all  []Found
		errs []error
	)
	for _, dir := range dirs {
		found, err := findIn(dir)
		all = append(all, found...)
		errs = append(errs, err)
	}
	slices.SortStableFunc(all, func(a, b Found) int { return cmp.Compare(a.Manifest.Name, b.Manifest.Name) })
	unique := all[:0]
	for _, f := range all {
		name := f.Manifest.Name
		switch {
		case slices.Contains(taken, name):
			errs = append(errs, &FindError{f.Path, name, fmt.Errorf("plugin %q of %s: the name is taken by the built-in handler %q", name, f.Path, name)})
		case len(unique) > 0 && unique[len(unique)-1].Manifest.Name == name:
			errs = append(errs, &FindError{f.Path, name, fmt.Errorf("plugin %q of %s: the name is taken by %s", name, f.Path, unique[len(unique)-1].Path)})
		default:
			unique = append(unique, f)
		}
	}
	return unique, errors.Join(errs...)
}

func findIn(dir string) ([]Found, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, at(dir, fmt.Errorf("plugin folder: %w", err))
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, at(dir, fmt.Errorf("plugin folder %s: %w", dir, err))
	}
	var (
		found []Found
		errs  []error
		flat  = folder{dir: dir, root: root, sub: "."}
		about = flat.describe()
	)
	for _, e := range entries {
		var (
			f   Found
			ok  bool
			err error
		)
		if info, statErr := root.Stat(e.Name()); statErr == nil && info.IsDir() {
			f, ok, err = inFolder(root, dir, e.Name())
		} else if strings.HasSuffix(e.Name(), ".wasm") {
			f, err = flat.module(e.Name(), about)
			ok = err == nil
		} else if IsProcess(e.Name()) {
			f, err = asProcess(root, dir, e.Name())
			ok = err == nil
		} else if statErr != nil {
			err = leadsOut(root, dir, e.Name())
		}
		if ok && err == nil {
			found = append(found, f)
		}
		errs = append(errs, at(filepath.Join(dir, e.Name()), err))
	}
	return found, errors.Join(errs...)
}

// ReadModule returns the manifest inside a module. path names it in errors.
func ReadModule(path string, module []byte) (*Manifest, error) {
	if len(module) > MaxModule {
		return nil, fmt.Errorf("plugin %s: module of %d bytes; at most %d are allowed", path, len(module), MaxModule)
	}
	data, err := Extract(module)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", path, err)
	}
	m, err := ParseManifest(path+"#"+SectionName, data)
	return isWasm(path, m, err)
}

// isWasm checks that the manifest of a module has the runtime wasm, or none.
func isWasm(path string, m *Manifest, err error) (*Manifest, error) {
	if err != nil {
		return nil, err
	}
	if m.Runtime != "" && m.Runtime != Wasm {
		return nil, fmt.Errorf("plugin %s: it is a module, and its manifest says that its runtime is %s", path, m.Runtime)
	}
	m.Runtime = Wasm
	return m, nil
}

// inFolder reads NAME/plugin.yaml and the module beside it; ok is false when the
// folder has no plugin.yaml.
func inFolder(root *os.Root, dir, name string) (f Found, ok bool, err error) {
	d := folder{dir: filepath.Join(dir, name), root: root, sub: name}
	about := d.describe()
	switch {
	case about.absent():
		return Found{}, false, nil
	case about.err != nil:
		return Found{}, false, about.err
	case about.manifest.Runtime == Nagios:
		f, err = asCheck(root, dir, filepath.Join(name, ManifestFile))
		return f, true, err
	}
	if _, err := isWasm(d.dir, about.manifest, nil); err != nil {
		return Found{}, false, err
	}
	if about.module == "" {
		return Found{}, false, about.noModule(d.dir)
	}
	f, err = d.module(about.module, about)
	return f, true, err
}

func escapeGlob(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// openRegular opens a regular file of a folder. It does not block.
func openRegular(root *os.Root, name string) (*os.File, error) {
	f, err := regular.OpenIn(root, name)
	switch {
	case errors.Is(err, regular.ErrNotRegular):
		return nil, fmt.Errorf("%s is %w", name, regular.ErrNotRegular)
	case err != nil:
		return nil, explainLink(root, name, err)
	}
	return f, nil
}

var errOutside = errors.New("out of the plugin folder, where nothing is read")

// leadsOut is an error where name is a link to a folder elsewhere that has a plugin.
func leadsOut(root *os.Root, dir, name string) error {
	to, err := root.Readlink(name)
	if err != nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, name, ManifestFile)); err != nil {
		return nil
	}
	return fmt.Errorf("plugin %s: %s/plugin.yaml is behind a link to %s: %w", filepath.Join(dir, name), name, to, errOutside)
}

// explainLink adds where a symbolic link leads to, if name is one.
func explainLink(root *os.Root, name string, err error) error {
	to, notLink := root.Readlink(name)
	if notLink != nil {
		return err
	}
	if _, outside := os.Stat(filepath.Join(root.Name(), name)); outside == nil {
		err = errOutside
	} else if reason, ok := errors.AsType[*fs.PathError](err); ok {
		err = reason.Err
	}
	return fmt.Errorf("%s is a link to %s: %w", name, to, err)
}

func readAtMost(root *os.Root, name string, most int64) ([]byte, error) {
	f, err := openRegular(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return data, err
}
