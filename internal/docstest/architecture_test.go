package docstest_test

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestArchitectureNamesExist resolves the packages and functions that the pictures name.
func TestArchitectureNamesExist(t *testing.T) {
	atRoot(t)
	const page = "docs/start/architecture.md"
	pictures := blocks(t, page, "goat")
	if len(pictures) != 4 {
		t.Fatalf("%s has %d pictures, want 4", page, len(pictures))
	}
	packages := make(map[string]bool)
	for _, name := range regexp.MustCompile(`\b(?:agent|core|handlers|internal|metrics|plugin|pods)/[a-z/]+\b`).FindAllString(strings.Join(pictures, ""), -1) {
		packages[name] = true
		if info, err := os.Stat(name); err != nil || !info.IsDir() {
			t.Errorf("%s names the package %s, which does not exist", page, name)
		}
	}
	if len(packages) < 15 {
		t.Errorf("%s names %d packages, want at least 15", page, len(packages))
	}
	for picture, c := range map[int]struct {
		pattern string
		dirs    map[string]string // by the first part of a name
	}{
		1: {`\b(?:[A-Za-z]+\.[A-Za-z]+|fold)\b`, map[string]string{"shard": "core/internal/engine", "Worker": "core/internal/engine", "fold": "core/internal/engine", "claims": "core/results"}},
		2: {`\begress(?:\.[A-Za-z]+)+\b`, map[string]string{"egress": "handlers/wasm/internal/egress"}},
	} {
		names := regexp.MustCompile(c.pattern).FindAllString(pictures[picture], -1)
		if len(names) == 0 {
			t.Errorf("picture %d of %s names no function", picture+1, page)
		}
		for _, name := range names {
			first, rest, _ := strings.Cut(name, ".")
			if c.dirs[first] == "" || !functions(t, c.dirs[first])[strings.TrimPrefix(name, path.Base(c.dirs[first])+".")] {
				t.Errorf("%s names %s (%s), which does not exist", page, name, rest)
			}
		}
	}
}

// TestArchitectureStepsAreInOrder compares the picture of a tick with the steps in doc.go.
func TestArchitectureStepsAreInOrder(t *testing.T) {
	atRoot(t)
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, steps, _ := strings.Cut(string(doc), "// # One tick")
	steps, _, _ = strings.Cut(steps, "// # One dial")
	var order []string
	picture := blocks(t, "docs/start/architecture.md", "goat")[1]
	for _, m := range regexp.MustCompile(`(?:engine|results)\.([A-Za-z.]*[A-Za-z])`).FindAllStringSubmatch(steps, -1) {
		if name := m[1]; regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).MatchString(picture) {
			order = append(order, name)
		}
	}
	want := []string{"shard.run", "Worker.fire", "Worker.enter", "Worker.attempts", "Worker.makeAttempt", "Worker.record", "fold", "claims.Set", "Worker.conclude"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
