// Package doctest runs the commands of documentation pages and compares their output.
//
// It reads two kinds of fenced blocks. A ```console block has commands, each after "$ ", and their combined output.
// In the output, "…" matches the rest of a word or line, or any lines if it is alone on a line. "(exit 2)" is a
// nonzero exit code. A block with a language and a path, as in ```go queue/main.go, is a file to write.
//
// A word after console changes how the commands of the block run:
//
//   - background starts each command, waits until its output begins as on the page, and leaves it running. The end of
//     the test interrupts it, and waits for its end. A command without output on the page is not waited for.
//   - eventually runs each command again until its output matches, for at most a minute.
//   - rust, or any other toolchain, runs the block only if the toolchain is available.
package doctest

import (
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
	"time"
)

// Page is a page and the environment of its commands.
type Page struct {
	File string   // path of the Markdown file
	Dir  string   // working directory of its commands
	Env  []string // environment of its commands
	Has  func(toolchain string) bool
	Here *strings.Replacer // replaces texts of the page, such as ports; nil for none
}

// patience limits each wait for an output.
const patience = time.Minute

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
	read, err := os.ReadFile(p.File)
	if err != nil {
		t.Fatal(err)
	}
	text := string(read)
	if p.Here != nil {
		text = p.Here.Replace(text)
	}
	found := 0
	for _, at := range fenced.FindAllStringSubmatchIndex(text, -1) {
		info, body := strings.Fields(text[at[2]:at[3]]), text[at[4]:at[5]]
		line := 1 + strings.Count(text[:at[4]], "\n")
		switch {
		case len(info) > 0 && info[0] == "console":
			found++
			run := func(t *testing.T, command, _ string) string { return p.shell(t, command) }
			switch {
			case len(info) == 1:
			case info[1] == "background":
				run = p.background
			case info[1] == "eventually":
				run = p.eventually
			case !p.Has(info[1]):
				continue
			}
			commands += p.console(t, line, body, run)
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

// console runs the commands of a block and returns their number. run gets a command and its output on the page, and
// returns its output.
func (p Page) console(t *testing.T, line int, body string, run func(t *testing.T, command, want string) (got string)) (commands int) {
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	for i := 0; i < len(lines); {
		command, ok := strings.CutPrefix(lines[i], "$ ")
		if !ok {
			t.Fatalf("%s:%d: want a command after \"$ \": %q", p.File, line+i, lines[i])
		}
		from := i + 1
		for i++; i < len(lines) && !strings.HasPrefix(lines[i], "$ "); i++ {
		}
		want := strings.Join(lines[from:i], "\n")
		if got := run(t, command, want); !Like(want, got) {
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

// eventually runs a command until its output is like want, and returns its last output.
func (p Page) eventually(t *testing.T, command, want string) string {
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		if got := p.shell(t, command); Like(want, got) || time.Now().After(end) {
			return got
		}
	}
}

// background starts a command, which is ended after the test. It returns want if the output begins like it.
// An "&" at the end of the command is for the shell of a reader.
func (p Page) background(t *testing.T, command, want string) string {
	output := filepath.Join(t.TempDir(), "output")
	file, err := os.Create(output)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.Command("sh", "-c", "exec "+strings.TrimSuffix(command, "&"))
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.Dir, p.Env, file, file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Errorf("%s: %v", command, err)
		}
		kill := time.AfterFunc(patience, func() {
			t.Errorf("%s does not end by an interrupt", command)
			cmd.Process.Kill()
		})
		cmd.Wait()
		kill.Stop()
	})
	for end := time.Now().Add(patience); want != ""; time.Sleep(10 * time.Millisecond) {
		got, err := os.ReadFile(output)
		if err != nil {
			t.Fatal(err)
		}
		if Like(want+"\n…", strings.TrimRight(string(got), "\n")) {
			break
		}
		if time.Now().After(end) {
			return string(got)
		}
	}
	return want
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
