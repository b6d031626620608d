package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// entries are the packages that embedders import, in the table of requirements.
var entries = []string{"core/group", "core/manager", "handlers/builtin", "handlers/wasm", "handlers/shipped", "metrics", "agent", "sdk"}

// goMod is a part of the output of go mod edit -json.
type goMod struct {
	Module  struct{ Path string }
	Go      string
	Require []requirement
}

type requirement struct {
	Path, Version string
	Indirect      bool
}

// readGoMod reads the go.mod of the module in dir.
func readGoMod(dir string) (goMod, error) {
	var m goMod
	out, err := runIn(dir, "mod", "edit", "-json")
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal([]byte(out), &m)
}

// embedder creates a module in dir that requires only the prober in root, and imports its package entry. It
// returns how many third-party modules the import links, and the requirements that the go command adds to go.mod.
func embedder(dir, root string, prober goMod, entry string) (linked int, added []requirement, err error) {
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return 0, nil, err
	}
	for name, text := range map[string]string{
		"go.sum":  string(sums),
		"go.mod":  fmt.Sprintf("module embedder\n\ngo %s\n\nrequire %[2]s v0.0.0\n\nreplace %[2]s => %s\n", prober.Go, prober.Module.Path, root),
		"main.go": fmt.Sprintf("package main\n\nimport _ %q\n\nfunc main() {}\n", prober.Module.Path+"/"+entry),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return 0, nil, err
		}
	}
	out, err := runIn(dir, "list", "-mod=mod", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", ".")
	if err != nil {
		return 0, nil, err
	}
	ours := func(path string) bool { return path == prober.Module.Path }
	modules := slices.DeleteFunc(strings.Fields(out), ours)
	slices.Sort(modules)
	m, err := readGoMod(dir)
	if err != nil {
		return 0, nil, err
	}
	return len(slices.Compact(modules)), slices.DeleteFunc(m.Require, func(r requirement) bool { return ours(r.Path) }), nil
}

// requirements returns the table of the changes in a go.mod by an import of each entry point. It names the
// modules in prober's own go.mod, and counts the rest.
func requirements() (string, error) {
	root, err := run("list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return "", err
	}
	root = strings.TrimSpace(root)
	prober, err := readGoMod(root)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| an import of | links modules of others | adds requirements | and these are |\n|---|---|---|---|\n")
	for _, entry := range entries {
		dir, err := os.MkdirTemp("", "embedder-")
		if err != nil {
			return "", err
		}
		defer os.RemoveAll(dir)
		linked, added, err := embedder(dir, root, prober, entry)
		if err != nil {
			return "", fmt.Errorf("an import of %s: %w", entry, err)
		}
		fmt.Fprintf(&b, "| `%s` | %d | %d | %s |\n", entry, linked, len(added), names(prober, added))
	}
	return b.String(), nil
}

// names lists the requirements of added that are also in prober's go.mod, with their versions, and counts the rest.
func names(prober goMod, added []requirement) string {
	var named []string
	for _, r := range added {
		if slices.Contains(prober.Require, requirement{Path: r.Path, Version: r.Version}) {
			named = append(named, r.Path+" "+r.Version)
		}
	}
	return list(named, len(added)-len(named))
}
