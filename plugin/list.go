package plugin

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/daeace23/prober/internal/filestamp"
)

// Listed is a plugin in a plugin folder of which only the manifest has been read.
type Listed struct {
	found      Found // without Module, Digest, Beside, Text and Inside, unless it has been read completely
	dir, entry string
}

// List returns the plugins of [Find] without reading modules and programs, so a folder may have
// thousands. Errors of a module or program are returned by [Listed.Read].
func List(dirs []string, taken ...string) ([]Listed, error) { return new(Lister).List(dirs, taken...) }

// Lister implements [List] and reads only changed plugins again. The zero value is ready to use. It is
// not safe for concurrent use.
type Lister struct {
	before, now map[string]remembered // plugins of the last List and of this one, by file or folder
}

type remembered struct {
	file, manifest fs.FileInfo // from before reading; nil if there is none
	described      bool        // whether the plugin.yaml of the folder describes this module
	found          Found
}

// List returns the plugins of dirs, like the function [List].
func (l *Lister) List(dirs []string, taken ...string) ([]Listed, error) {
	l.before, l.now = l.now, make(map[string]remembered)
	return find(dirs, taken, l)
}

// entry is [pluginFolder.entry], except that it returns the previous result if the files have not
// changed since the last List.
func (l *Lister) entry(in *pluginFolder, name string) (f Found, ok bool, err error) {
	path := filepath.Join(in.dir, name)
	file, _ := os.Stat(path) // entry returns the error
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
// a check. These are path and the manifest beside it, which need not exist.
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

// Read reads the plugin as [Find] does. Its error is a [*FindError]. It returns an error if the name in
// the manifest has changed.
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
		return Found{}, fmt.Errorf("plugin %s: it has been removed", filepath.Join(l.dir, l.entry))
	case f.Manifest.Name != l.Name():
		return Found{}, fmt.Errorf("plugin %s: its manifest has the name %q now, not %q", f.Path, f.Manifest.Name, l.Name())
	}
	return f, nil
}
