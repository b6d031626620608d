package main

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// weight is the size of the code and the data of one module in a program.
type weight struct {
	module string
	bytes  uint64
}

// Rows of the table that are not modules.
const (
	standard = "the standard library"
	shared   = "what the linker makes for all: types, strings, names"
	tables   = "tables for stack traces (pclntab)"
)

// leastWeight is the minimum size of a module with its own row.
const leastWeight = 100_000

// weigh builds the program pkg, and returns the size of the file without symbols, and the
// weights of its parts, the heaviest first.
func weigh(pkg string) (total int64, weights []weight, err error) {
	dir, err := os.MkdirTemp("", "embedsize-")
	if err != nil {
		return 0, nil, err
	}
	defer os.RemoveAll(dir)
	for file, flags := range map[string]string{"whole": "-w", "stripped": "-s -w"} {
		if _, err := run("build", "-trimpath", "-ldflags", flags, "-o", filepath.Join(dir, file), pkg); err != nil {
			return 0, nil, err
		}
	}
	info, err := os.Stat(filepath.Join(dir, "stripped"))
	if err != nil {
		return 0, nil, err
	}
	modules, err := modulesByPackage(pkg)
	if err != nil {
		return 0, nil, err
	}
	sizes, err := symbols(filepath.Join(dir, "whole"), modules)
	if err != nil {
		return 0, nil, err
	}
	left := uint64(info.Size())
	for module, size := range sizes {
		weights = append(weights, weight{module, size})
		left -= min(left, size)
	}
	weights = append(weights, weight{shared, left})
	slices.SortFunc(weights, func(a, b weight) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.module, b.module))
	})
	return info.Size(), weights, nil
}

// modulesByPackage returns the modules of the packages that pkg links.
func modulesByPackage(pkg string) (map[string]string, error) {
	out, err := run("list", "-deps", "-json=ImportPath,Name,Module", pkg)
	if err != nil {
		return nil, err
	}
	modules := make(map[string]string)
	for decoder := json.NewDecoder(strings.NewReader(out)); ; {
		var p struct {
			ImportPath, Name string
			Module           *struct{ Path string }
		}
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return modules, nil
		case err != nil:
			return nil, err
		case p.Module != nil && p.Name == "main":
			modules["main"] = p.Module.Path
		case p.Module != nil:
			modules[p.ImportPath] = p.Module.Path
		}
	}
}

// symbols returns the total size of the symbols of each module.
func symbols(file string, modules map[string]string) (map[string]uint64, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := f.Symbols()
	if err != nil {
		return nil, err
	}
	sizes := make(map[string]uint64)
	for _, s := range all {
		if int(s.Section) >= len(f.Sections) || f.Sections[s.Section].Type == elf.SHT_NOBITS {
			continue // zeroes are not in the file
		}
		if module := moduleOf(s.Name, modules); module != "" {
			sizes[module] += s.Size
		}
	}
	if section := f.Section(".gopclntab"); section != nil {
		sizes[tables] = section.Size
	}
	return sizes, nil
}

// moduleOf returns the row of a symbol; "" for a symbol that the linker generates for all modules.
func moduleOf(symbol string, modules map[string]string) string {
	name := strings.ReplaceAll(symbol, "%2e", ".")
	if rest, _, ok := strings.Cut(name, "["); ok { // of a type parameter
		name = rest
	}
	if strings.HasPrefix(name, "go:") || strings.HasPrefix(name, "type:") || strings.HasPrefix(name, "runtime.pclntab") {
		return ""
	}
	slash := max(strings.LastIndexByte(name, '/'), 0)
	dot := strings.IndexByte(name[slash:], '.')
	if dot < 0 {
		return ""
	}
	// The last element of an import path may have dots, as in gopkg.in/inf.v0.
	for end := slash + dot; ; {
		if module, ok := modules[name[:end]]; ok {
			return module
		}
		next := strings.IndexByte(name[min(end+1, len(name)):], '.')
		if next < 0 {
			break
		}
		end += 1 + next
	}
	if strings.Contains(name[:max(strings.IndexByte(name, '/'), 0)], ".") {
		return ""
	}
	return standard
}

// sizePage returns docs/size.md.
func sizePage() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("---\ntitle: What the programs weigh\nweight: 120\ndescription: The size of each program, by module.\n---\n" +
		"# What the programs weigh\n\n<!-- Written by `make docs` from internal/embedsize. Do not edit. -->\n\n" +
		"Of `go build -trimpath -ldflags '-s -w'` for linux/amd64: the code and the data of each module. Modules below 0.1 MB are one row.\n" +
		"The tables for stack traces grow with the code: 0.8 bytes for each byte of it.\n")
	for _, name := range []string{"prober", "prober-probe"} {
		total, weights, err := weigh("../../cmd/" + name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "\n## %s: %s MB\n\n| module | MB |\n|---|---|\n", name, megabytes(uint64(total)))
		small, rest := 0, uint64(0)
		for _, w := range weights {
			if w.bytes < leastWeight {
				small, rest = small+1, rest+w.bytes
				continue
			}
			fmt.Fprintf(&b, "| %s | %s |\n", w.module, megabytes(w.bytes))
		}
		fmt.Fprintf(&b, "| %d smaller modules | %s |\n", small, megabytes(rest))
	}
	return b.Bytes(), nil
}

func megabytes(bytes uint64) string { return fmt.Sprintf("%.1f", float64(bytes)/1e6) }
