package prober

import (
	"embed"
	"io/fs"
	"strings"
)

// While the module is not published, a new plugin carries a copy of the packages that
// it is built with.
//
//go:embed LICENSE probe/*.go internal/abi/*.go sdk/*.go sdk/sdkhttp/*.go
var sources embed.FS

// SDK returns the source of the packages that a Go plugin imports, without their
// tests, as they lie in this module.
func SDK() (map[string][]byte, error) {
	files := make(map[string][]byte)
	err := fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files[path], err = sources.ReadFile(path)
		return err
	})
	return files, err
}
