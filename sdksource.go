package prober

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// While the module is not published, a new plugin carries a copy of the SDK that it is
// built with.
//
//go:embed LICENSE probe/*.go internal/abi/*.go internal/certificates/*.go internal/clip/*.go internal/dnswire/*.go internal/handshake/*.go internal/suspend/*.go sdk/*.go sdk/sdkhttp/*.go
//go:embed sdk/c/*.h sdk/c/*.md sdk/rust/Cargo.toml sdk/rust/*.md sdk/rust/src/*.rs
//go:embed sdk/assemblyscript/*.ts sdk/assemblyscript/*.md sdk/assemblyscript/package.json
//go:embed sdk/python/*.py
//go:embed sdk/process/*.go internal/pluginpb/*.go go.mod go.sum
var sources embed.FS

// sdkRoots are where the SDK of a language lies, and what is left of its paths in a
// copy: a Go plugin imports packages by their place in this module.
var sdkRoots = map[string]string{"go": "", "c": "sdk/c/", "rust": "sdk/rust/", "assemblyscript": "sdk/assemblyscript/", "python": "sdk/python/"}

// SDK returns the source of what a plugin in a language is built with, without its
// tests, by path: "go", "c", "rust",
// "assemblyscript" or "python".
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
		return isSource(path) && !ofProcess(path)
	default:
		return strings.HasPrefix(path, root)
	}
}

func isSource(path string) bool {
	return strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go")
}

// ofProcess reports whether a file is of the rooms that only a process needs.
func ofProcess(path string) bool {
	return strings.HasPrefix(path, "sdk/process/") || strings.HasPrefix(path, "internal/pluginpb/")
}

// ProcessSDK returns what a Go plugin is built with that is a process: the same as
// SDK("go"), and more.
func ProcessSDK() (map[string][]byte, error) {
	files, err := SDK("go")
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !ofProcess(path) || !isSource(path) {
			return err
		}
		files[path], err = sources.ReadFile(path)
		return err
	})
	return files, err
}

// processModules are those of others that a process is built with, by path.
var processModules = []string{
	"github.com/fatih/color", "github.com/golang/protobuf", "github.com/hashicorp/go-hclog", "github.com/hashicorp/go-plugin",
	"github.com/hashicorp/yamux", "github.com/mattn/go-colorable", "github.com/mattn/go-isatty", "github.com/oklog/run",
	"golang.org/x/net", "golang.org/x/sys", "golang.org/x/text", "google.golang.org/genproto/googleapis/rpc",
	"google.golang.org/grpc", "google.golang.org/protobuf",
}

// ProcessModules returns the modules of others that a Go plugin is built with that is a
// process, as this module has them: "PATH VERSION" each, and their lines of go.sum.
func ProcessModules() (modules []string, sums []byte, err error) {
	mod, err := sources.ReadFile("go.mod")
	if err != nil {
		return nil, nil, err
	}
	all, err := sources.ReadFile("go.sum")
	if err != nil {
		return nil, nil, err
	}
	wanted := make(map[string]bool)
	for line := range strings.Lines(string(mod)) {
		if f := strings.Fields(line); len(f) > 1 && slices.Contains(processModules, f[0]) {
			modules = append(modules, f[0]+" "+f[1])
			wanted[f[0]+" "+f[1]] = true
		}
	}
	slices.Sort(modules)
	for line := range strings.Lines(string(all)) {
		if f := strings.Fields(line); len(f) == 3 && wanted[f[0]+" "+strings.TrimSuffix(f[1], "/go.mod")] {
			sums = append(sums, line...)
		}
	}
	return modules, sums, nil
}
