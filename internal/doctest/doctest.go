// Package doctest runs the commands of a documentation page and compares their output.
//
// It reads two kinds of fenced blocks. ```console has commands, each after "$ ", and their output with
// standard error: "…" matches the rest of a word or line, or alone on a line any lines. "(exit 2)" is
// an exit code other than 0. A language and a path, as in ```go queue/main.go, is a file to write.
//
// A word after console changes how the commands of the block run:
//
//   - background starts each command, waits until its output begins as on the page, and leaves it running.
//     It gets an interrupt after the last block, and must end. A command without output is not waited for.
//   - eventually runs each command again until its output matches, for at most a minute.
//   - rust, or any other toolchain, runs the block only if the toolchain is there.
package doctest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Page is a page and the environment of its commands.
type Page struct {
	File string   // of Markdown
	Dir  string   // in which its commands run
	Env  []string // of the commands
	Has  func(toolchain string) bool
	Here *strings.Replacer // replaces texts of the page, such as ports; nil for none
}

// patience limits each wait for an output.
const patience = time.Minute

var fenced = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

// Run runs the page from top to bottom.
func Run(t *testing.T, p Page) {
	read, err := os.ReadFile(p.File)
	if err != nil {
		t.Fatal(err)
	}
	text := string(read)
	if p.Here != nil {
		text = p.Here.Replace(text)
	}
	commands := 0
	for _, at := range fenced.FindAllStringSubmatchIndex(text, -1) {
		info, body := strings.Fields(text[at[2]:at[3]]), text[at[4]:at[5]]
		line := 1 + strings.Count(text[:at[4]], "\n")
		switch {
		case slices.Equal(info, []string{"console", "background"}):
			commands += p.console(t, line, body, p.background)
		case slices.Equal(info, []string{"console", "eventually"}):
			commands += p.console(t, line, body, p.eventually)
		case len(info) > 0 && info[0] == "console":
			if len(info) == 1 || p.Has(info[1]) {
				commands += p.console(t, line, body, func(t *testing.T, command, _ string) string { return p.shell(t, command) })
			}
		case len(info) == 2:
			p.write(t, info[1], body)
		}
	}
	if commands == 0 {
		t.Errorf("%s: no command was run", p.File)
	}
}

// Files returns the files that a page has, by their paths.
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

// console runs the commands of a block and returns how many there were. The function run gets a command and the
// output on the page, and returns the output of the command.
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

// Like reports whether got matches the output on a page. The package comment has the rules.
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
