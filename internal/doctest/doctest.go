// Package doctest runs the commands of documentation pages and compares their output.
//
// It reads two kinds of fenced blocks. A ```console block has commands, each after "$ ", and their combined output.
// In the output, "…" matches the rest of a word or line, or any lines if it is alone on a line. "(exit 2)" is a
// nonzero exit code. A ```console rust block runs only if the toolchain rust is available. A block with a language and
// a path, as in ```go queue/main.go, is a file to write.
package doctest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Page is a page and the environment of its commands.
type Page struct {
	File string   // path of the Markdown file
	Dir  string   // working directory of its commands
	Env  []string // environment of its commands
	Has  func(toolchain string) bool
}

var (
	fenced  = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")
	console = regexp.MustCompile("(?m)^```console\\b")
	weight  = regexp.MustCompile(`(?m)\A---\n(?:.+\n)*weight: (\d+)\n`)
)

// InFolder returns the pages of folder that have commands, in the order of the weights in their front matter.
// Run may run them one after the other in one directory.
func InFolder(t *testing.T, folder string) (files []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	weights := make(map[string]int)
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !console.Match(text) {
			continue
		}
		m := weight.FindSubmatch(text)
		if m == nil {
			t.Fatalf("%s has no weight", file)
		}
		if weights[file], err = strconv.Atoi(string(m[1])); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		files = append(files, file)
	}
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(weights[a], weights[b]) })
	return files
}

// Run runs the page from top to bottom, and returns the number of commands that ran. Commands of toolchains that
// p.Has does not report are left out.
func Run(t *testing.T, p Page) (commands int) {
	t.Helper()
	text, err := os.ReadFile(p.File)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, at := range fenced.FindAllStringSubmatchIndex(string(text), -1) {
		info, body := strings.Fields(string(text[at[2]:at[3]])), string(text[at[4]:at[5]])
		line := 1 + bytes.Count(text[:at[4]], []byte("\n"))
		switch {
		case len(info) > 0 && info[0] == "console":
			found++
			if len(info) == 1 || p.Has(info[1]) {
				commands += p.console(t, line, body)
			}
		case len(info) == 2:
			p.write(t, info[1], body)
		}
	}
	if found == 0 {
		t.Errorf("%s has no commands", p.File)
	}
	return commands
}

// Files returns the files in a page, by path.
func Files(t *testing.T, page string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, m := range fenced.FindAllStringSubmatch(string(text), -1) {
		if info := strings.Fields(m[1]); len(info) == 2 && info[0] != "console" {
			files[info[1]] = m[2]
		}
	}
	return files
}

func (p Page) write(t *testing.T, path, body string) {
	path = filepath.Join(p.Dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
}

// console runs the commands of a block and returns their number.
func (p Page) console(t *testing.T, line int, body string) (commands int) {
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	for i := 0; i < len(lines); {
		command, ok := strings.CutPrefix(lines[i], "$ ")
		if !ok {
			t.Fatalf("%s:%d: want a command after \"$ \": %q", p.File, line+i, lines[i])
		}
		from := i + 1
		for i++; i < len(lines) && !strings.HasPrefix(lines[i], "$ "); i++ {
		}
		got := p.shell(t, command)
		if want := strings.Join(lines[from:i], "\n"); !Like(want, got) {
			t.Errorf("%s:%d: %s\ngot:\n%s\nwant:\n%s", p.File, line+from-1, command, got, want)
		}
		commands++
	}
	return commands
}

// shell runs a command and returns its output.
func (p Page) shell(t *testing.T, command string) string {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir, cmd.Env = p.Dir, p.Env
	out, err := cmd.CombinedOutput()
	text := strings.TrimRight(string(out), "\n")
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		text += fmt.Sprintf("\n(exit %d)", exit.ExitCode())
	} else if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(text, "\n")
}

// Like reports whether got matches want, the output on a page. See the package comment for the rules.
func Like(want, got string) bool {
	if want == "" {
		return got == ""
	}
	var pattern strings.Builder
	pattern.WriteString(`(?s)\A`)
	for line := range strings.SplitSeq(want, "\n") {
		if strings.TrimSpace(line) == "…" {
			pattern.WriteString(`(\n[^\n]*)*?`)
			continue
		}
		pattern.WriteString(`\n`)
		words := regexp.MustCompile(` +`).Split(strings.TrimRight(line, " "), -1)
		for j, word := range words {
			if j > 0 {
				pattern.WriteString(` +`)
			}
			pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(word), "…", `[^\n]*`))
		}
		pattern.WriteString(` *`)
	}
	pattern.WriteString(`\z`)
	return regexp.MustCompile(pattern.String()).MatchString("\n" + got)
}
