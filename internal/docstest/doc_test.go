package docstest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/archtest"
)

// TestDocNamesExist resolves the functions that doc.go names in its lists of steps.
func TestDocNamesExist(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, steps, found := strings.Cut(string(text), "// # One tick")
	if !found {
		t.Fatal("doc.go has no section about one tick")
	}
	names := regexp.MustCompile(`\b([a-z]+(?:/[a-z]+)*)\.((?:[A-Za-z]+\.)?[A-Za-z]+)\b`).FindAllStringSubmatch(steps, -1)
	known := 0
	for _, m := range names {
		dir, name := m[1], m[2]
		if strings.HasSuffix(m[0], ".yaml") || m[0] == "probe.Spec" { // a type
			continue
		}
		known++
		if !functions(t, dir)[name] {
			t.Errorf("doc.go names %s.%s, which does not exist", dir, name)
		}
	}
	if known < 32 {
		t.Errorf("doc.go names %d functions, expected at least 32", known)
	}
}

// TestLivesOfValuesAreShort checks that each value of doc.go lives in six packages at most.
func TestLivesOfValuesAreShort(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, lives, _ := strings.Cut(string(text), "// # Lives of values")
	name := regexp.MustCompile(`\b([a-z]+(?:/[a-z]+)*)\.(?:[A-Za-z]+\.)?[A-Za-z]+\b`)
	count := 0
	for _, life := range regexp.MustCompile(`(?m)^// An? (\w+)[^:\n]*:\n((?://(?:   .*)?\n)+)`).FindAllStringSubmatch(lives, -1) {
		rooms := make(map[string]bool)
		for _, m := range name.FindAllStringSubmatch(life[2], -1) {
			if m[0] != "probe.Spec" && !strings.HasSuffix(m[0], ".yaml") {
				rooms[m[1]] = true
			}
		}
		if count++; len(rooms) < 2 || len(rooms) > 6 {
			t.Errorf("a %s lives in %d packages: %v", life[1], len(rooms), rooms)
		}
	}
	if count != 6 {
		t.Errorf("doc.go has the lives of %d values, not of 6", count)
	}
}

// TestDocNamesActions compares the actions that doc.go names with those of plugin/live.
func TestDocNamesActions(t *testing.T) {
	atRoot(t)
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("plugin/live/decide.go")
	if err != nil {
		t.Fatal(err)
	}
	_, consts, found := strings.Cut(string(source), "type action int")
	if !found {
		t.Fatal("plugin/live/decide.go has no type action")
	}
	consts, _, _ = strings.Cut(consts, "\n)")
	_, list, _ := strings.Cut(string(doc), "plugin/live.decide returns the action: ")
	list, _, _ = strings.Cut(list, ";")
	actions := regexp.MustCompile(`(?m)^\t([a-z]\w*) `).FindAllStringSubmatch(consts, -1)
	if len(actions) < 7 {
		t.Fatalf("plugin/live/decide.go has %d actions, expected at least 7", len(actions))
	}
	for _, action := range actions {
		name := action[1]
		if !strings.HasPrefix(name, "report") && !regexp.MustCompile(`\b`+name+`\b`).MatchString(list) {
			t.Errorf("doc.go does not name the action %s of plugin/live.decide", name)
		}
	}
}

// TestContributingNamesFiles checks that the files and folders that CONTRIBUTING.md names exist.
func TestContributingNamesFiles(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## What a change touches")
	section, _, _ = strings.Cut(section, "\n## ")
	paths := regexp.MustCompile("`([a-zA-Z0-9_./-]*[/.][a-zA-Z0-9_./-]*)`").FindAllStringSubmatch(section, -1)
	if len(paths) < 30 {
		t.Errorf("CONTRIBUTING.md names %d files, expected at least 30", len(paths))
	}
	for _, path := range paths {
		if strings.HasPrefix(path[1], "agent.") || strings.Contains(path[1], "/bannerprobe/") {
			continue // a name of Go, and a file that the text adds
		}
		if _, err := os.Stat(path[1]); err != nil {
			t.Errorf("CONTRIBUTING.md names %s: %v", path[1], err)
		}
	}
}

// functions returns the functions of the package in dir as "name", and its methods as
// "Type.name".
func functions(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]bool)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				all[archtest.Receiver(f)+f.Name.Name] = true
			}
		}
	}
	return all
}
