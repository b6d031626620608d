package prober

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
)

// While the module is not published, a new plugin carries a copy of the SDK that it is
// built with.
//
//go:embed LICENSE probe/*.go internal/abi/*.go sdk/*.go sdk/sdkhttp/*.go internal/abi/v1.json
//go:embed sdk/c/*.h sdk/c/*.md sdk/rust/Cargo.toml sdk/rust/*.md sdk/rust/src/*.rs
//go:embed sdk/assemblyscript/*.ts sdk/assemblyscript/*.md sdk/assemblyscript/package.json
var sources embed.FS

// sdkRoots are where the SDK of a language lies, and what is left of its paths in a
// copy: a Go plugin imports packages by their place in this module.
var sdkRoots = map[string]string{"go": "", "c": "sdk/c/", "rust": "sdk/rust/", "assemblyscript": "sdk/assemblyscript/"}

// SDK returns the source of what a plugin in a language is built with, without its
// tests, by path: "go", "c", "rust" or "assemblyscript".
func SDK(lang string) (map[string][]byte, error) {
	root, ok := sdkRoots[lang]
	if !ok {
		return nil, fmt.Errorf("there is no SDK for %q", lang)
	}
	files := make(map[string][]byte)
	err := fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !belongs(path, root) {
			return err
		}
		files[strings.TrimPrefix(path, root)], err = sources.ReadFile(path)
		return err
	})
	return files, err
}

func belongs(path, root string) bool {
	switch {
	case path == "LICENSE":
		return true
	case root == "":
		return strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go")
	default:
		return strings.HasPrefix(path, root)
	}
}

// Imports returns every function that a guest may import, by the module that it is in:
// "prober_v1", "prober_v1_net", ….
func Imports() (map[string][]string, error) {
	text, err := sources.ReadFile("internal/abi/v1.json")
	if err != nil {
		return nil, err
	}
	var functions []struct{ Module, Name string }
	if err := json.Unmarshal(text, &functions); err != nil {
		return nil, err
	}
	imports := make(map[string][]string)
	for _, f := range functions {
		imports[f.Module] = append(imports[f.Module], f.Name)
	}
	return imports, nil
}
