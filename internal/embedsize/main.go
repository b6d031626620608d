// Embedsize writes the tables of docs/embed/size.md with the cost of each entry point of prober for a
// program: its size, the third-party modules that it links, and the changes in its go.mod. It also
// writes docs/size.md, with the sizes of the parts of prober's own programs; see weights.go.
package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:generate go run . ../../docs/embed/size.md ../../docs/size.md

// program is a program that embeds prober: a folder of testdata.
type program struct {
	dir  string
	uses string // for the table
}

var programs = []program{
	{"group", "`core/group` and a handler of its own"},
	{"group-three", "`core/group`, execprobe, httpprobe and tcpprobe"},
	{"group-builtin", "`core/group` and the four built-in handlers"},
	{"manager", "`core/manager` and a handler of its own"},
	{"manager-builtin", "`core/manager` and `handlers/builtin`"},
}

func (p program) pkg() string { return "./testdata/" + p.dir }

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: embedsize EMBEDDING SIZE")
		os.Exit(64)
	}
	err := update(os.Args[1])
	if err == nil {
		var page []byte
		if page, err = sizePage(); err == nil {
			err = os.WriteFile(os.Args[2], page, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// update replaces the tables in file.
func update(file string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	sizes := map[string]string{}
	for _, p := range programs {
		if sizes[p.dir], err = size(p); err != nil {
			return err
		}
	}
	text, err := replace(string(page), sizes)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// size builds p and returns its size in megabytes.
func size(p program) (string, error) {
	dir, err := os.MkdirTemp("", "embedsize-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, p.dir)
	if _, err := run("build", "-trimpath", "-ldflags", "-s -w", "-o", binary, p.pkg()); err != nil {
		return "", err
	}
	info, err := os.Stat(binary)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%.1f MB", float64(info.Size())/1e6), nil
}

// run runs the go command for linux/amd64 without cgo, and returns its output.
func run(args ...string) (string, error) { return runIn("", args...) }

// runIn is run in dir.
func runIn(dir string, args ...string) (string, error) {
	c := exec.Command("go", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOWORK=off")
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, &stderr)
	}
	return string(out), nil
}

// table returns the table with the given sizes.
func table(sizes map[string]string) (string, error) {
	var b strings.Builder
	b.WriteString("| a program with | size | links modules of others |\n|---|---|---|\n")
	for _, p := range programs {
		modules, err := modulesOf(p)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", p.uses, sizes[p.dir], modules)
	}
	return b.String(), nil
}

// modulesOf lists the third-party modules that p links. It names direct dependencies of prober, and counts
// the rest.
func modulesOf(p program) (string, error) {
	out, err := run("list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}={{.Indirect}}{{end}}{{end}}", p.pkg())
	if err != nil {
		return "", err
	}
	lines := strings.Fields(out)
	slices.Sort(lines)
	var named []string
	more := 0
	for _, line := range slices.Compact(lines) {
		if path, ok := strings.CutSuffix(line, "=false"); ok {
			named = append(named, path)
		} else {
			more++
		}
	}
	return list(named, more), nil
}

// list returns a cell with names and the number of more.
func list(names []string, more int) string {
	if more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

// The lines around the tables.
const (
	firstOfSizes        = "<!-- The table of sizes is written by `make docs`. -->\n"
	firstOfRequirements = "<!-- The table of requirements is written by `make docs`. -->\n"
	last                = "<!-- The end of the table. -->\n"
)

// replace returns page with new tables, with the given sizes.
func replace(page string, sizes map[string]string) (string, error) {
	t, err := table(sizes)
	if err != nil {
		return "", err
	}
	if page, err = replaceTable(page, firstOfSizes, t); err != nil {
		return "", err
	}
	if t, err = requirements(); err != nil {
		return "", err
	}
	return replaceTable(page, firstOfRequirements, t)
}

// replaceTable returns page with t as the table between the lines first and last.
func replaceTable(page, first, t string) (string, error) {
	before, rest, ok := strings.Cut(page, first)
	_, after, ends := strings.Cut(rest, last)
	if !ok || !ends {
		return "", fmt.Errorf("the lines around the table are missing: %q and %q", first, last)
	}
	return before + first + "\n" + t + "\n" + last + after, nil
}
