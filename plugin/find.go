package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/internal/regular"
)

// Found is a plugin that has been read, but not loaded. If a new field changes how the plugin runs,
// add it to versionOf of plugin/live, so that its change causes a reload. A test there fails for an
// unknown field.
type Found struct {
	Manifest *Manifest
	Path     string   // path of the module or program
	Module   []byte   // its bytes; the host must compile or run exactly these
	Digest   string   // of Module, see [Found.SetModule]
	Grants   []Grant  // of the operator, in addition to the probe's own target
	Limits   Limits   // of the operator; see [Resolve]
	Folders  []string // folders from which the operator allows a check to run commands
	Env      []string // variables that the operator allows a check to set, such as PGPASSWORD and MYSQL_*

	// Beside is the digest of the file with the manifest; "" if the manifest is inside Module.
	Beside string
	// Text is the contents of that file; nil for a program.
	Text []byte
	// Inside is the digest of the manifest inside Module, if the one in Text differs and takes
	// precedence; else "".
	Inside string
	// Signatures are the signatures that came with Module. Nil means the files beside Path.
	Signatures []Signature
	// Report is the report of `prober plugin check` that came with Module from a registry, as JSON. Its author
	// may be anyone, so it must decide nothing.
	Report []byte

	hashed hashed // set by SetModule
}

// hashed is a module and its digest.
type hashed struct {
	module []byte
	digest string
}

// SetModule sets Module and Digest. The bytes must not be changed afterwards, since
// [Found.ModuleDigest] does not compute their digest again.
func (f *Found) SetModule(module []byte) {
	f.Module, f.Digest = module, Digest(module)
	f.hashed = hashed{module, f.Digest}
}

// ModuleDigest returns the digest of Module; it does not use the field Digest. It computes the digest
// unless Module is the slice of the last SetModule. Hashing 20 MB takes 10 ms.
func (f *Found) ModuleDigest() string {
	if f.isHashed() {
		return f.hashed.digest
	}
	return Digest(f.Module)
}

// isHashed reports whether Module is the slice of the last SetModule.
func (f *Found) isHashed() bool {
	is, was := f.Module, f.hashed.module
	return len(is) > 0 && len(is) == len(was) && &is[0] == &was[0]
}

// WithCode returns f with the module of another Found, which must have the same digests.
func (f Found) WithCode(of Found) (Found, error) {
	if of.ModuleDigest() != f.Digest || of.Beside != f.Beside {
		return Found{}, fmt.Errorf("plugin %s: it has changed since it was verified", f.Path)
	}
	f.Module, f.hashed = of.Module, of.hashed
	return f, nil
}

// WithoutCode returns f without the bytes of its module and signatures, which may be large.
func (f Found) WithoutCode() Found {
	f.Module, f.Signatures, f.hashed.module = nil, nil, nil
	return f
}

// Signature is a signature of a plugin. It is not verified; plugin/trust does that.
type Signature struct {
	From string // origin, for messages
	Data []byte // in the format of prober or cosign
	Err  error  // error of reading it

	// Payload is the signed payload of an artifact; nil if Data has it, or if the module itself
	// is signed.
	Payload []byte
	// Artifact is the manifest of the artifact, which names the module.
	Artifact []byte
	// Index is the index that names Artifact; nil if there is none.
	Index []byte
}

// FindError is the error for an invalid plugin in a plugin folder, or for the folder.
type FindError struct {
	Path string // of a file or folder in a plugin folder, or of the plugin folder itself
	Name string // the name of the plugin in its manifest; "" if unknown
	Err  error

	// Unreadable is set for errors of [Listed.Read]. No other plugin has the name then.
	Unreadable bool
}

// Error returns the text of e.Err, which names the path.
func (e *FindError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *FindError) Unwrap() error { return e.Err }

// Concerns reports whether e is about the plugin called name, its file at path, or a folder that
// contains the file. path may be "".
func (e *FindError) Concerns(name, path string) bool {
	if e.Name == name {
		return true
	}
	rest, err := filepath.Rel(e.Path, path)
	return path != "" && err == nil && filepath.IsLocal(rest)
}

// findErrors returns the errors that err joins as [*FindError]s, joined.
func findErrors(path string, err error) error {
	var all []error
	for _, err := range joined.Errors(err) {
		all = append(all, &FindError{Path: path, Err: err})
	}
	return errors.Join(all...)
}

// Find returns the plugins in dirs, sorted by name. A plugin is a file NAME.wasm; a folder with a
// plugin.yaml and a .wasm, or with a plugin.yaml alone if its runtime is nagios; or a program
// prober-plugin-NAME with prober-plugin-NAME.yaml beside it. Find ignores everything else.
//
// A plugin.yaml describes NAME.wasm in its folder, where NAME is the name of the plugin, or else
// the only .wasm there. A module without a plugin.yaml has its manifest inside. If it has both,
// plugin.yaml takes precedence, and [Found.Inside] is set if they differ.
//
// taken are the names of built-in handlers. If two plugins have the same name, or one has a taken name,
// the error names both. Find returns the other plugins along with the errors, which are [*FindError]s,
// joined.
func Find(dirs []string, taken ...string) ([]Found, error) {
	listed, err := find(dirs, taken, nil)
	found := make([]Found, len(listed))
	for i, l := range listed {
		found[i] = l.found
	}
	return found, err
}

// find is [Find] or, if light is not nil, its List.
func find(dirs, taken []string, light *Lister) ([]Listed, error) {
	var (
		all  []Listed
		errs []error
	)
	for _, dir := range dirs {
		found, err := findIn(dir, light)
		all = append(all, found...)
		errs = append(errs, err)
	}
	slices.SortStableFunc(all, func(a, b Listed) int { return cmp.Compare(a.Name(), b.Name()) })
	unique := all[:0]
	for _, l := range all {
		name, path := l.Name(), l.Path()
		switch {
		case slices.Contains(taken, name):
			errs = append(errs, &FindError{Path: path, Name: name, Err: fmt.Errorf("plugin %q of %s: the name is taken by the built-in handler %q", name, path, name)})
		case len(unique) > 0 && unique[len(unique)-1].Name() == name:
			errs = append(errs, &FindError{Path: path, Name: name, Err: fmt.Errorf("plugin %q of %s: the name is taken by %s", name, path, unique[len(unique)-1].Path())})
		default:
			unique = append(unique, l)
		}
	}
	return unique, errors.Join(errs...)
}

func findIn(dir string, light *Lister) ([]Listed, error) {
	in, err := openFolder(dir, light)
	if err != nil {
		return nil, err
	}
	defer in.root.Close()
	entries, err := fs.ReadDir(in.root.FS(), ".")
	if err != nil {
		return nil, findErrors(dir, fmt.Errorf("plugin folder %s: %w", dir, err))
	}
	var (
		found []Listed
		errs  []error
	)
	for _, e := range entries {
		f, ok, err := in.find(e.Name())
		if ok && err == nil {
			found = append(found, Listed{f, dir, e.Name()})
		}
		errs = append(errs, findErrors(filepath.Join(dir, e.Name()), err))
	}
	return found, errors.Join(errs...)
}

// pluginFolder is a folder of plugins.
type pluginFolder struct {
	dir   string
	root  *os.Root // of dir
	flat  folder   // the modules in it
	about *description
	light *Lister // if set, modules and programs are not read
}

func openFolder(dir string, light *Lister) (*pluginFolder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, findErrors(dir, fmt.Errorf("plugin folder: %w", err))
	}
	flat := folder{dir: dir, root: root, sub: ".", light: light}
	return &pluginFolder{dir: dir, root: root, flat: flat, about: flat.describe(), light: light}, nil
}

// find is entry, or entry of the Lister if in has one.
func (in *pluginFolder) find(name string) (f Found, ok bool, err error) {
	if in.light != nil {
		return in.light.entry(in, name)
	}
	return in.entry(name)
}

// entry returns the plugin in the file or folder called name; ok is false if there is none.
func (in *pluginFolder) entry(name string) (f Found, ok bool, err error) {
	info, statErr := in.root.Stat(name)
	switch {
	case statErr == nil && info.IsDir():
		return inFolder(in.root, in.dir, name, in.light)
	case strings.HasSuffix(name, ".wasm"):
		f, err = in.flat.module(name, in.about)
		return f, err == nil, err
	case IsProcess(name):
		f, err = asProcess(in.root, in.dir, name, in.light)
		return f, err == nil, err
	case statErr != nil:
		return Found{}, false, linkedFolder(in.root, in.dir, name)
	}
	return Found{}, false, nil
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

// isWasm returns an error unless the manifest of a module has the runtime wasm, or none.
func isWasm(path string, m *Manifest, err error) (*Manifest, error) {
	if err != nil {
		return nil, err
	}
	if m.Runtime != "" && m.Runtime != Wasm {
		return nil, fmt.Errorf("plugin %s: it is a module, and its manifest says that its runtime is %s", path, m.Runtime)
	}
	return withWasmRuntime(m), nil
}

// inFolder reads NAME/plugin.yaml and the module beside it; ok is false if the folder has no
// plugin.yaml.
func inFolder(root *os.Root, dir, name string, light *Lister) (f Found, ok bool, err error) {
	d := folder{dir: filepath.Join(dir, name), root: root, sub: name, light: light}
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

// openRegular opens a regular file of a folder. Its error names the target of a symbolic link.
func openRegular(root *os.Root, name string) (*os.File, error) {
	f, err := regular.OpenIn(root, name)
	if reason, ok := errors.AsType[*fs.PathError](err); ok {
		if to, notLink := root.Readlink(name); notLink == nil {
			return nil, fmt.Errorf("%s is a link to %s: %w", name, to, reason.Err)
		}
	}
	return f, err
}

// linkedFolder returns an error if name is a link out of the folder dir, to a folder with a
// plugin: such a plugin is not loaded.
func linkedFolder(root *os.Root, dir, name string) error {
	to, err := root.Readlink(name)
	if err != nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, name, ManifestFile)); err != nil {
		return nil
	}
	return fmt.Errorf("plugin %s: it is a link to %s, out of the plugin folder", filepath.Join(dir, name), to)
}
