package plugin

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/daeace23/prober/internal/filestamp"
)

// Listed is a plugin of a plugin folder that was not read, but for its manifest.
type Listed struct {
	found      Found // without Module, Digest, Beside, Text and Inside, unless it was read
	dir, entry string
}

// List returns what [Find] returns without reading modules and programs, so a folder may have
// thousands. What is wrong with one of them is an error of [Listed.Read].
func List(dirs []string, taken ...string) ([]Listed, error) { return new(Lister).List(dirs, taken...) }

// Lister is [List] that reads again only what has changed. The zero value is ready to use, by one
// goroutine at a time.
type Lister struct {
	before, now map[string]remembered // plugins of the last List and of this one, by file or folder
}

type remembered struct {
	file, manifest fs.FileInfo // from before they were read; nil if there is none
	described      bool        // a module of a plugin folder that the plugin.yaml there describes
	found          Found
}

// List is the function [List].
func (l *Lister) List(dirs []string, taken ...string) ([]Listed, error) {
	l.before, l.now = l.now, make(map[string]remembered)
	return find(dirs, taken, l)
}

// entry is [pluginFolder.entry] unless the files are those of the last List.
func (l *Lister) entry(in *pluginFolder, name string) (f Found, ok bool, err error) {
	path := filepath.Join(in.dir, name)
	file, _ := os.Stat(path) // an error is that of entry
	manifest, _ := os.Stat(manifestOf(path))
	described := in.about.module == name
	last, ok := l.before[path]
	if !ok || last.described != described || !filestamp.Same(last.file, file) || !filestamp.Same(last.manifest, manifest) {
		last = remembered{file: file, manifest: manifest, described: described}
		if last.found, ok, err = in.entry(name); !ok || err != nil {
			return last.found, ok, err
		}
	}
	l.now[path] = last
	return last.found, true, nil
}

// Files returns the paths of the files of the plugin at path, a module, a program or the plugin.yaml of
// a check: path, and that of the manifest beside it, which need not exist.
func Files(path string) []string {
	if filepath.Base(path) == ManifestFile {
		return []string{path}
	}
	return []string{path, manifestOf(path)}
}

// manifestOf returns the path of the manifest of the plugin in a file or folder of a plugin folder,
// if it is not inside a module.
func manifestOf(path string) string {
	switch name := filepath.Base(path); {
	case strings.HasSuffix(name, ".wasm"):
		return filepath.Join(filepath.Dir(path), ManifestFile)
	case IsProcess(name):
		return strings.TrimSuffix(path, ".exe") + ".yaml"
	}
	return filepath.Join(path, ManifestFile)
}

// Name returns the name in the plugin's manifest.
func (l Listed) Name() string { return l.found.Manifest.Name }

// Path returns the path of the module, or the program.
func (l Listed) Path() string { return l.found.Path }

// Manifest returns the plugin's manifest. It must not be changed.
func (l Listed) Manifest() *Manifest { return l.found.Manifest }

// Read reads the plugin as [Find] does. Its error is a [*FindError]. It is an error if the
// plugin has another name by now.
func (l Listed) Read() (Found, error) {
	f, err := l.read()
	if err != nil {
		return Found{}, &FindError{Path: filepath.Join(l.dir, l.entry), Name: l.Name(), Err: err, Unreadable: true}
	}
	return f, nil
}

func (l Listed) read() (Found, error) {
	in, err := openFolder(l.dir, nil)
	if err != nil {
		return Found{}, err
	}
	defer in.root.Close()
	f, ok, err := in.entry(l.entry)
	switch {
	case err != nil:
		return Found{}, err
	case !ok:
		return Found{}, fmt.Errorf("plugin %s: there is none any more", filepath.Join(l.dir, l.entry))
	case f.Manifest.Name != l.Name():
		return Found{}, fmt.Errorf("plugin %s: its manifest has the name %q by now, and not %q", f.Path, f.Manifest.Name, l.Name())
	}
	return f, nil
}
