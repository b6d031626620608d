package plugincmd

import (
	"archive/zip"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/plugin"
)

// pythonMain starts the plugin in an archive that Python runs.
const pythonMain = `import pkgutil

import check
import prober_plugin

prober_plugin.serve(check, pkgutil.get_data("prober_plugin", "plugin.yaml"))
`

// compilePython makes an archive that Python runs: the modules of the project, the SDK and the manifest. It is one
// file, since a host runs a copy of one file. The same sources make the same bytes.
func (b *building) compilePython(context.Context) error {
	if b.runtime != plugin.Process {
		return command.Usage("write `runtime: process` into plugin.yaml", "%s: a plugin in Python runs as a process", b.dir)
	}
	sdk, err := b.sdk(langPython)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(sdk) {
		sdk = filepath.Join(b.dir, sdk)
	}
	var paths []string
	for _, pattern := range []string{filepath.Join(escapeGlob(b.dir), "*.py"), filepath.Join(escapeGlob(sdk), "*.py"), filepath.Join(escapeGlob(b.dir), plugin.ManifestFile)} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		paths = append(paths, found...)
	}
	out := bytes.NewBufferString("#!/usr/bin/python3\n")
	archive := zip.NewWriter(out)
	archive.SetOffset(int64(out.Len()))
	if err := addTo(archive, "__main__.py", []byte(pythonMain)); err != nil {
		return err
	}
	slices.SortFunc(paths, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.py") {
			continue
		}
		text, err := regular.Read(path, maxSource)
		if err == nil {
			err = addTo(archive, filepath.Base(path), text)
		}
		if err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return os.WriteFile(b.out(), out.Bytes(), 0o755)
}

// addTo adds a file without a time to an archive.
func addTo(archive *zip.Writer, name string, text []byte) error {
	w, err := archive.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}
